#include "backends/cpu/passes/keep_channels_last.h"

#include <utility>

#include "backends/cpu/calls/fused_matmul.h"
#include "compiler/passes/channels_last.h"
#include "compiler/passes/narrow_matmuls.h"
#include "ir/primitives.h"

namespace hammock::cpu {
namespace {

/// A convolution of values that were bytes is one of these: NarrowByteConvolutions follows.
bool TakesLayouts(const Graph& graph, const GraphNode& node) {
  if (node.op != &ops::kConvolution) return false;
  ConvolutionSpec spec = ConvolutionSpecOf(graph, node);
  if (node.type().dtype() == DType::kI32) {
    const std::optional<DType> input = NarrowDType(graph, node.inputs[0]);
    if (!input || NarrowDType(graph, node.inputs[1]) != DType::kI8) return false;
    spec.input = spec.input.With(*input);
    spec.weight = spec.weight.With(DType::kI8);
  }
  return Convolution::TakesLayouts(spec);
}

bool TakesBytes(const Graph& graph, const GraphNode& node) {
  return Convolution::TakesLayouts(ConvolutionSpecOf(graph, node));
}

}  // namespace

Graph KeepChannelsLast(Graph graph) {
  return hammock::KeepChannelsLast(std::move(graph), {.takes = TakesLayouts, .windows = true});
}

Graph NarrowByteConvolutions(Graph graph) {
  return NarrowConvolutions(std::move(graph), TakesBytes);
}

}  // namespace hammock::cpu
