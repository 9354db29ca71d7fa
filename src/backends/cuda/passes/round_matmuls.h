#pragma once
/// Passes that bring matmuls into the form of tensor cores and cuBLASLt (`_dot_general_fused`).
/// None of them changes a bit of a result.

#include "hammock/ir/graph.h"

namespace hammock::cuda {

/// dot_general of f32 whose operands are both casts from f16, or both from bf16, reads them without
/// the casts: the products of elements are the same, and tensor cores compute and sum them in f32.
Graph NarrowMatMuls(Graph graph);

/// If the only user of such a matmul rounds it to the dtype of its operands, perhaps after adding a
/// bias, the matmul does both. For graphs without dead nodes.
Graph RoundMatMuls(Graph graph);

/// maximum(x + bias, 0), where x is an f32 matmul without other users, becomes part of the matmul.
/// For graphs without dead nodes.
Graph FuseBiasAndRelu(Graph graph);

}  // namespace hammock::cuda
