#pragma once
/// Which convolutions the library computes with the channels of images last.

#include "hammock/ir/graph.h"

namespace hammock::cuda {

/// Whether it would, of a convolution or the gradient of a weight whose images have their channels
/// first: tensor cores need that layout.
bool ComputesChannelsLast(const Graph& graph, const GraphNode& node);

}  // namespace hammock::cuda
