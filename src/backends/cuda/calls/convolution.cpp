// Convolutions and the gradients of their weights, by the machine's library or by a direct sum.
#include <fmt/format.h>

#include "backends/cuda/calls/call_kit.h"
#include "backends/cuda/driver/copies.h"
#include "backends/cuda/emit/cuda_text.h"
#include "backends/cuda/emit/scalar_text.h"
#include "hammock/config.h"
#include "ir/primitives.h"

namespace hammock::cuda {
namespace {

/// The number of multiplications up to which the library does not pay.
constexpr int64_t kTinyConvolution = 1 << 15;

int64_t Positions(const Shape& shape) {
  int64_t positions = 1;
  for (int d = 2; d < shape.rank(); ++d) positions *= shape.size(d);
  return positions;
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
    Prepare(c, out_, input_.numel() == 0 || weight_.numel() == 0, machine);
  }

 private:
  KernelSource OwnSource() const override {
    ScalarText scalars;
    DType dtype = out_.dtype();
    std::string_view type = MemoryType(dtype),
                     sum = dtype == DType::kF64 ? "double" : ValueType(dtype);
    int dims = out_.rank() - 2;
    std::string body = fmt::format(
        "  const {0}* input = (const {0}*)w1;\n  const {0}* weight = (const {0}*)w2;\n"
        "  long long rest = i;\n",
        type);
    for (int d = dims; d-- > 0;) {
      body +=
          fmt::format("  const long long o{0} = rest % {1}; rest /= {1};\n", d, out_.size(d + 2));
    }
    int64_t out_group = out_.size(1) / groups_, in_group = input_.size(1) / groups_;
    body += fmt::format(
        "  const long long channel = rest % {0}, image = rest / {0};\n"
        "  const long long group = channel / {1};\n"
        "  {2} sum = 0;\n  for (long long c = 0; c < {3}; ++c) {{\n"
        "  const {4}* plane = input + (image * {5} + group * {3} + c) * {6};\n",
        out_.size(1), out_group, sum, in_group, type, input_.size(1), Positions(input_));
    body += transposed_
                ? fmt::format(
                      "  const {0}* taps = weight + ((group * {1} + c) * {2} + channel % {2}) "
                      "* {3};\n",
                      type, in_group, out_group, Positions(weight_))
                : fmt::format("  const {0}* taps = weight + (channel * {1} + c) * {2};\n", type,
                              in_group, Positions(weight_));
    std::string index = "0", tap = "0";
    for (int d = 0; d < dims; ++d) {
      body += fmt::format("  for (long long t{0} = 0; t{0} < {1}; ++t{0}) {{\n", d,
                          weight_.size(d + 2));
      body += Position(d);
      index = fmt::format("({}) * {} + p{}", index, input_.size(d + 2), d);
      tap = fmt::format("({}) * {} + t{}", tap, weight_.size(d + 2), d);
    }
    body += fmt::format("  sum += ({0})({1}) * ({0})({2});\n", sum,
                        scalars.FromMemory(fmt::format("plane[{}]", index), dtype),
                        scalars.FromMemory(fmt::format("taps[{}]", tap), dtype));
    for (int d = 0; d <= dims; ++d) body += "  }\n";
    body += fmt::format("  (({}*)w3)[i] = {};\n", type, scalars.ToMemory("sum", dtype));
    return ElementKernel(4, scalars.Functions(), body);
  }
  void RunOwn(Machine& machine, Address a, Address b, Address out) const override {
    machine.Launch(function(0), ElementGrid(out_.numel()),
                   std::vector<uint64_t>{Argument(out_.numel()), a, b, out});
  }
  /// p is the index in the input that tap t reads.
  std::string Position(int d) const {
    auto at = [d](const Dims& list) { return list[d]; };
    if (!transposed_) {
      return fmt::format(
          "  const long long p{0} = o{0} * {1} + t{0} * {2} - {3};\n"
          "  if (p{0} < 0 || p{0} >= {4}) continue;\n",
          d, at(stride_), at(dilation_), at(padding_), input_.size(d + 2));
    }
    return fmt::format(
        "  const long long q{0} = o{0} + {3} - t{0} * {2}, p{0} = q{0} / {1};\n"
        "  if (q{0} < 0 || q{0} % {1} != 0 || p{0} >= {4}) continue;\n",
        d, at(stride_), at(dilation_), at(padding_), input_.size(d + 2));
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
    Prepare(c, weight_, input_.numel() == 0 || grad_.numel() == 0, machine);
  }

 private:
  KernelSource OwnSource() const override {
    ScalarText scalars;
    DType dtype = weight_.dtype();
    std::string_view type = MemoryType(dtype), sum = ValueType(dtype);
    int dims = weight_.rank() - 2;
    std::string body = fmt::format(
        "  const {0}* grad = (const {0}*)w1;\n  const {0}* input = (const {0}*)w2;\n"
        "  long long rest = block;\n",
        type);
    for (int d = dims; d-- > 0;) {
      body += fmt::format("  const long long t{0} = rest % {1}; rest /= {1};\n", d,
                          weight_.size(d + 2));
    }
    body += fmt::format(
        "  const long long channel = rest / {0};\n"
        "  const long long from = channel / {1} * {0} + rest % {0};\n  {2} sum = 0;\n"
        "  for (long long i = threadIdx.x; i < {3}; i += 256) {{\n"
        "    const long long image = i / {4};\n    long long place = i % {4}, at = 0;\n"
        "    const long long at_grad = (image * {5} + channel) * {4} + place;\n"
        "    bool inside = true;\n",
        weight_.size(1), weight_.size(0) / groups_, sum, grad_.size(0) * Positions(grad_),
        Positions(grad_), grad_.size(1));
    int64_t step = 1;
    for (int d = dims; d-- > 0;) {
      body += fmt::format(
          "    const long long p{0} = place % {1} * {2} + t{0} * {3} - {4}; place /= {1};\n"
          "    inside = inside && p{0} >= 0 && p{0} < {5};\n    at += p{0} * {6};\n",
          d, grad_.size(d + 2), stride_[d], dilation_[d], padding_[d], input_.size(d + 2), step);
      step *= input_.size(d + 2);
    }
    body += fmt::format(
        "    at += (image * {0} + from) * {1};\n    if (inside) sum += {2} * {3};\n  }}\n"
        "  __shared__ {4} sums[256];\n  sums[threadIdx.x] = sum;\n  __syncthreads();\n"
        "  for (int half = 128; half >= 1; half /= 2) {{\n"
        "    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];\n"
        "    __syncthreads();\n  }}\n"
        "  if (threadIdx.x == 0) (({5}*)w3)[block] = {6};\n",
        input_.size(1), Positions(input_), scalars.FromMemory("grad[at_grad]", dtype),
        scalars.FromMemory("input[at]", dtype), sum, type, scalars.ToMemory("sums[0]", dtype));
    return BlockKernel(4, scalars.Functions(), body);
  }
  void RunOwn(Machine& machine, Address a, Address b, Address out) const override {
    machine.Launch(function(0), BlockGrid(weight_.numel()),
                   std::vector<uint64_t>{Argument(weight_.numel()), a, b, out});
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
