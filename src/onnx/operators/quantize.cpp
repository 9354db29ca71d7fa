#include <algorithm>

#include "onnx/operators/window.h"

namespace hammock::onnx {

Tensor Convolved(const Call& c, Tensor x, const Tensor& weight, const std::optional<Tensor>& bias);

namespace {

struct Range {
  double least, most;
};
Range RangeOf(const Call& c, DType dtype) {
  if (IsFloat(dtype)) c.Unsupported("quantised elements of {} are not supported", NameOf(dtype));
  return {InfoOf(dtype).lowest, InfoOf(dtype).highest};
}

/// Scales and zero points so that they broadcast with `x`: one, one a slice of the axis, or one a
/// block of it.
Tensor Spread(const Call& c, const Tensor& scale, const Tensor& x, int64_t axis, int64_t block) {
  if (scale.numel() == 1 && scale.dim() <= 1) return scale.reshape({});
  if (scale.dim() == 1 && block == 0) {
    Dims sizes = Dims::Filled(x.dim(), 1);
    sizes[static_cast<int>(axis)] = scale.numel();
    return scale.reshape(sizes);
  }
  if (scale.dim() != x.dim())
    c.Fail("a scale of {} for {}", scale.shape().to_string(), x.shape().to_string());
  int64_t each = block > 0 ? block : (x.size(axis) + scale.size(axis) - 1) / scale.size(axis);
  Tensor repeated = repeat_interleave(scale, each, axis);
  return narrow(repeated, axis, 0, x.size(axis));
}

int64_t AxisOf(const Call& c, const Tensor& x) {
  int64_t axis = c.Int("axis", 1);
  return x.dim() == 0 ? 0 : std::min<int64_t>(axis < 0 ? axis + x.dim() : axis, x.dim() - 1);
}

Tensor Quantized(const Call& c, const Tensor& x, const Tensor& scale,
                 const std::optional<Tensor>& zero, DType dtype) {
  Range range = RangeOf(c, dtype);
  Tensor wide = x.dtype() == DType::kF64 ? x : x.to(DType::kF32);
  Tensor steps = round(wide / scale.to(wide.dtype()));
  if (zero) steps = steps + zero->to(wide.dtype());
  return clamp(steps, range.least, range.most).to(dtype);
}

Values QuantizeLinear(Call& c) {
  Tensor x = c[0], scale = c[1];
  DType dtype = c.Has(2) ? c[2].dtype() : DType::kU8;
  if (!c.Has(2) && c.Int("output_dtype", 0)) {
    dtype = DTypeOfElement(static_cast<int32_t>(c.Int("output_dtype", 0)));
  }
  int64_t axis = AxisOf(c, x), block = c.Int("block_size", 0);
  std::optional<Tensor> zero;
  if (c.Has(2)) zero = Spread(c, c[2], x, axis, block);
  return {Quantized(c, x, Spread(c, scale, x, axis, block), zero, dtype)};
}

Values DequantizeLinear(Call& c) {
  Tensor x = c[0], scale = c[1];
  DType dtype = c.Int("output_dtype", 0)
                    ? DTypeOfElement(static_cast<int32_t>(c.Int("output_dtype", 0)))
                    : scale.dtype();
  int64_t axis = AxisOf(c, x), block = c.Int("block_size", 0);
  Tensor spread = Spread(c, scale, x, axis, block);
  Tensor steps = x.to(DType::kI32);
  if (c.Has(2)) steps = steps - Spread(c, c[2], x, axis, block).to(DType::kI32);
  return {(steps.to(DType::kF32) * spread.to(DType::kF32)).to(dtype)};
}

/// Elements without their zero point. Floats hold these sums exactly up to 2^24, doubles beyond.
Tensor Centred(const Tensor& x, const std::optional<Tensor>& zero) {
  Tensor wide = x.to(DType::kI32);
  return (zero ? wide - zero->to(DType::kI32) : wide);
}

Tensor IntegerMatmul(const Tensor& a, const Tensor& b) {
  return matmul(a.to(DType::kF64), b.to(DType::kF64)).to(DType::kI32);
}

/// A zero point of each row of the first operand, or of each column of the second.
Tensor RowZero(const Tensor& zero) {
  return zero.dim() == 1 && zero.numel() > 1 ? zero.unsqueeze(-1) : zero;
}

Values MatMulInteger(Call& c) {
  std::optional<Tensor> a_zero = c.Optional(2), b_zero = c.Optional(3);
  if (a_zero) a_zero = RowZero(*a_zero);
  return {IntegerMatmul(Centred(c[0], a_zero), Centred(c[1], b_zero))};
}

Values QLinearMatMul(Call& c) {
  Tensor a = c[0], b = c[3];
  Tensor sums = IntegerMatmul(Centred(a, RowZero(c[2])), Centred(b, c[5]));
  Tensor scale = RowZero(c[1]).to(DType::kF32) * c[4].to(DType::kF32);
  Tensor y = sums.to(DType::kF32) * scale;
  return {Quantized(c, y, c[6].to(DType::kF32), c[7], c[7].dtype())};
}

/// A zero point or scale of each filter.
Tensor OfFilters(const Tensor& value, const Tensor& weight) {
  if (value.numel() == 1) return value.reshape({});
  Dims sizes = Dims::Filled(weight.dim(), 1);
  sizes[0] = value.numel();
  return value.reshape(sizes);
}

Tensor IntegerConvolution(const Call& c, const Tensor& x, const Tensor& weight) {
  return Convolved(c, x.to(DType::kF64), weight.to(DType::kF64), std::nullopt).to(DType::kI32);
}

Values ConvInteger(Call& c) {
  Tensor x = c[0], weight = c[1];
  std::optional<Tensor> weight_zero;
  if (c.Has(3)) weight_zero = OfFilters(c[3], weight);
  return {IntegerConvolution(c, Centred(x, c.Optional(2)), Centred(weight, weight_zero))};
}

Values QLinearConv(Call& c) {
  Tensor x = c[0], weight = c[3];
  Tensor sums = IntegerConvolution(c, Centred(x, c[2]), Centred(weight, OfFilters(c[5], weight)));
  Dims channels = Dims::Filled(sums.dim(), 1);
  channels[1] = sums.size(1);
  if (c.Has(8)) sums = sums + c[8].reshape(channels);
  Tensor scale = c[4].numel() == 1 ? c[4].reshape({}) : c[4].reshape(channels);
  Tensor y = sums.to(DType::kF32) * (c[1].reshape({}) * scale);
  return {Quantized(c, y, c[6], c[7], c[7].dtype())};
}

Values DynamicQuantizeLinear(Call& c) {
  Tensor x = c[0];
  Tensor zero_of = zeros({}, DType::kF32, c.device());
  Tensor least = minimum(amin(x), zero_of), most = maximum(amax(x), zero_of);
  Tensor scale = (most - least) / 255.0;
  Tensor zero = clamp(round(-least / scale), 0, 255).to(DType::kU8);
  return {Quantized(c, x, scale, zero, DType::kU8), scale, zero};
}

constexpr Operator kRows[] = {
    {"ConvInteger", 10, kNewestOpset, ConvInteger},
    {"DequantizeLinear", 10, kNewestOpset, DequantizeLinear},
    {"DynamicQuantizeLinear", 11, kNewestOpset, DynamicQuantizeLinear},
    {"MatMulInteger", 10, kNewestOpset, MatMulInteger},
    {"QLinearConv", 10, kNewestOpset, QLinearConv},
    {"QLinearMatMul", 10, kNewestOpset, QLinearMatMul},
    {"QuantizeLinear", 10, kNewestOpset, QuantizeLinear},
};

}  // namespace

std::span<const Operator> QuantizeOperators() { return kRows; }

}  // namespace hammock::onnx
