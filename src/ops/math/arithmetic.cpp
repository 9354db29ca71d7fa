#include <cmath>
#include <complex>
#include <numbers>

#include "base/throw.h"
#include "hammock/ops/elementwise.h"
#include "ir/primitives.h"
#include "ops/primitives/elementwise_kit.h"
#include "ops/primitives/families.h"
#include "trace/apply.h"

namespace hammock {

using namespace ops;  // NOLINT: records and the op writer's kit

// ---- one node each

#define UNARY(name, record) \
  Tensor name(const Tensor& self, Location at) { return ApplyUnary(record, at, self); }
UNARY(abs, kAbs)
UNARY(neg, kNeg)
UNARY(sign, kSign)
UNARY(floor, kFloor)
UNARY(ceil, kCeil)
UNARY(trunc, kTrunc)
UNARY(round, kRound)
UNARY(sqrt, kSqrt)
UNARY(rsqrt, kRsqrt)
UNARY(reciprocal, kReciprocal)
UNARY(exp, kExp)
UNARY(exp2, kExp2)
UNARY(expm1, kExpm1)
UNARY(log, kLog)
UNARY(log2, kLog2)
UNARY(log10, kLog10)
UNARY(log1p, kLog1p)
UNARY(sin, kSin)
UNARY(cos, kCos)
UNARY(tan, kTan)
UNARY(asin, kAsin)
UNARY(acos, kAcos)
UNARY(atan, kAtan)
UNARY(sinh, kSinh)
UNARY(cosh, kCosh)
UNARY(tanh, kTanh)
UNARY(asinh, kAsinh)
UNARY(acosh, kAcosh)
UNARY(atanh, kAtanh)
UNARY(erf, kErf)
UNARY(erfc, kErfc)
UNARY(erfinv, kErfinv)
UNARY(lgamma, kLgamma)
UNARY(digamma, kDigamma)
UNARY(sigmoid, kSigmoid)
UNARY(bitwise_not, kBitwiseNot)
#undef UNARY

#define BINARY(name, record)                                             \
  Tensor name(const Tensor& self, const TensorArg& other, Location at) { \
    return ApplyBinary(record, at, self, other);                         \
  }
BINARY(add, kAdd)
BINARY(mul, kMul)
BINARY(div, kDiv)
BINARY(floor_divide, kFloorDivide)
BINARY(remainder, kRemainder)
BINARY(fmod, kFmod)
BINARY(atan2, kAtan2)
BINARY(hypot, kHypot)
BINARY(copysign, kCopysign)
BINARY(nextafter, kNextafter)
BINARY(gcd, kGcd)
BINARY(maximum, kMaximum)
BINARY(minimum, kMinimum)
BINARY(fmax, kFmax)
BINARY(fmin, kFmin)
BINARY(bitwise_and, kBitwiseAnd)
BINARY(bitwise_or, kBitwiseOr)
BINARY(bitwise_xor, kBitwiseXor)
BINARY(bitwise_left_shift, kShiftLeft)
BINARY(bitwise_right_shift, kShiftRight)
#undef BINARY

// A number on the left has the dtype that promotion with the tensor gives it.
#define REFLECTED(name)                                               \
  Tensor name(const Scalar& self, const Tensor& other, Location at) { \
    return name(AsTensor(self, other), other, at);                    \
  }
HAMMOCK_BINARY_OPS(REFLECTED)
HAMMOCK_BINARY_FUNCTIONS(REFLECTED)
#undef REFLECTED

// ---- sums and quotients with more arguments

namespace {

bool IsBool(const TensorArg& x) {
  if (!x.is_tensor()) return x.scalar().IsBool();
  return x.tensor().defined() && x.tensor().dtype() == DType::kBool;
}

/// PyTorch refuses a difference with a bool, since it is rarely what is meant.
void CheckSub(const Tensor& self, const TensorArg& other, const Location& at) {
  // An undefined one is the op's to refuse.
  if (!self.defined() || (other.is_tensor() && !other.tensor().defined())) return;
  if (!IsBool(self) && !IsBool(other)) return;
  LocationScope scope(at);
  Throw<TypeError>(ErrorCode::kDTypeMismatch,
                   "sub: bool operands are not supported; use ^ or logical_xor, or ~ to invert a "
                   "mask");
}

DType PromotedDType(const Tensor& a, const Tensor& b) {
  const Shape* types[] = {&a.shape(), &b.shape()};
  return ComputeDType(kAdd, types);
}

/// alpha * other in the dtype of `self op other`. Whatever alpha is: a learning rate of 1 must not
/// be another graph.
Tensor Scaled(const char* op, const Tensor& self, const Tensor& other, const Scalar& alpha) {
  DType dtype = PromotedDType(self, other);
  if (alpha.IsComplex() && !IsComplex(dtype)) {
    Throw<TypeError>(ErrorCode::kDTypeMismatch, "{}: alpha {} is complex, but the result is {}", op,
                     alpha.to_string(), NameOf(dtype));
  }
  if (alpha.IsFloating() && !IsFloatOrComplex(dtype)) {
    Throw<TypeError>(ErrorCode::kDTypeMismatch,
                     "{}: alpha {} is not an integer, but the result is {}", op, alpha.to_string(),
                     NameOf(dtype));
  }
  if (alpha.IsBool() && dtype != DType::kBool) {
    Throw<TypeError>(ErrorCode::kDTypeMismatch, "{}: alpha is a bool, but the result is {}", op,
                     NameOf(dtype));
  }
  return mul(Casted(other, dtype), Lift(alpha, dtype));
}

}  // namespace

Tensor sub(const Tensor& self, const TensorArg& other, Location at) {
  CheckSub(self, other, at);
  return ApplyBinary(kSub, at, self, other);
}

Tensor add(const Tensor& self, const TensorArg& other, const Scalar& alpha, Location at) {
  LocationScope scope(at);
  return add(self, Scaled("add", self, AsTensor(other, self), alpha), at);
}

Tensor sub(const Tensor& self, const TensorArg& other, const Scalar& alpha, Location at) {
  LocationScope scope(at);
  CheckSub(self, other, at);
  return sub(self, Scaled("sub", self, AsTensor(other, self), alpha), at);
}

Tensor rsub(const Tensor& self, const TensorArg& other, Location at) {
  LocationScope scope(at);
  return sub(AsTensor(other, self), self, at);
}

Tensor rsub(const Tensor& self, const TensorArg& other, const Scalar& alpha, Location at) {
  LocationScope scope(at);
  return sub(AsTensor(other, self), self, alpha, at);
}

Tensor div(const Tensor& self, const TensorArg& other,
           const std::optional<std::string>& rounding_mode, Location at) {
  LocationScope scope(at);
  if (!rounding_mode) return div(self, other, at);
  if (*rounding_mode == "floor") return floor_divide(self, other, at);
  if (*rounding_mode == "trunc") {
    return ApplyBinary(kTruncDivide, at, self, AsTensor(other, self));
  }
  Throw(ErrorCode::kValue, "div: unknown rounding_mode '{}', needs none, 'floor' or 'trunc'",
        *rounding_mode);
}

// ---- rounding

Tensor round(const Tensor& self, int64_t decimals, Location at) {
  LocationScope scope(at);
  if (decimals == 0) return round(self, at);
  NeedFloat("round", self);
  Tensor x = Casted(self, WideFloat(self.dtype()));
  Tensor unit = ConstantLike(std::pow(10.0, static_cast<double>(std::abs(decimals))), x);
  Tensor rounded = decimals > 0 ? div(round(mul(x, unit)), unit) : mul(round(div(x, unit)), unit);
  return Casted(rounded, self.dtype());
}

Tensor frac(const Tensor& self, Location at) {
  LocationScope scope(at);
  NeedFloat("frac", self);
  return sub(self, trunc(self));
}

// ---- powers

namespace ops {
extern const OpDef kSquare;
}

Tensor square(const Tensor& self, Location at) {
  LocationScope scope(at);
  return Apply(kSquare, at, {self.dtype() == DType::kBool ? Casted(self, DType::kI64) : self});
}

namespace {

/// The exponents that have a cheaper form are those for which PyTorch uses it too.
std::vector<Tensor> ExpandPowScalar(const ExpandCall& call) {
  Tensor x = Casted(call.in[0], call.out[0].dtype());
  Scalar exponent = call.attrs[0].scalar();
  double e = exponent.ToDouble();
  if (x.dtype() == DType::kBool || exponent.imag() != 0) {
    return {pow(x, Constant(exponent, x.dtype()))};
  }
  if (e == 0) return {Broadcasted(Constant(1, x.dtype()), call.out[0].sizes())};
  if (e == 1) return {x};
  if (e == 2) return {mul(x, x)};
  if (e == 3) return {mul(mul(x, x), x)};
  if (IsFloatOrComplex(x.dtype())) {
    if (e == 0.5) return {sqrt(x)};
    if (e == -0.5) return {rsqrt(x)};
    if (e == -1) return {reciprocal(x)};
    if (e == -2) return {reciprocal(mul(x, x))};
  }
  return {pow(x, Constant(exponent, x.dtype()))};
}

/// The slope comes first, as in PyTorch: it may overflow where its product with `g` would not.
Tensor PowScalarGrad(const Tensor& g, const Tensor& x, const VjpCall& call) {
  const Scalar exponent = call.attrs[0].scalar();
  if (exponent.imag() != 0) {
    const std::complex<double> e = exponent.As<std::complex<double>>();
    return g * conj(pow(x, e - 1.0) * e);
  }
  double e = exponent.ToDouble();
  return e == 0 ? ZerosLike(x.shape(), g) : g * conj(pow(x, e - 1) * e);
}

std::vector<Tensor> ExpandSquare(const ExpandCall& call) { return {mul(call.in[0], call.in[0])}; }

Tensor SquareGrad(const Tensor& g, const Tensor& x, const VjpCall&) { return g * conj(x * 2.0); }

}  // namespace

namespace ops {
extern const OpDef kPowScalar;
}

Tensor pow(const Tensor& self, const TensorArg& exponent, Location at) {
  LocationScope scope(at);
  if (exponent.is_tensor()) return ApplyBinary(kPow, at, self, exponent.tensor());
  Scalar e = exponent.scalar();
  DType dtype = ResultType(self, e);
  if (!IsFloatOrComplex(dtype) && e.IsInt() && e.ToInt() < 0) {
    Throw(ErrorCode::kValue,
          "pow: integers to negative integer powers are not allowed: {} to the power of {}; cast "
          "to a floating dtype first",
          self.shape().to_string(), e.to_string());
  }
  return Apply(kPowScalar, at, {Casted(self, dtype)}, {e});
}

Tensor float_power(const Tensor& self, const TensorArg& exponent, Location at) {
  LocationScope scope(at);
  auto wide = [](const Tensor& x) {
    return Casted(x, IsComplex(x.dtype()) ? DType::kC128 : DType::kF64);
  };
  if (exponent.is_tensor()) return pow(wide(self), wide(exponent.tensor()), at);
  const Scalar e = exponent.scalar();
  return pow(wide(self), e.IsComplex() ? e : Scalar(e.ToDouble()), at);
}

Tensor ldexp(const Tensor& self, const TensorArg& other, Location at) {
  LocationScope scope(at);
  return mul(self, exp2(AsTensor(other, self)));
}

// ---- integers

Tensor lcm(const Tensor& self, const TensorArg& other, Location at) {
  LocationScope scope(at);
  Tensor b = AsTensor(other, self);
  Tensor divisor = gcd(self, b);
  // Where both are zero the divisor is too; the least common multiple is zero then.
  Tensor safe = where(eq(divisor, 0), ConstantLike(1, divisor), divisor);
  // Short integers are multiplied as C does, so that only the result wraps.
  DType dtype = divisor.dtype(), wide = InfoOf(dtype).bits < 32 ? DType::kI32 : dtype;
  Tensor factor = floor_divide(Casted(self, wide), Casted(safe, wide));
  return Casted(abs(mul(factor, Casted(b, wide))), dtype);
}

// ---- angles

Tensor deg2rad(const Tensor& self, Location at) {
  LocationScope scope(at);
  return mul(self, Constant(std::numbers::pi / 180.0, FloatOf(self.dtype())), at);
}

Tensor rad2deg(const Tensor& self, Location at) {
  LocationScope scope(at);
  return mul(self, Constant(180.0 / std::numbers::pi, FloatOf(self.dtype())), at);
}

Tensor positive(const Tensor& self, Location) {
  if (self.dtype() == DType::kBool) {
    Throw<TypeError>(ErrorCode::kDTypeMismatch, "positive: bool is not supported, cast it first");
  }
  return self;
}

// ---- records

namespace ops {

constinit const OpDef kPowScalar = {
    .schema = "pow.scalar(Tensor self, Scalar exponent) -> Tensor",
    .doc = "Power with an exponent that is part of the key, so that squares and roots are cheap.",
    .baked = "exponent",
    .call = Box<BinaryFn(pow)>,
    .autocast = AutocastRule::kF32,
    .rule = DTypeRule::kPromote,
    .expand = ExpandPowScalar,
    .vjp = FirstVjp<PowScalarGrad>,
    .domain = {0.1, 3.0},
    .samples = {{"f32[2,3]", "{exponent=2.5}"}, {"f32[2,3]", "{exponent=3}"}},
};

constinit const OpDef kSquare = {
    .schema = "square(Tensor self) -> Tensor",
    .doc = "self * self",
    .call = Box<UnaryFn(square)>,
    .rule = DTypeRule::kPromote,
    .expand = ExpandSquare,
    .vjp = FirstVjp<SquareGrad>,
};

namespace {

constexpr const OpDef* kNodes[] = {&kPowScalar, &kSquare};

#define UNARY(name, text) \
  { .schema = #name "(Tensor self) -> Tensor", .doc = text, .call = Box<UnaryFn(name)> }
#define BINARY(name, text)                                                \
  {                                                                       \
    .schema = #name "(Tensor self, Tensor other) -> Tensor", .doc = text, \
    .call = Box<BinaryFn(name)>                                           \
  }
#define UNARY_ALIAS(alias, name) UNARY(alias, "Same as " #name "."),
#define BINARY_ALIAS(alias, name) BINARY(alias, "Same as " #name "."),

using AlphaFn = Tensor (*)(const Tensor&, const TensorArg&, const Scalar&, Location);
using ModeFn = Tensor (*)(const Tensor&, const TensorArg&, const std::optional<std::string>&,
                          Location);
using DecimalsFn = Tensor (*)(const Tensor&, int64_t, Location);
using ScalarSelfFn = Tensor (*)(const Scalar&, const Tensor&, Location);

constinit const OpDef kFunctions[] = {
    HAMMOCK_UNARY_ALIASES(UNARY_ALIAS) HAMMOCK_BINARY_ALIASES(BINARY_ALIAS){
        .schema = "add.alpha(Tensor self, Tensor other, *, Scalar alpha) -> Tensor",
        .doc = "self + alpha * other",
        .call = Box<AlphaFn(add)>,
    },
    {
        .schema = "sub.alpha(Tensor self, Tensor other, *, Scalar alpha) -> Tensor",
        .doc = "self - alpha * other",
        .call = Box<AlphaFn(sub)>,
    },
    {
        .schema = "subtract.alpha(Tensor self, Tensor other, *, Scalar alpha) -> Tensor",
        .doc = "Same as sub.",
        .call = Box<AlphaFn(sub)>,
    },
    BINARY(rsub, "other - self"),
    {
        .schema = "rsub.alpha(Tensor self, Tensor other, Scalar alpha) -> Tensor",
        .doc = "other - alpha * self",
        .call = Box<AlphaFn(rsub)>,
    },
    {
        .schema = "div.mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor",
        .doc = "Quotient rounded 'floor', 'trunc' or not at all.",
        .call = Box<ModeFn(div)>,
    },
    {
        .schema = "divide.mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor",
        .doc = "Same as div.",
        .call = Box<ModeFn(div)>,
    },
    {
        .schema = "round.decimals(Tensor self, *, int decimals) -> Tensor",
        .doc = "Rounds to a number of decimals, halves to even.",
        .call = Box<DecimalsFn(round)>,
    },
    {
        .schema = "pow.self(Scalar self, Tensor exponent) -> Tensor",
        .doc = "Powers of a number.",
        .call = Box<ScalarSelfFn(pow)>,
    },
    {
        .schema = "float_power(Tensor self, Tensor exponent) -> Tensor",
        .doc = "Power computed in f64.",
        .call = Box<BinaryFn(float_power)>,
    },
    {
        .schema = "float_power.self(Scalar self, Tensor exponent) -> Tensor",
        .doc = "Powers of a number, computed in f64.",
        .call = Box<ScalarSelfFn(float_power)>,
    },
    UNARY(frac, "The fractional part: self - trunc(self)."),
    UNARY(deg2rad, "Degrees to radians."),
    UNARY(rad2deg, "Radians to degrees."),
    UNARY(positive, "The tensor itself; bool is refused."),
    BINARY(ldexp, "self * 2 ** other"),
    BINARY(lcm, "Least common multiple."),
    {
        .schema = "__and__(Tensor self, Tensor other) -> Tensor",
        .doc = "Same as bitwise_and.",
        .call = Box<BinaryFn(bitwise_and)>,
    },
    {
        .schema = "__or__(Tensor self, Tensor other) -> Tensor",
        .doc = "Same as bitwise_or.",
        .call = Box<BinaryFn(bitwise_or)>,
    },
    {
        .schema = "__xor__(Tensor self, Tensor other) -> Tensor",
        .doc = "Same as bitwise_xor.",
        .call = Box<BinaryFn(bitwise_xor)>,
    },
    {
        .schema = "__lshift__(Tensor self, Tensor other) -> Tensor",
        .doc = "Same as bitwise_left_shift.",
        .call = Box<BinaryFn(bitwise_left_shift)>,
    },
    {
        .schema = "__rshift__(Tensor self, Tensor other) -> Tensor",
        .doc = "Same as bitwise_right_shift.",
        .call = Box<BinaryFn(bitwise_right_shift)>,
    },
};
#undef UNARY
#undef BINARY
#undef UNARY_ALIAS
#undef BINARY_ALIAS

}  // namespace

std::span<const OpDef* const> ArithmeticOps() {
  static const auto list = Listed(kNodes, kFunctions);
  return list;
}

}  // namespace ops
}  // namespace hammock
