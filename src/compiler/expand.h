#pragma once

#include <functional>
#include <span>
#include <vector>

#include "hammock/ir/graph.h"

namespace hammock {

/// Replaces composites by their expansions until none is left that `wanted` does not keep whole.
/// Expansions run on symbolic tensors; the new nodes inherit location and origin.
Graph ExpandComposites(const Graph& graph,
                       const std::function<bool(const Graph&, NodeId)>& keep = nullptr);

/// The graph of what `function` does to symbolic tensors of these types.
Graph TraceSymbolically(
    std::span<const Shape> types,
    const std::function<std::vector<Tensor>(std::span<const Tensor>)>& function);

}  // namespace hammock
