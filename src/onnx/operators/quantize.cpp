#include <algorithm>
#include <limits>

#include "hammock/ops/quantize.h"
#include "onnx/fold_quantization.h"
#include "onnx/narrow.h"
#include "onnx/operators/quantized.h"
#include "onnx/operators/window.h"

namespace hammock::onnx {

namespace {

/// Scales and zero points so that they broadcast with `x`: one, one a slice of the axis, or one a
/// block of it.
Tensor Spread(const Call& c, const Tensor& scale, const Tensor& x, int64_t axis, int64_t block) {
  if (scale.numel() == 1 && scale.dim() <= 1) return scale.reshape({});
  if (scale.dim() == 1 && block == 0) {
    Dims sizes = Dims::Filled(x.dim(), 1);
    sizes[static_cast<int>(axis)] = scale.numel();
    return scale.reshape(sizes);
  }
  if (scale.dim() != x.dim() || (block <= 0 && scale.size(axis) == 0))
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
  if (IsFloat(dtype)) c.Unsupported("quantised elements of {} are not supported", NameOf(dtype));
  Tensor wide = x.dtype() == DType::kF64 ? x : x.to(DType::kF32);
  return quantize(wide, scale.to(wide.dtype()), zero, dtype);
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

std::optional<Tensor> ZeroPoint(const Call& c, size_t i) {
  if (!c.Has(i)) return std::nullopt;
  if (const Value& zero = c.At(i); zero.known()) {
    const HostTensor& host = zero.source->Host(zero.index);
    bool none = true;
    for (int64_t k = 0; none && k < host.numel(); ++k) none = host.at(k).ToInt() == 0;
    if (none) return std::nullopt;
  }
  return c[i];
}

Tensor Centred(const Integers& x) {
  Tensor wide = x.values.to(DType::kI32);
  return x.zero ? wide - x.zero->to(DType::kI32) : wide;
}

Tensor IntegerMatmul(const Integers& a, const Integers& b) {
  const bool is_row = a.values.dim() == 1, is_column = b.values.dim() == 1;
  Tensor x = is_row ? a.values.unsqueeze(0) : a.values;
  Tensor y = is_column ? b.values.unsqueeze(1) : b.values;
  std::optional<Tensor> column_zero = b.zero;
  if (column_zero && column_zero->dim() == 1) column_zero = column_zero->unsqueeze(0);
  Tensor sums = int_matmul(x, y, a.zero, column_zero);
  if (is_row) sums = sums.squeeze(-2);
  return is_column ? sums.squeeze(-1) : sums;
}

namespace {

/// A zero point or scale of each row of the first operand, or of each column of the second.
Tensor OfRows(const Tensor& value) {
  return value.dim() == 1 && value.numel() > 1 ? value.unsqueeze(-1) : value;
}
/// A scale of all elements has no dims, so that a matmul of two vectors has none either.
Tensor ScaleOf(const Tensor& value) {
  return (value.numel() == 1 ? value.reshape({}) : value).to(DType::kF32);
}
std::optional<Tensor> OfRows(const std::optional<Tensor>& value) {
  return value ? std::optional(OfRows(*value)) : std::nullopt;
}

Values MatMulInteger(Call& c) {
  return {IntegerMatmul({c[0], OfRows(ZeroPoint(c, 2))}, {c[1], ZeroPoint(c, 3)})};
}

/// The most products of two bytes less their zero points whose sum is sure to fit an i32.
constexpr int64_t kMostTerms = std::numeric_limits<int32_t>::max() / (255 * 255);

/// Of two operands, each with its scale and zero point behind it.
Tensor MatmulSums(const Call& c, const Tensor& a, const Tensor& b) {
  return IntegerMatmul({a, OfRows(ZeroPoint(c, 2))}, {b, ZeroPoint(c, 5)});
}
/// The same for operands that the model multiplies as floats: what integers cannot hold is summed
/// in floats.
Tensor RealMatmulSums(const Call& c, const Tensor& a, const Tensor& b) {
  const int64_t terms = b.size(b.dim() == 1 ? 0 : -2);
  if (terms <= kMostTerms) return MatmulSums(c, a, b).to(DType::kF32);
  return matmul(Centred({a, OfRows(ZeroPoint(c, 2))}).to(DType::kF32),
                Centred({b, ZeroPoint(c, 5)}).to(DType::kF32));
}
Tensor MatmulScale(const Call& c) { return ScaleOf(OfRows(c[1])) * ScaleOf(c[4]); }

/// Sums in steps of the result: their scales as one factor, as runtimes of integers have it.
Tensor Steps(const Tensor& sums, const Tensor& scale, const Tensor& of_result) {
  return sums.to(DType::kF32) * (scale / of_result.reshape({}).to(DType::kF32));
}
Values OfSteps(const Call& c, const Tensor& steps, size_t zero) {
  return {Quantized(c, steps, full({}, 1.0, DType::kF32, c.device()), c[zero], c[zero].dtype())};
}

Values QLinearMatMul(Call& c) {
  return OfSteps(c, Steps(MatmulSums(c, c[0], c[3]), MatmulScale(c), c[6]), 7);
}

Values DequantizedMatMul(Call& c) { return {RealMatmulSums(c, c[0], c[3]) * MatmulScale(c)}; }

Values DequantizedGemm(Call& c) {
  Tensor y = RealMatmulSums(c, c.Int("transA", 0) ? c[0].t() : c[0],
                            c.Int("transB", 0) ? c[3].t() : c[3]) *
             MatmulScale(c);
  return {c.Has(6) ? y + c[6] : y};
}

/// `x` with more of its zero point around it.
Tensor PaddedByZero(const Integers& x, const Dims& before, const Dims& after) {
  Tensor padded = x.values;
  for (int i = 0; i < before.size(); ++i) {
    auto edge = [&](int64_t size) {
      Dims sizes = padded.sizes();
      sizes[i + 2] = size;
      if (!x.zero) return zeros(sizes, padded.dtype(), padded.device());
      return broadcast_to(x.zero->reshape({}).to(padded.dtype()), sizes);
    };
    if (before[i] > 0) padded = cat({edge(before[i]), padded}, i + 2);
    if (after[i] > 0) padded = cat({padded, edge(after[i])}, i + 2);
  }
  return padded;
}

/// The exact sums of a convolution. What is padded on one side only is padded before it.
Tensor IntegerConvolution(const Call& c, const Integers& x, const Integers& weight) {
  std::vector<int64_t> kernel;
  for (int i = 2; i < weight.values.dim(); ++i) kernel.push_back(weight.values.size(i));
  Windows w = WindowsOf(c, x.values.sizes(), kernel);
  Dims padding, before, after;
  for (size_t i = 0; i < kernel.size(); ++i) {
    padding.push_back(std::min(w.before[i], w.after[i]));
    before.push_back(w.before[i] - padding.back());
    after.push_back(w.after[i] - padding.back());
  }
  std::optional<Tensor> x_zero = x.zero;
  if (x_zero) x_zero = x_zero->reshape({});
  return int_convolution(PaddedByZero(x, before, after), weight.values, x_zero, weight.zero,
                         Dims(w.strides), padding, Dims(w.dilations), c.Int("group", 1));
}

Values ConvInteger(Call& c) {
  return {IntegerConvolution(c, {c[0], ZeroPoint(c, 2)}, {c[1], ZeroPoint(c, 3)})};
}

Tensor OfChannels(const Tensor& value, int64_t rank) {
  if (value.numel() == 1) return value.reshape({});
  Dims sizes = Dims::Filled(static_cast<int>(rank), 1);
  sizes[1] = value.numel();
  return value.reshape(sizes);
}

/// Of an input and a weight, each with its scale and zero point behind it.
Tensor ConvolutionSums(const Call& c) {
  return IntegerConvolution(c, {c[0], ZeroPoint(c, 2)}, {c[3], ZeroPoint(c, 5)});
}
Tensor ConvolutionScale(const Call& c, int64_t rank) {
  return c[1].reshape({}) * OfChannels(c[4], rank);
}

/// See RealMatmulSums.
Tensor RealConvolutionSums(const Call& c) {
  const Tensor weight = c[3];
  if (weight.numel() <= kMostTerms * weight.size(0)) return ConvolutionSums(c).to(DType::kF32);
  std::optional<Tensor> zero = ZeroPoint(c, 5);
  if (zero && zero->dim() == 1) {
    Dims sizes = Dims::Filled(weight.dim(), 1);
    sizes[0] = zero->numel();
    zero = zero->reshape(sizes);
  }
  return Convolved(c, Centred({c[0], ZeroPoint(c, 2)}).to(DType::kF32),
                   Centred({weight, zero}).to(DType::kF32), std::nullopt);
}

Values DequantizedConv(Call& c) {
  Tensor sums = RealConvolutionSums(c);
  Tensor y = sums * ConvolutionScale(c, sums.dim());
  return {c.Has(6) ? y + OfChannels(c[6], y.dim()) : y};
}

}  // namespace

Values QLinearConv(Call& c) {
  Tensor sums = ConvolutionSums(c);
  if (c.Has(8)) sums = sums + OfChannels(c[8], sums.dim());
  return OfSteps(c, Steps(sums, ConvolutionScale(c, sums.dim()), c[6]), 7);
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
    {"Conv", 1, 1, DequantizedConv, Needs::kNothing, kDequantizedDomain},
    {"Gemm", 1, 1, DequantizedGemm, Needs::kNothing, kDequantizedDomain},
    {"MatMul", 1, 1, DequantizedMatMul, Needs::kNothing, kDequantizedDomain},
};

}  // namespace

Tensor RoundedToRange(const Call& c, const Tensor& x) {
  Levels levels = LevelsOf(c, x);
  Tensor scale = where(eq(levels.scale, 0), ones_like(levels.scale), levels.scale);
  return Dequantized(Quantized(c, x, scale, levels.zero, DType::kU8), scale, levels.zero);
}

std::span<const Operator> QuantizeOperators() { return kRows; }

}  // namespace hammock::onnx
