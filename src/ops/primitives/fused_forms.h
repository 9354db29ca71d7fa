#pragma once
/// Ops with what surrounds them, as libraries and kernels take them: what a compiled graph may use
/// inside. Each is a composite of the plain ops, so that every graph has a meaning of its own.

#include "hammock/ir/op_def.h"

namespace hammock::ops {

inline bool IsByte(DType dtype) { return dtype == DType::kI8 || dtype == DType::kU8; }
/// An operand of bytes as i32, in which their products are summed; others as they are.
Shape WithByteSums(const Shape& operand);

/// `dot_general` with sums in a wide float, plus `bias` (one element for each column, of the
/// result's dtype), then perhaps rectified, rounded to `dtype` once. Bytes are summed in i32.
extern const OpDef kDotGeneralFused;

/// `scatter` into zeros of `sizes` where `self` is absent, and with one index for each row of
/// `source` along `dim` where the index is a vector.
extern const OpDef kScatterRows;

/// Note [Strided attention]: `_attention` on operands that are views of others. `sizes` are outer,
/// inner, queries, keys, width; the batch is outer * inner. `strides` are those of the mask (what
/// it is, outer, inner, row, column), then of each operand and result: offset, outer, inner, row,
/// in elements of what the operand is a view of. Results are [outer, inner, rows, width], or with
/// `bshd` (batch, sequence, heads, width) [outer, rows, inner, width].
extern const OpDef kAttentionStrided;
extern const OpDef kAttentionStridedBackward;
/// The three gradients as one value [outer, rows, 3, inner, width], each plus 0, so that there is
/// no -0. With `bshd`, and as many keys as queries.
extern const OpDef kAttentionPackedBackward;

}  // namespace hammock::ops
