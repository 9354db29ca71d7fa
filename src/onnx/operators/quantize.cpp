#include <algorithm>

#include "onnx/narrow.h"
#include "onnx/operators/quantized.h"
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

}  // namespace

Tensor Quantized(const Call& c, const Tensor& x, const Tensor& scale,
                 const std::optional<Tensor>& zero, DType dtype) {
  Range range = RangeOf(c, dtype);
  Tensor wide = x.dtype() == DType::kF64 ? x : x.to(DType::kF32);
  Tensor steps = round(wide / scale.to(wide.dtype()));
  if (zero) steps = steps + zero->to(wide.dtype());
  return clamp(steps, range.least, range.most).to(dtype);
}

Tensor Dequantized(const Tensor& x, const Tensor& scale, const std::optional<Tensor>& zero) {
  return Centred({x, zero}).to(DType::kF32) * scale.to(DType::kF32);
}

namespace {

/// The same for codes. Zero points of floats are 0.
Value QuantizedNarrow(const Call& c, const Tensor& x, const Tensor& scale,
                      const std::optional<Tensor>& zero, int32_t element) {
  Tensor steps = x.to(DType::kF32) / scale.to(DType::kF32);
  if (!IsNarrowInteger(element)) {
    if (zero) steps = steps + Decoded(*zero, element);
  } else {
    steps = round(steps);
    if (zero) steps = steps + zero->to(DType::kF32);
    NarrowRange range = RangeOfNarrow(element);
    steps = clamp(steps, range.lowest, range.highest);
  }
  Value codes = Encoded(steps, element, {.saturate = c.Int("saturate", 1) != 0});
  codes.element = element;
  return codes;
}

/// Of the quantised elements: the zero point's, else `output_dtype`, else uint8.
int32_t QuantizedElement(const Call& c) {
  if (c.Has(2)) return c.At(2).element ? c.At(2).element : ElementOfDType(c[2].dtype());
  int64_t given = c.Int("output_dtype", 0);
  return given ? static_cast<int32_t>(given) : int32_t{format::kUint8};
}

Values QuantizeLinear(Call& c) {
  Tensor x = c[0], scale = c[1];
  int32_t element = QuantizedElement(c);
  int64_t axis = AxisOf(c, x), block = c.Int("block_size", 0);
  std::optional<Tensor> zero;
  if (c.Has(2)) zero = Spread(c, c[2], x, axis, block);
  Tensor spread = Spread(c, scale, x, axis, block);
  if (IsNarrow(element)) return {QuantizedNarrow(c, x, spread, zero, element)};
  return {Quantized(c, x, spread, zero, DTypeOfElement(element))};
}

Values DequantizeLinear(Call& c) {
  Tensor x = c[0], scale = c[1];
  DType dtype = c.Int("output_dtype", 0)
                    ? DTypeOfElement(static_cast<int32_t>(c.Int("output_dtype", 0)))
                    : scale.dtype();
  int64_t axis = AxisOf(c, x), block = c.Int("block_size", 0);
  Tensor spread = Spread(c, scale, x, axis, block);
  if (int32_t element = c.At(0).element; element && !IsNarrowInteger(element)) {
    return {(Decoded(x, element) * spread.to(DType::kF32)).to(dtype)};
  }
  Tensor steps = x.to(DType::kI32);
  if (c.Has(2)) steps = steps - Spread(c, c[2], x, axis, block).to(DType::kI32);
  return {(steps.to(DType::kF32) * spread.to(DType::kF32)).to(dtype)};
}

}  // namespace

Tensor Centred(const Integers& x) {
  Tensor wide = x.values.to(DType::kI32);
  return x.zero ? wide - x.zero->to(DType::kI32) : wide;
}

