#pragma once
/// Where the nodes of a scheduled graph are computed, and which of them are in memory.

#include <vector>

#include "hammock/compiler/schedule.h"

namespace hammock::compiler {

struct Residence {
  Residence(const Graph& graph, const Schedule& schedule);

  /// Whether a node has memory, its own or that of an operand whose bytes it passes on.
  bool IsInMemory(NodeId id) const { return in_memory[id]; }
  /// Whether it is computed once, by the command that it belongs to. Other nodes are computed
  /// wherever they are used.
  bool IsRoot(NodeId id) const { return command[id] >= 0; }

  NodeMap<int> command;  ///< that computes it; -1: none of its own
  NodeMap<bool> in_memory;
};

/// The nodes that compute a value from values in memory, in the order of the graph.
struct Recipe {
  std::vector<NodeId> nodes;      ///< the value's own node is the last
  std::vector<GraphValue> reads;  ///< the values in memory, each once
  int64_t cost = 0;               ///< flops, or as many as a call takes the time of
};

/// How to compute a node again; no nodes where it is not cheap: only elementwise ops, views,
/// reductions, random bits of a given state and copies are, all without effects.
Recipe RecipeOf(const Graph& graph, const Residence& residence, NodeId id);

}  // namespace hammock::compiler
