#pragma once
/// Matmuls of sparse matrices (ops/sparse/sparse_matmul.h) as calls.

#include "backends/cpu/calls/call_kit.h"

namespace hammock::cpu {

std::span<const CallEntry> SparseCalls();
/// Whether a call runs this composite without its expansion.
bool RunsWholeSparse(const Graph& graph, const GraphNode& node);

}  // namespace hammock::cpu