namespace {

/// Exact sums of `terms` products of numbers within +-255. An f32 holds integers up to 2^24: where
/// sums may be larger, the second operand is taken in two digits of base 16, each with sums that
/// fit; f64 is the last resort. `sums_of` multiplies floats.
template <class SumsOf>
Tensor ExactSums(const Tensor& a, const Tensor& b, int64_t terms, SumsOf sums_of) {
  constexpr int64_t kMost = int64_t{1} << 24, kLargest = 255, kLargestDigit = 16;
  if (terms * kLargest * kLargest <= kMost) {
    return sums_of(a.to(DType::kF32), b.to(DType::kF32)).to(DType::kI32);
  }
  if (terms * kLargest * kLargestDigit <= kMost) {
    Tensor high = bitwise_right_shift(b + 8, 4), low = b - bitwise_left_shift(high, 4);
    Tensor wide = a.to(DType::kF32);
    Tensor high_sums = sums_of(wide, high.to(DType::kF32)).to(DType::kI32);
    return bitwise_left_shift(high_sums, 4) + sums_of(wide, low.to(DType::kF32)).to(DType::kI32);
  }
  return sums_of(a.to(DType::kF64), b.to(DType::kF64)).to(DType::kI32);
}

}  // namespace

Tensor IntegerMatmul(const Integers& a, const Integers& b) {
  return ExactSums(Centred(a), Centred(b), a.values.dim() > 0 ? a.values.size(-1) : 1,
                   [](const Tensor& x, const Tensor& y) { return matmul(x, y); });
}

namespace {

/// A zero point of each row of the first operand, or of each column of the second.
Tensor RowZero(const Tensor& zero) {
  return zero.dim() == 1 && zero.numel() > 1 ? zero.unsqueeze(-1) : zero;
}

Values MatMulInteger(Call& c) {
  std::optional<Tensor> a_zero = c.Optional(2), b_zero = c.Optional(3);
  if (a_zero) a_zero = RowZero(*a_zero);
  return {IntegerMatmul({c[0], a_zero}, {c[1], b_zero})};
}

Values QLinearMatMul(Call& c) {
  Tensor a = c[0], b = c[3];
  Tensor sums = IntegerMatmul({a, RowZero(c[2])}, {b, c[5]});
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

Tensor IntegerConvolution(const Call& c, const Integers& x, const Integers& weight) {
  int64_t terms = weight.values.numel() / std::max<int64_t>(weight.values.size(0), 1);
  return ExactSums(Centred(x), Centred(weight), terms, [&](const Tensor& a, const Tensor& b) {
    return Convolved(c, a, b, std::nullopt);
  });
}

Values ConvInteger(Call& c) {
  Tensor x = c[0], weight = c[1];
  std::optional<Tensor> weight_zero;
  if (c.Has(3)) weight_zero = OfFilters(c[3], weight);
  return {IntegerConvolution(c, {x, c.Optional(2)}, {weight, weight_zero})};
}

}  // namespace

Values QLinearConv(Call& c) {
  Tensor x = c[0], weight = c[3];
  Tensor sums = IntegerConvolution(c, {x, c[2]}, {weight, OfFilters(c[5], weight)});
  Dims channels = Dims::Filled(sums.dim(), 1);
  channels[1] = sums.size(1);
  if (c.Has(8)) sums = sums + c[8].reshape(channels);
  Tensor scale = c[4].numel() == 1 ? c[4].reshape({}) : c[4].reshape(channels);
  Tensor y = sums.to(DType::kF32) * (c[1].reshape({}) * scale);
  return {Quantized(c, y, c[6], c[7], c[7].dtype())};
}

namespace {

struct Levels {
  Tensor scale, zero;
};
/// Of 256 levels from the least to the largest element, of which one is 0.
Levels LevelsOf(const Call& c, const Tensor& x) {
  Tensor none = zeros({}, DType::kF32, c.device());
  Tensor least = minimum(amin(x), none), most = maximum(amax(x), none);
  Tensor scale = (most - least) / 255.0;
  return {scale, clamp(round(-least / scale), 0, 255).to(DType::kU8)};
}

Values DynamicQuantizeLinear(Call& c) {
  Tensor x = c[0];
  Levels levels = LevelsOf(c, x);
  return {Quantized(c, x, levels.scale, levels.zero, DType::kU8), levels.scale, levels.zero};
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

Tensor RoundedToRange(const Call& c, const Tensor& x) {
  Levels levels = LevelsOf(c, x);
  Tensor scale = where(eq(levels.scale, 0), ones_like(levels.scale), levels.scale);
  return Dequantized(Quantized(c, x, scale, levels.zero, DType::kU8), scale, levels.zero);
}

std::span<const Operator> QuantizeOperators() { return kRows; }

}  // namespace hammock::onnx
