#pragma once
/// Quantised tensors: integers (or f8) with scales and zero points as tensors of their own.
///
/// A scale has one element for each block of the tensor: aligned at the right, each of its sizes
/// divides that of the tensor. For a weight f32[n,k]: [] or [1,1] is one scale for all, [n,1] one
/// for each row (channel), [n,k/64] one for each group of 64 in a row. Zero points, of the dtype of
/// the quantised tensor, have the sizes of the scale, or one element.
///
///   Tensor scale = quantization_scale(weight, {n, k / 64}, i4);
///   Tensor q = quantize(weight, scale, std::nullopt, i4);   // i4[n,k]
///   Tensor y = quantized_linear(x, q, scale);               // about linear(x, weight)

#include <optional>

#include "hammock/ir/storage_types.h"
#include "hammock/ops/view.h"
#include "hammock/tensor.h"

namespace hammock {

/// round(self / scale) + zero_point, clamped to what `dtype` holds: any integer of at most 32 bits,
/// or f8, which takes no zero point and is not rounded to integers.
HAMMOCK_API Tensor quantize(const Tensor& self, const Tensor& scale,
                            const std::optional<Tensor>& zero_point = std::nullopt,
                            DType dtype = DType::kI8, HAMMOCK_AT);
/// (self - zero_point) * scale, rounded to `dtype` once.
HAMMOCK_API Tensor dequantize(const Tensor& self, const Tensor& scale,
                              const std::optional<Tensor>& zero_point = std::nullopt,
                              DType dtype = DType::kF32, HAMMOCK_AT);
/// The scale of blocks, of `sizes`, whose largest magnitude becomes the largest of `dtype`: for
/// quantisation without zero points. Of f32, and never 0.
HAMMOCK_API Tensor quantization_scale(const Tensor& self, const Dims& sizes,
                                      DType dtype = DType::kI8, HAMMOCK_AT);

/// self, quantised to whole numbers from `quant_min` to `quant_max` and dequantised: for training a
/// model that will be quantised. Gradients pass where a value was not clamped, as if nothing were
/// rounded; scale and zero point have none.
HAMMOCK_API Tensor fake_quantize_per_tensor_affine(const Tensor& self, const TensorArg& scale,
                                                   const TensorArg& zero_point, int64_t quant_min,
                                                   int64_t quant_max, HAMMOCK_AT);
/// The same with an element of `scale` and `zero_point` for each index along `axis`.
HAMMOCK_API Tensor fake_quantize_per_channel_affine(const Tensor& self, const Tensor& scale,
                                                    const Tensor& zero_point, int64_t axis,
                                                    int64_t quant_min, int64_t quant_max,
                                                    HAMMOCK_AT);

/// linear(input, dequantize(weight, scale, zero_point), bias): a float input, a quantised weight
/// [out, in]. Results have the dtype of `input`.
HAMMOCK_API Tensor quantized_linear(const Tensor& input, const Tensor& weight, const Tensor& scale,
                                    const std::optional<Tensor>& zero_point = std::nullopt,
                                    const std::optional<Tensor>& bias = std::nullopt, HAMMOCK_AT);

/// matmul(self - self_zero, other - other_zero) of i8 or u8, with sums in i32, which wrap. Zero
/// points have one element, or one for each row of `self` ([..., m, 1]) or column of `other`
/// ([..., 1, n]).
HAMMOCK_API Tensor int_matmul(const Tensor& self, const Tensor& other,
                              const std::optional<Tensor>& self_zero = std::nullopt,
                              const std::optional<Tensor>& other_zero = std::nullopt, HAMMOCK_AT);
/// The convolution of (input - input_zero) with (weight - weight_zero), of i8 or u8, with sums in
/// i32. The zero point of the input has one element, that of the weight one or one for each output
/// channel ([out, 1, ...]). Padding is 0 behind the zero point.
HAMMOCK_API Tensor int_convolution(const Tensor& input, const Tensor& weight,
                                   const std::optional<Tensor>& input_zero = std::nullopt,
                                   const std::optional<Tensor>& weight_zero = std::nullopt,
                                   const Dims& stride = {}, const Dims& padding = {},
                                   const Dims& dilation = {}, int64_t groups = 1, HAMMOCK_AT);

}  // namespace hammock
