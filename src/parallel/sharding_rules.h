#pragma once
/// How ops run on tensors that are cut: one rule for each primitive, asked for each axis of the
/// mesh alone.

#include <optional>
#include <string>
#include <vector>

#include "hammock/distributed/sharding.h"
#include "hammock/ir/graph.h"

namespace hammock::distributed {

/// A node and how its operands lie along one axis.
struct AxisCall {
  const Graph& graph;
  const GraphNode& node;
  int ranks;                  ///< of the axis
  std::vector<Placement> in;  ///< by operand; absent ones count as replicated
  const Shape& type(size_t operand) const { return graph.TypeOf(node.inputs[operand]); }
};

/// How the node is run along that axis.
struct AxisPlan {
  std::vector<Placement> in;  ///< how operands must lie
  Placement out;              ///< how results lie then
  std::string reason;         ///< why operands must lie so
  /// Reduces the result at once: maxima of parts.
  std::optional<Reduction> reduce;
  /// index_select: rows that this rank lacks count as zeros.
  bool lookup_in_part = false;
  /// scatter: one rank adds to the operand, the others to zeros.
  bool scatter_of_parts = false;
};

AxisPlan PlanAxis(const AxisCall& call);

}  // namespace hammock::distributed
