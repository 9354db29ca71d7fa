#pragma once

#include "hammock/ir/graph.h"

namespace hammock {

/// The effect of running a node: its record's, or the strongest in its bodies.
Effect EffectOf(const GraphNode& node);

/// The input of the graph at which a slice begins, if it is one: the run can be refused before it
/// begins, and the slice cannot fail in it. An empty id otherwise.
NodeId StartInput(const Graph& graph, const GraphNode& node);
/// Whether a node can fail in the middle of a run.
bool CanFailLate(const Graph& graph, const GraphNode& node);

/// Of each node, whether a result or an ordered effect needs it. Inputs are needed: parameters keep
/// their numbers.
NodeMap<bool> NeededNodes(const Graph& graph);

}  // namespace hammock
