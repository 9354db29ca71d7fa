#pragma once
/// Products as matrix units and libraries take them (`_dot_general_fused`). No bit changes by any
/// of these passes.

#include "hammock/ir/graph.h"

namespace hammock::cuda {

/// dot_general of f32 whose operands are both casts from f16, or both from bf16, takes them as they
/// are: the products are the same, and matrix units make and sum them in f32.
Graph NarrowProducts(Graph graph);

/// Where the only user of such a product rounds it to its operands' dtype, perhaps after a bias was
/// added, it gives that at once. For graphs without dead nodes.
Graph RoundProducts(Graph graph);

/// maximum(x + bias, 0) of a product x of f32 that nobody else uses is made by the product. For
/// graphs without dead nodes.
Graph RectifyProducts(Graph graph);

}  // namespace hammock::cuda
