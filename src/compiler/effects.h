#pragma once

#include "hammock/ir/graph.h"

namespace hammock {

/// The effect of running a node: its record's, or the strongest in its bodies.
Effect EffectOf(const GraphNode& node);

/// Of each node, whether a result or an ordered effect needs it. Inputs are needed: parameters keep
/// their numbers.
NodeMap<bool> NeededNodes(const Graph& graph);

}  // namespace hammock
