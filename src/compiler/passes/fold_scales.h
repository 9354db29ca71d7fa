#pragma once

#include "hammock/ir/graph.h"

namespace hammock {

/// A matmul or convolution whose result is only scaled and shifted for each channel, as a batch
/// norm with running statistics does, gets a scaled weight and one shift instead:
///
///   (convolution(x, w) - mean) * scale + bias -> convolution(x, w * scale) + (bias - mean * scale)
///
/// Where the result has more elements than the weight. Roundings change, so this is for `fast_math`
/// alone. Nodes that nothing uses any more stay behind for RemoveDead.
Graph FoldScales(const Graph& graph);

}  // namespace hammock
