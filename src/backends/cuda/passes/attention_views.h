#pragma once
/// Attention reads views without a copy, and writes its results in the layout of their users.

#include <cstdint>
#include <optional>

#include "hammock/ir/graph.h"

namespace hammock::cuda {

/// The strides of the rows of a stack of matrices [outer, inner, rows, width], in elements; each
/// row is contiguous.
struct RowLayout {
  int64_t offset = 0, outer = 0, inner = 0, row = 0;
};

/// The strides of a mask, 0 along broadcast dims. `kind` is 0 without a mask, 1 for a boolean one,
/// 2 or 3 if it is added and has the operands' dtype or f32.
struct MaskLayout {
  int64_t kind = 0, outer = 0, inner = 0, row = 0, column = 0;
};
/// Nothing if kernels do not support the mask. An absent mask has no shape.
std::optional<MaskLayout> MaskOf(const Shape& query, const Shape* mask);

/// The sizes of attention; the batch is outer * inner.
struct AttentionSizes {
  int64_t outer = 1, inner = 1, queries = 0, keys = 0, width = 0;
  int64_t batch() const { return outer * inner; }
};

/// Nodes that have kernels become `_attention_strided`. Operands that are views of something else
/// (a part of a joint projection, interleaved heads) become that; results have interleaved heads if
/// that is how they are used.
Graph FoldAttentionViews(Graph graph);

/// Gradients of queries, keys and values that are concatenated, because these were parts of one
/// value, become `_attention_packed_backward`, which writes them side by side. After
/// FoldAttentionViews and RemoveDead.
Graph PackAttentionGradients(Graph graph);

/// The attributes of such nodes. Operands and results are counted from the query on: query, key,
/// value and result, or grad, query, key, value and the gradients of the last three.
AttentionSizes SizesOf(const GraphNode& attention);
RowLayout LayoutOf(const GraphNode& attention, size_t which);
MaskLayout MaskOf(const GraphNode& attention);

}  // namespace hammock::cuda
