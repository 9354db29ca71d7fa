#pragma once
/// The roles of nodes in kernels, and which of them have memory of their own.

#include <optional>
#include <vector>

#include "hammock/compiler/program_outputs.h"

namespace hammock::compiler {

/// Whether it is `reduce_sum` or one of its kind, over any dims.
bool IsReduction(const OpDef& op);
/// The reduction over one dim that a node is; nothing for other nodes.
std::optional<ReduceFn> ReductionOf(const GraphNode& node);
/// Whether it is computed element by element from operands of its own shape, and cannot fail.
bool IsPointwise(const Graph& graph, const GraphNode& node);
/// Whether its elements are elements of its operand, at indices that are known.
bool IsView(const GraphNode& node);
/// Whether it writes two values side by side; a value in memory, whose users read single parts.
bool IsPair(const GraphNode& node);
/// Leaves that are computed rather than read.
bool IsGenerated(const GraphNode& node);

/// The facts of a graph that the builder needs.
struct FusionFacts {
  const Graph& graph;
  NodeMap<bool> is_root;    ///< its values are computed once and have buffers
  NodeMap<BufferId> first;  ///< the buffer of its first value

  explicit FusionFacts(const Graph& graph);
  BufferId BufferOf(GraphValue value) const { return first[value.node] + value.index; }
};

/// The bits of a number in a dtype's own form, in the lowest bytes.
uint64_t BitsOf(const Scalar& value, DType dtype);

}  // namespace hammock::compiler
