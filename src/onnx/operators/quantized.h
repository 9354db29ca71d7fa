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
/// An input that is a zero point, unless it is known to be 0.
std::optional<Tensor> ZeroPoint(const Call& call, size_t input);
/// 8-bit integers and their zero point, which broadcasts.
struct Integers {
  Tensor values;
  std::optional<Tensor> zero = std::nullopt;
};
/// Elements without their zero point, in i32.
Tensor Centred(const Integers& x);
/// Exact sums in i32 of the products of elements without their zero points.
Tensor IntegerMatmul(const Integers& a, const Integers& b);
/// QLinearConv of ONNX.
Values QLinearConv(Call& call);

/// Attention of com.microsoft after its first matmul.
struct AttentionInputs {
  Tensor projected;  ///< queries, keys and values side by side
  std::optional<Tensor> mask, past, bias;
};
Values AttentionOf(Call& call, const AttentionInputs& inputs);

}  // namespace hammock::onnx
