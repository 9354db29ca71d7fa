#pragma once
/// KeepChannelsLast: images between convolutions keep their channels last, the layout of the
/// library.

#include "hammock/ir/graph.h"

namespace hammock::cpu {

/// Convolutions, elementwise ops between them, and windows without padding work
/// on [N, positions..., C] where that saves more reordering than it costs:
///
///   relu(convolution(x, w) + b) -> relu(_convolution_last(x, w) + permute(b))
///
/// No bit changes: the library always computes with the channels last, and only the positions of
/// the elements differ. Windows become slices and maxima (or sums) in the order in which their call
/// combines them. Reductions have been split.
Graph KeepChannelsLast(Graph graph);

}  // namespace hammock::cpu
