#pragma once

#include "hammock/ir/graph.h"

namespace hammock::cuda {

/// dot_general of f32 whose operands are both casts from f16, or both from bf16, takes them as they
/// are: the products are the same, and matrix units make and sum them in f32. Such a node's type is
/// f32, its operands' are not. Where its only user rounds it to their dtype, perhaps after a bias
/// was added, it gives that at once; the bias is its third operand. No bit changes by that.
Graph NarrowProducts(Graph graph);

/// maximum(x + bias, 0) of a product x of f32 that nobody else uses is made by the product: the
/// bias is its third operand, and a fourth one, which is absent, says that nothing is below 0. No
/// bit changes by that.
Graph RectifyProducts(Graph graph);

}  // namespace hammock::cuda
