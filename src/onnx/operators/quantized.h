#pragma once
/// Steps that the quantised operators of ONNX and of com.microsoft share.

#include <optional>

#include "onnx/operators/families.h"

namespace hammock::onnx {

/// round(x / scale) + zero within the range of an integer dtype.
Tensor Quantized(const Call& call, const Tensor& x, const Tensor& scale,
                 const std::optional<Tensor>& zero, DType dtype);
/// (x - zero) * scale in f32.
Tensor Dequantized(const Tensor& x, const Tensor& scale, const std::optional<Tensor>& zero);
/// Floats rounded to the 256 levels of their own range, as DynamicQuantizeLinear has them.
Tensor RoundedToRange(const Call& call, const Tensor& x);
/// Elements without their zero point, in i32.
Tensor Centred(const Tensor& x, const std::optional<Tensor>& zero);
/// Exact sums in i32 of the products of centred elements.
Tensor IntegerMatmul(const Tensor& a, const Tensor& b);
/// QLinearConv of ONNX.
Values QLinearConv(Call& call);

/// Attention of com.microsoft after its first matmul.
struct AttentionInputs {
  Tensor projected;  ///< queries, keys and values side by side
  std::optional<Tensor> mask, past, bias;
};
Values AttentionOf(Call& call, const AttentionInputs& inputs);

}  // namespace hammock::onnx
