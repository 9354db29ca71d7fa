// Convolutions and the gradients of their weights, by the machine's library or by a direct sum.
#include <fmt/format.h>

#include "backends/cuda/calls/call_kit.h"
#include "backends/cuda/calls/device_kernel.h"
#include "backends/cuda/device/convolution_args.h"
#include "backends/cuda/driver/copies.h"
#include "backends/cuda/emit/cuda_text.h"
#include "hammock/config.h"
#include "ir/primitives.h"

namespace hammock::cuda {
namespace {

/// The number of multiplications up to which the library does not pay.
constexpr int64_t kTinyConvolution = 1 << 15;

/// The text of a kind of convolution.cuh.
std::string KindText(const Convolution& c) {
  ScalarText scalars;
  TypeText kind("Kind");
  kind.Type("Element", MemoryType(c.dtype))
      .Type("Sum", ValueType(c.dtype))
      .Constant("kDims", int64_t{c.stride.size()})
      .Constants("kInput", c.input)
      .Constants("kWeight", c.weight)
      .Constants("kOut", c.out)
      .Constants("kStride", c.stride)
      .Constants("kPadding", c.padding)
      .Constants("kDilation", c.dilation)
      .Constant("kGroups", c.groups)
      .Constant("kTransposed", c.kind == Convolution::Kind::kInput)
      .Function("Sum value(Element x)", scalars.FromMemory("x", c.dtype))
      .Function("Element result(Sum x)", scalars.ToMemory("x", c.dtype));
  return scalars.Functions() + kind.Text();
}

/// A copy of a tensor [a, channels, positions...] to [a, positions..., channels], or back.
PreparedLaunch TransposedCopy(DType dtype, const Dims& sizes, bool back) {
  Dims order = {0}, transposed = {sizes[0]};
  for (int d = 2; d < sizes.size(); ++d) order.push_back(d);
  order.push_back(1);
  for (int i = 1; i < order.size(); ++i) transposed.push_back(sizes[static_cast<int>(order[i])]);
  Dims plain = ContiguousStrides(sizes), strides = ContiguousStrides(transposed);
  Layout from;
  for (int i = 0; i < order.size(); ++i) {
    from.strides.push_back(back ? 0 : plain[static_cast<int>(order[i])]);
  }
  if (!back)
    return PreparedLaunch(CopyLaunch(dtype, transposed, from, ContiguousLayout(transposed)));
  for (int i = 0; i < order.size(); ++i) from.strides[static_cast<int>(order[i])] = strides[i];
  return PreparedLaunch(CopyLaunch(dtype, sizes, from, ContiguousLayout(sizes)));
}

/// A convolution by the library; subclasses have a kernel for cases without one. Tensor cores need
/// the channels last: operands are transposed, and the result is transposed back.
class LibraryCall : public Call {
 public:
  std::vector<KernelSource> Sources() const override {
    if (is_empty_) return {};
    if (!prepared_) return {OwnSource()};
    std::vector<KernelSource> sources;
    for (const Transpose& transpose : transposes_) sources.push_back(transpose.copy.Source());
    return sources;
  }
  int64_t scratch_bytes() const override {
    int64_t bytes = prepared_ ? prepared_->scratch_bytes() : 0;
    for (const Transpose& transpose : transposes_) bytes += transpose.bytes;
    return bytes;
  }
  void Run(Machine& machine, const Operands& operands) const override {
    if (result_bytes_ == 0) return;
    Address a = operands.in[0], b = operands.in[1], out = operands.out[0];
    if (is_empty_) return machine.Clear(out, result_bytes_);
    if (!prepared_) return RunOwn(machine, a, b, out);
    if (transposes_.empty()) return machine.Convolve(*prepared_, a, b, out, operands.scratch);
    Address transposed_a = operands.scratch;
    Address transposed_b = transposed_a + static_cast<Address>(transposes_[0].bytes);
    Address transposed_out = transposed_b + static_cast<Address>(transposes_[1].bytes);
    Address rest = transposed_out + static_cast<Address>(transposes_[2].bytes);
    transposes_[0].copy.Run(machine, function(0), a, transposed_a);
    transposes_[1].copy.Run(machine, function(1), b, transposed_b);
    machine.Convolve(*prepared_, transposed_a, transposed_b, transposed_out, rest);
    transposes_[2].copy.Run(machine, function(2), transposed_out, out);
  }

 protected:
  void Prepare(Convolution c, const Shape& result, bool is_empty, Machine& machine) {
    result_bytes_ = result.bytes();
    is_empty_ = is_empty;
    if (is_empty || result_bytes_ == 0) return;
    int64_t products = 1;  // each element of `out` is multiplied by the weights of its channel
    for (int64_t size : c.out) products *= size;
    for (int d = 1; d < c.weight.size(); ++d) products *= c.weight[d];
    if (products <= kTinyConvolution) return;
    bool narrow = InfoOf(c.dtype).bits == 16;
    bool rounded = c.dtype == DType::kF32 && config::Get<config::kMatmulPrecision>() == "high";
    c.channels_last = (narrow || rounded) && c.groups == 1 && c.input.size() <= 4;
    prepared_ = machine.Prepare(c);
    if (prepared_ && c.channels_last) TransposeAll(c);
    if (prepared_ || !c.channels_last) return;
    c.channels_last = false;
    prepared_ = machine.Prepare(c);
  }
  virtual KernelSource OwnSource() const = 0;
  virtual void RunOwn(Machine& machine, Address a, Address b, Address out) const = 0;

