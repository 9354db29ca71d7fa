#pragma once
/// Small steps that front functions and expansions are made of: nodes without alias tracking.
/// The caller has opened a LocationScope; none of these takes a location.

#include <span>
#include <vector>

#include "hammock/op_builder.h"
#include "hammock/tensor.h"

namespace hammock::ops {

using Tensors = std::vector<Tensor>;

/// These return `x` itself where nothing changes.
Tensor Reshaped(const Tensor& x, const Dims& sizes);
Tensor Permuted(const Tensor& x, const Dims& dims);
Tensor Broadcasted(const Tensor& x, const Dims& sizes);
Tensor Casted(const Tensor& x, DType dtype);
/// `size` elements from `start` by `step`; all of it is part of the key.
Tensor Sliced(const Tensor& x, int dim, int64_t start, int64_t size, int64_t step = 1);
Tensor Concatenated(std::span<const Tensor> tensors, int dim);
Tensor Flipped(const Tensor& x, int dim);
/// `low` and `high` more elements along `dim`, filled with `value`; negative amounts crop.
Tensor Padded(const Tensor& x, int dim, int64_t low, int64_t high, const Scalar& value);
/// 0, 1, 2, ... : i64[size], on the device of `like`.
Tensor Counting(int64_t size, const Tensor& like);
/// As Counting, with `rank` dims of which only `dim` is not of size one.
Tensor CountingAlong(int dim, int rank, int64_t size, const Tensor& like);
/// A constant of x's dtype; part of the key.
Tensor ConstantLike(const Scalar& value, const Tensor& x);
/// A number that ops of numbers alone can use on the device of `like`.
Tensor Placed(const Tensor& scalar, const Tensor& like);
/// A 0-d tensor (a lifted number, say) repeated to `sizes` on the device of `like`.
Tensor Stretched(const Tensor& scalar, const Dims& sizes, const Tensor& like);
/// `value` of `sizes`, on the device of `like`; part of the key.
Tensor Filled(const Dims& sizes, const Scalar& value, DType dtype, const Tensor& like);

Tensor ZerosLike(const Shape& type, const Tensor& like);
/// Sums over what was broadcast to get from `sizes` to the sizes of `x`.
Tensor SummedTo(const Tensor& x, const Dims& sizes);
/// `source` added into `x` along `dim`, slice i to position index[i]; index is a vector.
Tensor AddedAlong(const Tensor& x, int dim, const Tensor& index, const Tensor& source);

/// Moves dim `from` to `to`.
Tensor Moved(const Tensor& x, int from, int to);
/// The sizes without `dims` (or with ones there).
Dims ReducedSizes(const Dims& sizes, const Dims& dims, bool keepdim);
bool Contains(const Dims& dims, int64_t dim);
/// Product of the sizes of `dims`.
int64_t CountOf(const Dims& sizes, const Dims& dims);
/// {dim}, or no dims at all for a 0-d tensor.
Dims OneDim(int dim, int rank);

/// f32 for f16 and bf16, else itself: the dtype in which expansions compute.
DType WideFloat(DType dtype);
/// Integers and bool become the default float.
DType FloatOf(DType dtype);
/// Refuses integers, not complex numbers: "mean: needs a floating dtype, got i64[3]; ...".
void NeedFloat(const char* op, const Tensor& x);
/// "fliplr: needs at least 2 dims, got f32[3]".
void NeedRank(const char* op, const Tensor& x, int rank);

}  // namespace hammock::ops
