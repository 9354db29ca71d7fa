#pragma once
/// KeepChannelsLast: images between convolutions keep their channels last, the layout in which
/// libraries compute.

#include <functional>

#include "hammock/ir/graph.h"

namespace hammock {

/// The parts of a backend that take images with their channels last.
struct ImageRules {
  /// Whether a convolution, or the gradient of a weight, does.
  std::function<bool(const Graph& graph, const GraphNode& node)> takes;
  bool windows = false;     ///< f32 windows without padding become slices
  bool reductions = false;  ///< reductions over all pixels run across the rows of channels
};

/// Convolutions, elementwise ops between them, and what else the rules say work on
/// [N, positions..., C] where that saves more reordering than it costs:
///
///   relu(convolution(x, w) + b) -> relu(_convolution_last(x, w) + permute(b))
///
/// No bit changes: the library always computes with the channels last, and only the positions of
/// the elements differ. Windows become slices and maxima (or sums) in the order in which their call
/// combines them. Reductions have been split, and combine the same elements in the same order.
Graph KeepChannelsLast(Graph graph, const ImageRules& rules);

}  // namespace hammock
