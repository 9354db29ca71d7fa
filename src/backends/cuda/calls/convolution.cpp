// Convolutions and the gradients of their weights, by the machine's library or by a direct sum.
#include "backends/cuda/passes/computes_channels_last.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "backends/cuda/calls/call_kit.h"
#include "backends/cuda/calls/copies.h"
#include "backends/cuda/calls/device_kernel.h"
#include "backends/cuda/device/convolution_args.h"
#include "backends/cuda/emit/cuda_text.h"
#include "hammock/config.h"
#include "ir/primitives.h"
#include "ops/primitives/channels_last.h"

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

bool IsGradientOfWeight(const GraphNode& node) {
  return node.op == &ops::kConvolutionWeightBackward ||
         node.op == &ops::kConvolutionWeightBackwardLast;
}

/// Whether the channels lie last: of both operands, and of the result. Weights have none.
using Lasts = std::array<bool, 3>;

Lasts LastsOf(const GraphNode& node) {
  if (node.op == &ops::kConvolutionLast) {
    return {node.attr("input_last").boolean(), false, node.attr("result_last").boolean()};
  }
  if (node.op == &ops::kConvolutionWeightBackwardLast) {
    return {node.attr("grad_last").boolean(), node.attr("input_last").boolean(), false};
  }
  return {};
}

/// Both operands and the result, with the channels first.
std::array<Shape, 3> ShapesOf(const Graph& graph, const GraphNode& node) {
  const Lasts last = LastsOf(node);
  std::array<Shape, 3> shapes = {graph.TypeOf(node.inputs[0]), graph.TypeOf(node.inputs[1]),
                                 node.type()};
  for (size_t i = 0; i < shapes.size(); ++i) {
    if (last[i]) shapes[i] = ops::WithChannelsFirst(shapes[i]);
  }
  return shapes;
}

Convolution ConvolutionOf(const GraphNode& node, const std::array<Shape, 3>& shapes) {
  using Kind = Convolution::Kind;
  const auto& [a, b, result] = shapes;
  Convolution c;
  c.kind = IsGradientOfWeight(node)            ? Kind::kWeight
           : node.attr("transposed").boolean() ? Kind::kInput
                                               : Kind::kForward;
  c.dtype = result.dtype();
  c.input = (c.kind == Kind::kForward ? a : c.kind == Kind::kInput ? result : b).sizes();
  c.weight = (c.kind == Kind::kWeight ? result : b).sizes();
  c.out = (c.kind == Kind::kForward ? result : a).sizes();
  c.stride = node.attr("stride").ints();
  c.padding = node.attr("padding").ints();
  c.dilation = node.attr("dilation").ints();
  c.groups = node.attr("groups").integer();
  return c;
}

/// Whether the library does not pay.
bool IsTiny(const Convolution& c) {
  int64_t products = 1;  // each element of `out` is multiplied by the weights of its channel
  for (int64_t size : c.out) products *= size;
  for (int d = 1; d < c.weight.size(); ++d) products *= c.weight[d];
  return products <= kTinyConvolution;
}

bool GainsByChannelsLast(const Convolution& c) {
  const bool narrow = InfoOf(c.dtype).bits == 16;
  const bool rounded = c.dtype == DType::kF32 && config::Get<config::kMatmulPrecision>() == "high";
  return (narrow || rounded) && c.groups == 1 && c.input.size() <= 4;
}

/// Whether both orders of dims are the same order of elements.
bool HasOneOrder(const Dims& sizes) {
  int64_t pixels = 1;
  for (int d = 2; d < sizes.size(); ++d) pixels *= sizes[d];
  return sizes[1] == 1 || pixels == 1;
}

/// A convolution by the library, or by a kernel in cases without one. Tensor cores need the
/// channels last, the kernel needs them first: tensors that lie otherwise are reordered.
class ConvolutionCall : public Call {
 public:
  ConvolutionCall(const Graph& graph, const GraphNode& node, Machine& machine)
      : shapes_(ShapesOf(graph, node)), convolution_(ConvolutionOf(node, shapes_)) {
    const auto& [a, b, result] = shapes_;
    result_bytes_ = result.bytes();
    is_empty_ = a.numel() == 0 || b.numel() == 0;
    if (is_empty_ || result_bytes_ == 0) return;
    if (!IsTiny(convolution_)) {
      convolution_.channels_last = GainsByChannelsLast(convolution_);
      prepared_ = machine.Prepare(convolution_);
      if (!prepared_ && convolution_.channels_last) {
        convolution_.channels_last = false;
        prepared_ = machine.Prepare(convolution_);
      }
    }
    AddReorders(LastsOf(node));
  }

