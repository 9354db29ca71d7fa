#include <algorithm>
#include <cmath>
#include <limits>

#include "onnx/narrow.h"
#include "onnx/operators/families.h"

namespace hammock::onnx {
namespace {

using BinaryFn = Tensor (*)(const Tensor&, const TensorArg&, Location);

/// Before opset 7 the second operand was aligned by `axis`, not from the last dim.
Tensor Aligned(const Call& c, const Tensor& a, const Tensor& b) {
  if (c.opset() >= 7 || !c.Int("broadcast", 0) || !c.HasAttribute("axis")) return b;
  Dims sizes = b.sizes();
  for (int64_t i = Wrapped(c, c.Int("axis", 0), a.dim()) + b.dim(); i < a.dim(); ++i) {
    sizes.push_back(1);
  }
  return b.reshape(sizes);
}

template <BinaryFn F>
Values Binary(Call& c) {
  Tensor a = c[0];
  return {F(a, Aligned(c, a, c[1]), Location())};
}

template <Tensor (*F)(const Tensor&, Location)>
Values Unary(Call& c) {
  return {F(c[0], Location())};
}

Values Div(Call& c) {
  Tensor a = c[0], b = Aligned(c, a, c[1]);
  return {IsFloat(a.dtype()) ? div(a, b) : div(a, b, "trunc").to(a.dtype())};
}

Values Mod(Call& c) { return {c.Int("fmod", 0) ? fmod(c[0], c[1]) : remainder(c[0], c[1])}; }

Values Pow(Call& c) {
  Tensor a = c[0], b = Aligned(c, a, c[1]);
  if (a.dtype() == b.dtype()) return {pow(a, b)};
  if (!IsFloat(a.dtype()) && IsFloat(b.dtype())) {
    return {pow(a.to(DType::kF64), b.to(DType::kF64)).to(a.dtype())};
  }
  return {pow(a, b.to(a.dtype()))};
}

template <BinaryFn F>
Values Folded(Call& c) {
  Tensor result = c[0];
  for (size_t i = 1; i < c.size(); ++i) result = F(result, c[i], Location());
  return {result};
}

Values Mean(Call& c) { return {Folded<add>(c)[0].tensor / static_cast<double>(c.size())}; }

Values Clip(Call& c) {
  Tensor x = c[0];
  if (c.opset() < 11) {
    if (c.HasAttribute("min")) x = clamp_min(x, c.Float("min", 0));
    if (c.HasAttribute("max")) x = clamp_max(x, c.Float("max", 0));
    return {x};
  }
  // An upper bound below the lower one wins.
  if (c.Has(1)) x = maximum(x, c[1]);
  if (c.Has(2)) x = minimum(x, c[2]);
  return {x};
}

/// The first input as elements of another type, from and to narrow ones too.
Value Converted(const Call& c, int32_t element) {
  Tensor x = c.At(0).element ? Decoded(c[0], c.At(0).element) : c[0];
  if (!IsNarrow(element)) return x.to(DTypeOfElement(element));
  std::string round_mode = c.Text("round_mode", "up");
  Value codes =
      Encoded(x, element, {.saturate = c.Int("saturate", 1) != 0, .round_mode = round_mode});
  codes.element = element;
  return codes;
}

Values Cast(Call& c) {
  if (c.At(0).kind == Value::Kind::kStrings || c.Int("to", 0) == format::kString) {
    return {CastOfText(c)};
  }
  return {Converted(c, static_cast<int32_t>(c.Int("to", 0)))};
}

Values CastLike(Call& c) {
  const Value& like = c.At(1);
  return {Converted(c, like.element ? like.element : ElementOfDType(c[1].dtype()))};
}

Values BitCast(Call& c) {
  return {view_dtype(c[0], DTypeOfElement(static_cast<int32_t>(c.Int("to", 0))))};
}

Values BitShift(Call& c) {
  bool left = c.Text("direction") == "LEFT";
  return {left ? bitwise_left_shift(c[0], c[1]) : bitwise_right_shift(c[0], c[1])};
}

Values IsInf(Call& c) {
  Tensor x = c[0];
  bool up = c.Int("detect_positive", 1), down = c.Int("detect_negative", 1);
  if (up && down) return {isinf(x)};
  if (!up && !down) return {zeros_like(x, DType::kBool)};
  return {up ? isposinf(x) : isneginf(x)};
}

Values Equal(Call& c) {
  if (c.At(0).kind != Value::Kind::kStrings) return Binary<eq>(c);
  const Strings &a = c.Texts(0), &b = c.Texts(1);
  bool one = b.elements.size() == 1;
  if (a.elements.size() != b.elements.size() && !one) c.Unsupported("strings that broadcast");
  HostTensor equal(Shape(DType::kBool, a.sizes));
  for (size_t i = 0; i < a.elements.size(); ++i) {
    equal.mutable_values<bool>()[i] = a.elements[i] == b.elements[one ? 0 : i];
  }
  return {Value::Known(equal)};
}

Values HardSigmoid(Call& c) {
  return {clamp(c[0] * c.Float("alpha", 0.2) + c.Float("beta", 0.5), 0.0, 1.0)};
}

Values HardSwish(Call& c) {
  Tensor x = c[0];
  return {x * clamp(x / 6.0 + 0.5, 0.0, 1.0)};
}

Values Selu(Call& c) {
  double alpha = c.Float("alpha", 1.67326319217681884765625);
  double gamma = c.Float("gamma", 1.05070102214813232421875);
  Tensor x = c[0];
  return {elu(x, alpha) * gamma};
}

Values Celu(Call& c) { return {celu(c[0], c.Float("alpha", 1))}; }
Values Elu(Call& c) { return {elu(c[0], c.Float("alpha", 1))}; }
Values LeakyRelu(Call& c) { return {leaky_relu(c[0], c.Float("alpha", 0.01))}; }
Values ThresholdedRelu(Call& c) { return {threshold(c[0], c.Float("alpha", 1), 0)}; }
Values Gelu(Call& c) { return {gelu(c[0], c.Text("approximate", "none"))}; }
Values Swish(Call& c) {
  Tensor x = c[0];
  return {x * sigmoid(x * c.Float("alpha", 1))};
}
Values Softplus(Call& c) {
  Tensor x = c[0];
  return {maximum(x, zeros_like(x)) + log1p(exp(-abs(x)))};
}

Values Shrink(Call& c) {
  Tensor x = c[0];
  double lambda = c.Float("lambd", 0.5), bias = c.Float("bias", 0);
  Tensor moved = where(x < -lambda, (x + bias).to(x.dtype()),
                       where(x > lambda, (x - bias).to(x.dtype()), zeros_like(x)));
  return {moved};
}

/// The slope broadcasts from the last dim; before opset 7 it had one element a channel.
Values PRelu(Call& c) {
  Tensor x = c[0], slope = c[1];
  if (c.opset() < 7 && slope.numel() > 1) {
    Dims sizes = Dims::Filled(x.dim(), 1);
    sizes[1] = slope.numel();
    slope = slope.reshape(sizes);
  }
  return {where(x < 0, slope * x, x)};
}

Values Where(Call& c) { return {where(c[0], c[1], c[2])}; }

Values Identity(Call& c) { return {c.At(0)}; }

Values Dropout(Call& c) {
  Tensor x = c[0];
  bool training = c.opset() >= 12 && c.Has(2) && c.Number(2).ToBool();
  double ratio = c.opset() < 12 ? c.Float("ratio", 0.5) : c.Has(1) ? c.Number(1).ToDouble() : 0.5;
  if (!training || ratio == 0) return {x, ones_like(x, c.opset() < 10 ? x.dtype() : DType::kBool)};
  Tensor mask = rand_like(x, DType::kF32) >= ratio;
  return {where(mask, x / (1 - ratio), zeros_like(x)), mask};
}

constexpr Operator kRows[] = {
    {"Abs", 1, kNewestOpset, Unary<abs>},
    {"Acos", 7, kNewestOpset, Unary<acos>},
    {"Acosh", 9, kNewestOpset, Unary<acosh>},
    {"Add", 1, kNewestOpset, Binary<add>},
    {"And", 1, kNewestOpset, Binary<logical_and>},
    {"Asin", 7, kNewestOpset, Unary<asin>},
    {"Asinh", 9, kNewestOpset, Unary<asinh>},
    {"Atan", 7, kNewestOpset, Unary<atan>},
    {"Atanh", 9, kNewestOpset, Unary<atanh>},
    {"BitCast", 26, kNewestOpset, BitCast},
    {"BitShift", 11, kNewestOpset, BitShift},
    {"BitwiseAnd", 18, kNewestOpset, Binary<bitwise_and>},
    {"BitwiseNot", 18, kNewestOpset, Unary<bitwise_not>},
    {"BitwiseOr", 18, kNewestOpset, Binary<bitwise_or>},
    {"BitwiseXor", 18, kNewestOpset, Binary<bitwise_xor>},
    {"Cast", 1, kNewestOpset, Cast},
    {"CastLike", 15, kNewestOpset, CastLike},
    {"Ceil", 1, kNewestOpset, Unary<ceil>},
    {"Celu", 12, kNewestOpset, Celu},
    {"Clip", 1, kNewestOpset, Clip},
    {"Cos", 7, kNewestOpset, Unary<cos>},
    {"Cosh", 9, kNewestOpset, Unary<cosh>},
    {"Div", 1, kNewestOpset, Div},
    {"Dropout", 1, 11, Dropout},
    {"Dropout", 12, kNewestOpset, Dropout, Needs::kRandom},
    {"Elu", 1, kNewestOpset, Elu},
    {"Equal", 1, kNewestOpset, Equal},
    {"Erf", 9, kNewestOpset, Unary<erf>},
    {"Exp", 1, kNewestOpset, Unary<exp>},
    {"Floor", 1, kNewestOpset, Unary<floor>},
    {"Gelu", 20, kNewestOpset, Gelu},
    {"Greater", 1, kNewestOpset, Binary<gt>},
    {"GreaterOrEqual", 12, kNewestOpset, Binary<ge>},
    {"HardSigmoid", 1, kNewestOpset, HardSigmoid},
    {"HardSwish", 14, kNewestOpset, HardSwish},
    {"Identity", 1, kNewestOpset, Identity},
    {"IsInf", 10, kNewestOpset, IsInf},
    {"IsNaN", 9, kNewestOpset, Unary<isnan>},
    {"LeakyRelu", 1, kNewestOpset, LeakyRelu},
    {"Less", 1, kNewestOpset, Binary<lt>},
    {"LessOrEqual", 12, kNewestOpset, Binary<le>},
    {"Log", 1, kNewestOpset, Unary<log>},
    {"Max", 1, kNewestOpset, Folded<maximum>},
    {"Mean", 1, kNewestOpset, Mean},
    {"Min", 1, kNewestOpset, Folded<minimum>},
    {"Mish", 18, kNewestOpset, Unary<mish>},
    {"Mod", 10, kNewestOpset, Mod},
    {"Mul", 1, kNewestOpset, Binary<mul>},
    {"Neg", 1, kNewestOpset, Unary<neg>},
    {"Not", 1, kNewestOpset, Unary<logical_not>},
    {"Or", 1, kNewestOpset, Binary<logical_or>},
    {"PRelu", 1, kNewestOpset, PRelu},
    {"Pow", 1, kNewestOpset, Pow},
    {"Reciprocal", 1, kNewestOpset, Unary<reciprocal>},
    {"Relu", 1, kNewestOpset, Unary<relu>},
    {"Round", 11, kNewestOpset, Unary<round>},
    {"Selu", 1, kNewestOpset, Selu},
    {"Shrink", 9, kNewestOpset, Shrink},
    {"Sigmoid", 1, kNewestOpset, Unary<sigmoid>},
    {"Sign", 9, kNewestOpset, Unary<sign>},
    {"Sin", 7, kNewestOpset, Unary<sin>},
    {"Sinh", 9, kNewestOpset, Unary<sinh>},
    {"Softplus", 1, kNewestOpset, Softplus},
    {"Softsign", 1, kNewestOpset, Unary<softsign>},
    {"Sqrt", 1, kNewestOpset, Unary<sqrt>},
    {"Sub", 1, kNewestOpset, Binary<sub>},
    {"Sum", 1, kNewestOpset, Folded<add>},
    {"Swish", 24, kNewestOpset, Swish},
    {"Tan", 7, kNewestOpset, Unary<tan>},
    {"Tanh", 1, kNewestOpset, Unary<tanh>},
    {"ThresholdedRelu", 1, kNewestOpset, ThresholdedRelu},
    {"Where", 9, kNewestOpset, Where},
    {"Xor", 1, kNewestOpset, Binary<logical_xor>},
};

}  // namespace

std::span<const Operator> ElementwiseOperators() { return kRows; }

}  // namespace hammock::onnx
