#pragma once

#include <functional>

#include "hammock/ir/graph.h"

namespace hammock {

/// Replaces composites by their expansions until none is left that `wanted` does not keep whole.
/// Expansions run on symbolic tensors; the new nodes inherit location and origin.
Graph ExpandComposites(Graph graph,
                       const std::function<bool(const Graph&, NodeId)>& keep = nullptr);

}  // namespace hammock