  std::vector<KernelSource> Sources() const override {
    if (is_empty_) return {};
    std::vector<KernelSource> sources;
    for (const Reorder& reorder : reorders_) sources.push_back(reorder.copy.Source());
    if (!prepared_) sources.push_back(OwnSource());
    return sources;
  }
  int64_t scratch_bytes() const override {
    int64_t bytes = prepared_ ? prepared_->scratch_bytes() : 0;
    for (const Reorder& reorder : reorders_) bytes += reorder.bytes;
    return bytes;
  }
  void Run(Machine& machine, const Operands& operands) const override {
    if (result_bytes_ == 0) return;
    const std::array<Address, 3> lie = {operands.in[0], operands.in[1], operands.out[0]};
    if (is_empty_) return machine.Clear(lie[2], result_bytes_);
    std::array<Address, 3> used = lie;
    Address scratch = operands.scratch;
    for (size_t i = 0; i < reorders_.size(); ++i) {
      const Reorder& reorder = reorders_[i];
      used[reorder.tensor] = scratch;
      scratch += static_cast<Address>(reorder.bytes);
      if (reorder.tensor == kResult) continue;
      reorder.copy.Run(machine, function(i), lie[reorder.tensor], used[reorder.tensor]);
    }
    if (prepared_) {
      machine.Convolve(*prepared_, used[0], used[1], used[2], scratch);
    } else {
      RunOwn(machine, used);
    }
    if (used[kResult] == lie[kResult]) return;
    const size_t last = reorders_.size() - 1;
    reorders_[last].copy.Run(machine, function(last), used[kResult], lie[kResult]);
  }

 private:
  static constexpr size_t kResult = 2;
  struct Reorder {
    size_t tensor;  ///< of both operands and the result
    PreparedLaunch copy;
    int64_t bytes;
  };

  void AddReorders(const Lasts& lie_last) {
    const bool last = convolution_.channels_last;
    for (size_t i = 0; i < shapes_.size(); ++i) {
      const Shape& shape = shapes_[i];
      if (lie_last[i] == last || HasOneOrder(shape.sizes())) continue;
      const bool back = i == kResult ? last : !last;
      reorders_.push_back({i, TransposedCopy(shape.dtype(), shape.sizes(), back),
                           (shape.bytes() + 255) / 256 * 256});
    }
  }

  KernelSource OwnSource() const {
    Convolution c = convolution_;
    // As the kernel sees it: of a transposed one, `input` is the operand too.
    if (c.kind == Convolution::Kind::kInput) std::swap(c.input, c.out);
    const bool of_weight = c.kind == Convolution::Kind::kWeight;
    return SourceOf({.file = "convolution.cuh",
                     .function = of_weight ? "convolve_weight<Kind>" : "convolve<Kind>",
                     .argument_bytes = sizeof(ConvolutionArgs<void>),
                     .definitions = KindText(c)});
  }
  /// A thread for each element of an image sums over channels and taps, in order. A block for each
  /// weight: each thread sums every 256th position, then the block sums over its threads.
  void RunOwn(Machine& machine, const std::array<Address, 3>& at) const {
    const int64_t count = shapes_[kResult].numel();
    const bool of_weight = convolution_.kind == Convolution::Kind::kWeight;
    machine.Launch(function(reorders_.size()), of_weight ? BlockGrid(count) : ElementGrid(count),
                   WordsOf(ConvolutionArgs<void>{
                       .count = count, .a = At(at[0]), .b = At(at[1]), .out = At(at[2])}));
  }

  const std::array<Shape, 3> shapes_;  // with the channels first
  Convolution convolution_;
  std::shared_ptr<PreparedOp> prepared_;
  std::vector<Reorder> reorders_;  // in the order of tensors
  int64_t result_bytes_ = 0;
  bool is_empty_ = false;  // nothing is summed
};

std::unique_ptr<Call> MakeConvolution(const Graph& graph, const GraphNode& node,
                                      const CallContext& context) {
  return std::make_unique<ConvolutionCall>(graph, node, context.machine);
}

constexpr CallEntry kCalls[] = {
    {&ops::kConvolution, MakeConvolution},
    {&ops::kConvolutionLast, MakeConvolution},
    {&ops::kConvolutionWeightBackward, MakeConvolution},
    {&ops::kConvolutionWeightBackwardLast, MakeConvolution},
};

}  // namespace

bool ComputesChannelsLast(const Graph& graph, const GraphNode& node) {
  const Convolution c = ConvolutionOf(node, ShapesOf(graph, node));
  return GainsByChannelsLast(c) && !IsTiny(c);
}

std::span<const CallEntry> ConvolutionCalls() { return kCalls; }

}  // namespace hammock::cuda
