#include "backends/cpu/passes/keep_channels_last.h"

#include <utility>

#include "backends/cpu/matmul/matmul.h"
#include "compiler/passes/channels_last.h"
#include "ir/primitives.h"

namespace hammock::cpu {
namespace {

bool TakesLayouts(const Graph& graph, const GraphNode& node) {
  if (node.op != &ops::kConvolution) return false;
  return Convolution::TakesLayouts(ConvolutionSpec::Of(
      graph.TypeOf(node.inputs[0]), graph.TypeOf(node.inputs[1]), node.attr("stride").ints(),
      node.attr("padding").ints(), node.attr("dilation").ints(), node.attr("transposed").boolean(),
      node.attr("output_padding").ints(), node.attr("groups").integer()));
}

}  // namespace

Graph KeepChannelsLast(Graph graph) {
  return hammock::KeepChannelsLast(std::move(graph), {.takes = TakesLayouts, .windows = true});
}

}  // namespace hammock::cpu
