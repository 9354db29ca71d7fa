#pragma once
/// NarrowMatMuls, NarrowConvolutions: matmuls and convolutions of values that were cast from
/// narrower ones read those.

#include <functional>
#include <optional>

#include "hammock/ir/graph.h"

namespace hammock {

/// Whether a backend gains by a node of a graph that reads narrow operands.
using TakesNarrow = std::function<bool(const Graph& graph, const GraphNode& node)>;

/// The dtype that a value, perhaps through views, was cast from: f16 or bf16 where it is f32, i8 or
/// u8 where it is i32.
std::optional<DType> NarrowDType(const Graph& graph, GraphValue value);

/// dot_general of f32 whose operands are both casts from f16, or both from bf16, reads them without
/// the casts, as `_dot_general_fused`: the products of elements are the same, and the sums are f32.
/// So does one of i32 whose operands are casts from bytes, the second from i8 (Note [Bytes times
/// bytes]), where `takes` says so; floats are taken without it too. Views between the casts and the
/// matmul are repeated.
Graph NarrowMatMuls(Graph graph, const TakesNarrow& takes = nullptr);

/// The same of convolutions of bytes, as `_convolution_last`. Channels lie as they did.
Graph NarrowConvolutions(Graph graph, const TakesNarrow& takes);

}  // namespace hammock
