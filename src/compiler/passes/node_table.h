#pragma once
/// Nodes of a graph by op, operands, attributes and types: finds nodes that compute the same.

#include <bit>
#include <vector>

#include "hammock/ir/graph.h"

namespace hammock {

/// Whether an equal node computes the same: it draws nothing by itself and has no effect.
bool CanBeShared(const GraphNode& node);

/// Nodes by what they are. Open addressing, so that a graph takes no allocation for each of them.
class NodeTable {
 public:
  explicit NodeTable(size_t most) : slots_(std::bit_ceil(2 * most + 1)) {}

  /// The node of `graph` that equals `node`; else the id that it will get.
  NodeId FindOrAdd(const Graph& graph, const GraphNode& node);

 private:
  struct Slot {
    uint64_t hash = 0;
    NodeId node;
  };
  std::vector<Slot> slots_;
};

}  // namespace hammock
