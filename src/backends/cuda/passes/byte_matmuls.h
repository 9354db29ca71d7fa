#pragma once

#include "hammock/ir/graph.h"

namespace hammock::cuda {

/// Whether a matmul of bytes to i32 (`_dot_general_fused`) has the sizes that the matrix units
/// multiply, after SignByteMatMuls if its first operand is u8.
bool MultipliesBytes(const Graph& graph, const GraphNode& node);

/// The matrix units multiply signed bytes only: u8 becomes i8 by subtracting 128, and 128 times the
/// sum of each column of the second operand is added to the result. Sums wrap, so no bit changes.
Graph SignByteMatMuls(Graph graph);

}  // namespace hammock::cuda