 private:
  struct Transpose {
    PreparedLaunch copy;
    int64_t bytes;
  };

  /// Prepares the copies of both operands and the result, in this order.
  void TransposeAll(const Convolution& c) {
    using Kind = Convolution::Kind;
    auto add = [&](const Dims& sizes, bool back) {
      int64_t bytes = Shape(c.dtype, sizes).bytes();
      transposes_.push_back({TransposedCopy(c.dtype, sizes, back), (bytes + 255) / 256 * 256});
    };
    add(c.kind == Kind::kForward ? c.input : c.out, false);
    add(c.kind == Kind::kWeight ? c.input : c.weight, false);
    add(c.kind == Kind::kForward ? c.out : c.kind == Kind::kInput ? c.input : c.weight, true);
  }

  std::shared_ptr<PreparedOp> prepared_;
  std::vector<Transpose> transposes_;  // three, or none
  int64_t result_bytes_ = 0;
  bool is_empty_ = false;  // nothing is summed
};

/// One thread for each element of the result sums over channels and taps, in order.
class ConvolutionCall : public LibraryCall {
 public:
  ConvolutionCall(const Graph& graph, const GraphNode& node, Machine& machine)
      : input_(graph.TypeOf(node.inputs[0])),
        weight_(graph.TypeOf(node.inputs[1])),
        out_(node.type()),
        stride_(node.attr("stride").ints()),
        padding_(node.attr("padding").ints()),
        dilation_(node.attr("dilation").ints()),
        transposed_(node.attr("transposed").boolean()),
        groups_(node.attr("groups").integer()) {
    Prepare(Described(), out_, input_.numel() == 0 || weight_.numel() == 0, machine);
  }

 private:
  Convolution Described() const {
    Convolution c;
    c.kind = transposed_ ? Convolution::Kind::kInput : Convolution::Kind::kForward;
    c.dtype = out_.dtype();
    c.input = transposed_ ? out_.sizes() : input_.sizes();
    c.out = transposed_ ? input_.sizes() : out_.sizes();
    c.weight = weight_.sizes();
    c.stride = stride_;
    c.padding = padding_;
    c.dilation = dilation_;
    c.groups = groups_;
    return c;
  }
  KernelSource OwnSource() const override {
    // As the kernel sees it: of a transposed one, `input` is the operand too.
    Convolution c = Described();
    c.input = input_.sizes();
    c.out = out_.sizes();
    return SourceOf({.file = "convolution.cuh",
                     .function = "convolve<Kind>",
                     .argument_bytes = sizeof(ConvolutionArgs<void>),
                     .definitions = KindText(c)});
  }
  void RunOwn(Machine& machine, Address a, Address b, Address out) const override {
    machine.Launch(function(0), ElementGrid(out_.numel()),
                   WordsOf(ConvolutionArgs<void>{
                       .count = out_.numel(), .a = At(a), .b = At(b), .out = At(out)}));
  }
  Shape input_, weight_, out_;
  Dims stride_, padding_, dilation_;
  bool transposed_;
  int64_t groups_;
};

/// A block for each weight: each thread sums every 256th position of the result, then the block
/// sums over its threads.
class WeightBackwardCall : public LibraryCall {
 public:
  WeightBackwardCall(const Graph& graph, const GraphNode& node, Machine& machine)
      : grad_(graph.TypeOf(node.inputs[0])),
        input_(graph.TypeOf(node.inputs[1])),
        weight_(node.type()),
        stride_(node.attr("stride").ints()),
        padding_(node.attr("padding").ints()),
        dilation_(node.attr("dilation").ints()),
        groups_(node.attr("groups").integer()) {
    Prepare(Described(), weight_, input_.numel() == 0 || grad_.numel() == 0, machine);
  }

 private:
  Convolution Described() const {
    Convolution c;
    c.kind = Convolution::Kind::kWeight;
    c.dtype = weight_.dtype();
    c.input = input_.sizes();
    c.out = grad_.sizes();
    c.weight = weight_.sizes();
    c.stride = stride_;
    c.padding = padding_;
    c.dilation = dilation_;
    c.groups = groups_;
    return c;
  }
  KernelSource OwnSource() const override {
    return SourceOf({.file = "convolution.cuh",
                     .function = "convolve_weight<Kind>",
                     .argument_bytes = sizeof(ConvolutionArgs<void>),
                     .definitions = KindText(Described())});
  }
  void RunOwn(Machine& machine, Address a, Address b, Address out) const override {
    machine.Launch(function(0), BlockGrid(weight_.numel()),
                   WordsOf(ConvolutionArgs<void>{
                       .count = weight_.numel(), .a = At(a), .b = At(b), .out = At(out)}));
  }

  Shape grad_, input_, weight_;
  Dims stride_, padding_, dilation_;
  int64_t groups_;
};

template <class T>
std::unique_ptr<Call> MakeOn(const Graph& graph, const GraphNode& node,
                             const CallContext& context) {
  return std::make_unique<T>(graph, node, context.machine);
}

constexpr CallEntry kCalls[] = {
    {&ops::kConvolution, MakeOn<ConvolutionCall>},
    {&ops::kConvolutionWeightBackward, MakeOn<WeightBackwardCall>},
};

}  // namespace

std::span<const CallEntry> ConvolutionCalls() { return kCalls; }

}  // namespace hammock::cuda
