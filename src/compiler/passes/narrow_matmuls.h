#pragma once
/// NarrowMatMuls: matmuls of f32 values that were 16-bit floats read those.

#include <functional>

#include "hammock/ir/graph.h"

namespace hammock {

/// dot_general of f32 whose operands are both casts from f16, or both from bf16, reads them without
/// the casts, as `_dot_general_fused`: the products of elements are the same, and the sums are f32.
/// Views between the casts and the matmul are repeated. `takes`, if given, says whether a backend
/// gains by such a node of a graph.
Graph NarrowMatMuls(Graph graph,
                    const std::function<bool(const Graph&, const GraphNode&)>& takes = nullptr);

}  // namespace hammock
