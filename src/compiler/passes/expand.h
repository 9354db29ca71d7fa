#pragma once

#include <functional>
#include <vector>

#include "hammock/ir/graph.h"
#include "hammock/ir/op_def.h"

namespace hammock {

/// Replaces composites by their expansions until none is left that `wanted` does not keep whole.
/// Expansions run on symbolic tensors; the new nodes inherit location and origin.
Graph ExpandComposites(Graph graph,
                       const std::function<bool(const Graph&, NodeId)>& keep = nullptr);

/// The results of `expand` for a node whose operands are values of `into`, added to it.
std::vector<GraphValue> ExpandNode(const GraphNode& node, ExpandFn expand, Graph& into);

}  // namespace hammock
