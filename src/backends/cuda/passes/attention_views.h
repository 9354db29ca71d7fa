#pragma once
/// Attention takes its operands, and leaves its results, where they lie.

#include <cstdint>
#include <optional>

#include "hammock/ir/graph.h"

namespace hammock::cuda {

/// Where rows of a stack of matrices [outer, inner, rows, width] begin, in elements; those of a row
/// lie one after another.
struct RowLayout {
  int64_t offset = 0, outer = 0, inner = 0, row = 0;
};

/// Where a mask's elements lie, 0 along dims that it is repeated over; `kind` is 0 where there is
/// none, 1 if it says what takes part, 2 or 3 if numbers of the operands' dtype or f32 are added.
struct MaskLayout {
  int64_t kind = 0, outer = 0, inner = 0, row = 0, column = 0;
};
/// Nothing where kernels do not have such a mask. An absent one has no shape.
std::optional<MaskLayout> MaskOf(const Shape& query, const Shape* mask);

/// The sizes of attention; the batch is outer * inner.
struct AttentionSizes {
  int64_t outer = 1, inner = 1, queries = 0, keys = 0, width = 0;
  int64_t batch() const { return outer * inner; }
};

/// Nodes that have kernels become `_attention_strided`. Operands that are views of something else
/// (a part of a joint projection, heads beside each other) become that; results lie with heads
/// beside each other if that is how they are used.
Graph AttentionViews(Graph graph);

/// The attributes of such nodes. Operands and results are counted from the query on: query, key,
/// value and result, or grad, query, key, value and the gradients of the last three.
AttentionSizes SizesOf(const GraphNode& attention);
RowLayout LayoutOf(const GraphNode& attention, size_t which);
MaskLayout MaskOf(const GraphNode& attention);

}  // namespace hammock::cuda
