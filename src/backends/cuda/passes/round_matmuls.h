#pragma once
/// Passes that bring matmuls into the form of cuBLASLt (`_dot_general_fused`). Neither changes a
/// bit of a result.

#include "hammock/ir/graph.h"

namespace hammock::cuda {

/// If the only user of a matmul of 16-bit floats (see NarrowMatMuls) rounds it to their dtype,
/// perhaps after adding a bias, the matmul does both. For graphs without dead nodes.
Graph RoundMatMuls(Graph graph);

/// maximum(x + bias, 0), where x is an f32 matmul without other users, becomes part of the matmul.
/// For graphs without dead nodes.
Graph FuseBiasAndRelu(Graph graph);

}  // namespace hammock::cuda
