#pragma once
/// The Fourier primitives as steps of functions. `normalization` is that of the records: 0 none,
/// 1 by the root of the number of elements, 2 by that number.

#include "hammock/tensor.h"

namespace hammock::ops {

Tensor TransformedC2C(const Tensor& x, const Dims& dims, int normalization, bool forward);
Tensor TransformedR2C(const Tensor& x, int dim, int normalization);
Tensor TransformedC2R(const Tensor& x, int dim, int normalization, int64_t size);
/// All `size` frequencies of a real signal from its first half.
Tensor Mirrored(const Tensor& half, int dim, int64_t size);
/// `x` in a dtype that transforms take: integers become f32; f16 and bf16 do in the scope of an
/// AutocastGuard, and are refused elsewhere.
Tensor Transformable(const char* op, const Tensor& x);

}  // namespace hammock::ops
