#pragma once
/// The records that matmuls of sparse matrices are made of. A matrix is given by the rows and
/// columns of its elements, in any order and perhaps repeated; all operands may have one batch dim
/// in front. Each op's gradient is made of the others.

#include "hammock/ir/op_def.h"
#include "hammock/tensor.h"

namespace hammock::ops {

/// crow i64[R+1], col i64[n], values [n], other [K,N] -> [R,N]: elements crow[r] to crow[r+1] are
/// those of row r.
extern const OpDef kCsrMatmul;
/// row i64[n], col i64[n], values [n], other [K,N] -> [rows,N].
extern const OpDef kCooMatmul;
/// row i64[n], col i64[n], a [R,N], b [K,N] -> [n]: the dot products of a's and b's rows.
extern const OpDef kSampledMatmul;

Tensor CsrMatmul(const Tensor& crow, const Tensor& col, const Tensor& values, const Tensor& other);
Tensor CooMatmul(const Tensor& row, const Tensor& col, const Tensor& values, const Tensor& other,
                 int64_t rows);
Tensor SampledMatmul(const Tensor& row, const Tensor& col, const Tensor& a, const Tensor& b);

/// The row of each of `count` elements, given where rows begin.
Tensor RowsOfElements(const Tensor& crow, int64_t count);

}  // namespace hammock::ops
