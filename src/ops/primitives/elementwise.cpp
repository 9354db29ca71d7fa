#include <algorithm>
#include <numbers>

#include "hammock/ops/elementwise.h"
#include "hammock/ops/special.h"
#include "ir/primitives.h"
#include "ops/kit/compose.h"
#include "ops/kit/record.h"
#include "ops/primitives/complex_parts.h"
#include "ops/primitives/elementwise_kit.h"

namespace hammock::ops {
namespace {

/// The expansion of a scalar function of complex numbers; null where it is not defined.
constexpr ExpandFn ComplexBody(ScalarFn fn) {
  struct Row {
    ScalarFn fn;
    ExpandFn complex;
  };
  constexpr Row kRows[] = {
      {ScalarFn::kAbs, AbsParts},     {ScalarFn::kNeg, EachPart},
      {ScalarFn::kSqrt, SqrtParts},   {ScalarFn::kRsqrt, RsqrtParts},
      {ScalarFn::kExp, ExpParts},     {ScalarFn::kReciprocal, ReciprocalParts},
      {ScalarFn::kExp2, Exp2Parts},   {ScalarFn::kExpm1, Expm1Parts},
      {ScalarFn::kLog, LogParts},     {ScalarFn::kLog2, Log2Parts},
      {ScalarFn::kLog10, Log10Parts}, {ScalarFn::kLog1p, Log1pParts},
      {ScalarFn::kSin, SinParts},     {ScalarFn::kCos, CosParts},
      {ScalarFn::kTan, TanParts},     {ScalarFn::kAsin, AsinParts},
      {ScalarFn::kAcos, AcosParts},   {ScalarFn::kAtan, AtanParts},
      {ScalarFn::kSinh, SinhParts},   {ScalarFn::kCosh, CoshParts},
      {ScalarFn::kTanh, TanhParts},   {ScalarFn::kAsinh, AsinhParts},
      {ScalarFn::kAcosh, AcoshParts}, {ScalarFn::kAtanh, AtanhParts},
      {ScalarFn::kIsNan, IsNanParts}, {ScalarFn::kSigmoid, SigmoidParts},
      {ScalarFn::kAdd, EachPart},     {ScalarFn::kSub, EachPart},
      {ScalarFn::kMul, MulParts},     {ScalarFn::kDiv, DivParts},
      {ScalarFn::kPow, PowParts},     {ScalarFn::kEq, EqParts},
      {ScalarFn::kNe, NeParts},
  };
  for (const Row& row : kRows) {
    if (row.fn == fn) return row.complex;
  }
  return nullptr;
}

constexpr OpDef Pointwise(BoxedFn call, const char* schema, const char* doc, ScalarFn fn,
                          DTypeRule rule, VjpFn vjp = nullptr, Domain domain = {},
                          InferFn infer = nullptr, AutocastRule autocast = AutocastRule::kNone) {
  return OpDef{.schema = schema,
               .doc = doc,
               .call = call,
               .autocast = autocast,
               .infer = infer,
               .rule = rule,
               .scalar = fn,
               .complex = ComplexBody(fn),
               .takes_complex = rule == DTypeRule::kLogical,  // truth values are read first
               .vjp = vjp,
               .domain = domain};
}

/// One whose results 16 bits do not hold well.
constexpr OpDef PointwiseInF32(BoxedFn call, const char* schema, const char* doc, ScalarFn fn,
                               DTypeRule rule, VjpFn vjp = nullptr, Domain domain = {}) {
  return Pointwise(call, schema, doc, fn, rule, vjp, domain, nullptr, AutocastRule::kF32);
}

/// Division of integers by zero raises.
constexpr OpDef Division(BoxedFn call, const char* schema, const char* doc, ScalarFn fn,
                         VjpFn vjp) {
  return OpDef{.schema = schema,
               .doc = doc,
               .call = call,
               .rule = DTypeRule::kPromote,
               .scalar = fn,
               .vjp = vjp,
               .can_fail = true,
               .domain = {0.5, 5.0}};
}

constexpr DTypeRule kPromote = DTypeRule::kPromote;
constexpr DTypeRule kFloat = DTypeRule::kFloat;
constexpr DTypeRule kInteger = DTypeRule::kInteger;
constexpr DTypeRule kLogical = DTypeRule::kLogical;
constexpr DTypeRule kCompare = DTypeRule::kCompare;

constexpr Domain kPositive = {0.1, 5.0};
constexpr Domain kInsideOne = {-0.9, 0.9};

/// As the dtype rule says, but bool is refused.
void NotBool(const InferCall& call) {
  DType dtype = ComputeDType(call.op, call.in);
  if (dtype == DType::kBool) {
    Refuse<TypeError>(call, ErrorCode::kDTypeMismatch,
                      "bool is not supported, use logical_not or logical_xor, or cast");
  }
  Dims sizes = call.in[0]->sizes();
  for (const Shape* other : call.in.subspan(1)) {
    sizes = BroadcastSizes(call.op.name(), sizes, other->sizes());
  }
  call.out = {Shape(dtype, sizes)};
}

// ---- gradients, of g at y = f(x) or y = f(a, b); the caller sums over what was broadcast

/// As the dtype rule says; real numbers of complex ones.
void InferAbs(const InferCall& call) {
  const Shape& self = *call.in[0];
  call.out = {self.With(RealOf(self.dtype()))};
}

Tensor Zero(const Tensor& g) { return Filled(g.sizes(), 0, g.dtype(), g); }

/// Two roots of complex numbers: that of the product is another branch.
Tensor AcoshGrad(const Tensor& g, const Tensor& x) {
  if (!IsComplex(x.dtype())) return g * rsqrt(x * x - 1.0);
  return g * conj(rsqrt(x - 1.0) * rsqrt(x + 1.0));
}

Tensor PowExponentGrad(const Tensor& g, const Tensor& a, const Tensor& b, const Tensor& y) {
  Tensor grows = IsComplex(b.dtype()) ? ge(RealPart(b), 0) : ge(b, 0);
  return where(logical_and(eq(a, 0), grows), 0.0, g * conj(y * log(a)));
}

/// None of g to the one that loses, half of it to each of two equals.
Tensor Share(const Tensor& g, const Tensor& loses, const Tensor& equal) {
  return where(loses, 0.0, where(equal, g * 0.5, g));
}

template <auto F>
Tensors Unary(const VjpCall& call) {
  return {F(call.grad(), call.in[0], call.out[0])};
}
template <auto ToA, auto ToB>
Tensors Binary(const VjpCall& call) {
  auto gradient = [&](size_t operand, auto to) {
    return call.needs(operand) ? to(call.grad(), call.in[0], call.in[1], call.out[0]) : Tensor();
  };
  return {gradient(0, ToA), gradient(1, ToB)};
}

#define UNARY(expression)                                                      \
  Unary<[]([[maybe_unused]] const Tensor& g, [[maybe_unused]] const Tensor& x, \
           [[maybe_unused]] const Tensor& y) -> Tensor { return expression; }>
#define TO_ONE(expression)                                               \
  []([[maybe_unused]] const Tensor& g, [[maybe_unused]] const Tensor& a, \
     [[maybe_unused]] const Tensor& b,                                   \
     [[maybe_unused]] const Tensor& y) -> Tensor { return expression; }
#define BINARY(to_a, to_b) Binary<TO_ONE(to_a), TO_ONE(to_b)>

Tensors WhereVjp(const VjpCall& call) {
  const Tensor& g = call.grad();
  return {Tensor(), call.needs(1) ? where(call.in[0], g, 0.0) : Tensor(),
          call.needs(2) ? where(call.in[0], 0.0, g) : Tensor()};
}

Tensors CastVjp(const VjpCall& call) { return {Casted(call.grad(), call.in[0].dtype())}; }

/// Of complex numbers as pairs of real ones and back.
Tensors BitcastVjp(const VjpCall& call) {
  DType from = call.in[0].dtype(), to = call.out[0].dtype();
  if (RealOf(from) != RealOf(to)) {
    Throw<NotSupported>(ErrorCode::kNotSupported, "bitcast: bits of {} as {} have no gradient",
                        NameOf(from), NameOf(to));
  }
  return {Apply(kBitcast, Location(), {call.grad()}, {from})};
}

void InferCast(const InferCall& call) { call.out = {call.in[0]->With(call.attrs[0].dtype())}; }

void InferBitcast(const InferCall& call) {
  const Shape& self = *call.in[0];
  DType to = call.attrs[0].dtype();
  int from_bits = InfoOf(self.dtype()).bits;
  int to_bits = InfoOf(to).bits;
  Dims sizes = self.sizes();
  // A single packed element has a byte of its own.
  const bool byte = self.rank() == 0 && std::max(from_bits, to_bits) == 8;
  if (from_bits != to_bits && !byte) {
    if (self.rank() == 0 || sizes.back() * from_bits % to_bits != 0) {
      Refuse(call, ErrorCode::kShapeMismatch,
             "the last dimension of {} ({} bits an element) does not divide into {}",
             self.to_string(), from_bits, NameOf(to));
    }
    sizes[sizes.size() - 1] = sizes.back() * from_bits / to_bits;
  }
  call.out = {Shape(to, sizes)};
}

}  // namespace

// ---- unary

constinit const OpDef kAbs =
    Pointwise(Box<UnaryFn(abs)>, "abs(Tensor self) -> Tensor", "Absolute value.", ScalarFn::kAbs,
              kPromote, UNARY(g* sgn(x)), {}, InferAbs);
constinit const OpDef kNeg = Pointwise(Box<UnaryFn(neg)>, "neg(Tensor self) -> Tensor", "Negation.",
                                       ScalarFn::kNeg, kPromote, UNARY(-g), {}, NotBool);
constinit const OpDef kSign =
    Pointwise(Box<UnaryFn(sign)>, "sign(Tensor self) -> Tensor", "-1, 0 or 1; 0 for NaN.",
              ScalarFn::kSign, kPromote, UNARY(Zero(g)));
constinit const OpDef kFloor =
    Pointwise(Box<UnaryFn(floor)>, "floor(Tensor self) -> Tensor", "Rounds down.", ScalarFn::kFloor,
              kPromote, UNARY(Zero(g)));
constinit const OpDef kCeil = Pointwise(Box<UnaryFn(ceil)>, "ceil(Tensor self) -> Tensor",
                                        "Rounds up.", ScalarFn::kCeil, kPromote, UNARY(Zero(g)));
constinit const OpDef kTrunc =
    Pointwise(Box<UnaryFn(trunc)>, "trunc(Tensor self) -> Tensor", "Rounds toward zero.",
              ScalarFn::kTrunc, kPromote, UNARY(Zero(g)));
constinit const OpDef kRound =
    Pointwise(Box<UnaryFn(round)>, "round(Tensor self) -> Tensor", "Rounds, halves to even.",
              ScalarFn::kRound, kPromote, UNARY(Zero(g)));
constinit const OpDef kSqrt =
    Pointwise(Box<UnaryFn(sqrt)>, "sqrt(Tensor self) -> Tensor", "Square root.", ScalarFn::kSqrt,
              kFloat, UNARY(g / conj(y * 2.0)), kPositive);
constinit const OpDef kRsqrt =
    PointwiseInF32(Box<UnaryFn(rsqrt)>, "rsqrt(Tensor self) -> Tensor", "One over the square root.",
                   ScalarFn::kRsqrt, kFloat, UNARY(g* conj(y* y* y) * -0.5), kPositive);
constinit const OpDef kReciprocal = PointwiseInF32(
    Box<UnaryFn(reciprocal)>, "reciprocal(Tensor self) -> Tensor", "One over `self`.",
    ScalarFn::kReciprocal, kFloat, UNARY(-g* conj(y* y)), {0.5, 3.0});
constinit const OpDef kExp =
    PointwiseInF32(Box<UnaryFn(exp)>, "exp(Tensor self) -> Tensor", "e to the power of `self`.",
                   ScalarFn::kExp, kFloat, UNARY(g* conj(y)));
constinit const OpDef kExp2 =
    Pointwise(Box<UnaryFn(exp2)>, "exp2(Tensor self) -> Tensor", "2 to the power of `self`.",
              ScalarFn::kExp2, kFloat, UNARY(g* conj(y) * std::numbers::ln2));
constinit const OpDef kExpm1 =
    PointwiseInF32(Box<UnaryFn(expm1)>, "expm1(Tensor self) -> Tensor",
                   "exp minus 1, exact near 0.", ScalarFn::kExpm1, kFloat, UNARY(g* conj(y + 1.0)));
constinit const OpDef kLog =
    PointwiseInF32(Box<UnaryFn(log)>, "log(Tensor self) -> Tensor", "Natural logarithm.",
                   ScalarFn::kLog, kFloat, UNARY(g / conj(x)), kPositive);
constinit const OpDef kLog2 =
    PointwiseInF32(Box<UnaryFn(log2)>, "log2(Tensor self) -> Tensor", "Logarithm to base 2.",
                   ScalarFn::kLog2, kFloat, UNARY(g / conj(x * std::numbers::ln2)), kPositive);
constinit const OpDef kLog10 =
    PointwiseInF32(Box<UnaryFn(log10)>, "log10(Tensor self) -> Tensor", "Logarithm to base 10.",
                   ScalarFn::kLog10, kFloat, UNARY(g / conj(x * std::numbers::ln10)), kPositive);
constinit const OpDef kLog1p =
    PointwiseInF32(Box<UnaryFn(log1p)>, "log1p(Tensor self) -> Tensor",
                   "Natural logarithm of 1 plus `self`, exact near 0.", ScalarFn::kLog1p, kFloat,
                   UNARY(g / conj(x + 1.0)), {-0.9, 5.0});
constinit const OpDef kSin = Pointwise(Box<UnaryFn(sin)>, "sin(Tensor self) -> Tensor", "Sine.",
                                       ScalarFn::kSin, kFloat, UNARY(g* conj(cos(x))));
constinit const OpDef kCos = Pointwise(Box<UnaryFn(cos)>, "cos(Tensor self) -> Tensor", "Cosine.",
                                       ScalarFn::kCos, kFloat, UNARY(-g* conj(sin(x))));
constinit const OpDef kTan =
    PointwiseInF32(Box<UnaryFn(tan)>, "tan(Tensor self) -> Tensor", "Tangent.", ScalarFn::kTan,
                   kFloat, UNARY(g* conj(y* y + 1.0)), {-1.4, 1.4});
constinit const OpDef kAsin =
    PointwiseInF32(Box<UnaryFn(asin)>, "asin(Tensor self) -> Tensor", "Arc sine.", ScalarFn::kAsin,
                   kFloat, UNARY(g* conj(rsqrt(1.0 - x * x))), kInsideOne);
constinit const OpDef kAcos =
    PointwiseInF32(Box<UnaryFn(acos)>, "acos(Tensor self) -> Tensor", "Arc cosine.",
                   ScalarFn::kAcos, kFloat, UNARY(-g* conj(rsqrt(1.0 - x * x))), kInsideOne);
constinit const OpDef kAtan =
    Pointwise(Box<UnaryFn(atan)>, "atan(Tensor self) -> Tensor", "Arc tangent.", ScalarFn::kAtan,
              kFloat, UNARY(g / conj(x * x + 1.0)));
constinit const OpDef kSinh =
    PointwiseInF32(Box<UnaryFn(sinh)>, "sinh(Tensor self) -> Tensor", "Hyperbolic sine.",
                   ScalarFn::kSinh, kFloat, UNARY(g* conj(cosh(x))));
constinit const OpDef kCosh =
    PointwiseInF32(Box<UnaryFn(cosh)>, "cosh(Tensor self) -> Tensor", "Hyperbolic cosine.",
                   ScalarFn::kCosh, kFloat, UNARY(g* conj(sinh(x))));
constinit const OpDef kTanh =
    Pointwise(Box<UnaryFn(tanh)>, "tanh(Tensor self) -> Tensor", "Hyperbolic tangent.",
              ScalarFn::kTanh, kFloat, UNARY(g* conj(1.0 - y * y)));
constinit const OpDef kAsinh =
    Pointwise(Box<UnaryFn(asinh)>, "asinh(Tensor self) -> Tensor", "Inverse of sinh.",
              ScalarFn::kAsinh, kFloat, UNARY(g* conj(rsqrt(x* x + 1.0))));
constinit const OpDef kAcosh =
    Pointwise(Box<UnaryFn(acosh)>, "acosh(Tensor self) -> Tensor", "Inverse of cosh.",
              ScalarFn::kAcosh, kFloat, UNARY(AcoshGrad(g, x)), {1.1, 5.0});
constinit const OpDef kAtanh =
    Pointwise(Box<UnaryFn(atanh)>, "atanh(Tensor self) -> Tensor", "Inverse of tanh.",
              ScalarFn::kAtanh, kFloat, UNARY(g / conj(1.0 - x * x)), kInsideOne);
constinit const OpDef kErf =
    Pointwise(Box<UnaryFn(erf)>, "erf(Tensor self) -> Tensor", "Error function.", ScalarFn::kErf,
              kFloat, UNARY(g* exp(-(x* x)) * (2.0 * std::numbers::inv_sqrtpi)));
constinit const OpDef kErfc =
    Pointwise(Box<UnaryFn(erfc)>, "erfc(Tensor self) -> Tensor", "1 minus erf, exact in the tail.",
              ScalarFn::kErfc, kFloat, UNARY(g* exp(-(x* x)) * (-2.0 * std::numbers::inv_sqrtpi)));
constinit const OpDef kErfinv = PointwiseInF32(
    Box<UnaryFn(erfinv)>, "erfinv(Tensor self) -> Tensor", "Inverse of erf.", ScalarFn::kErfinv,
    kFloat, UNARY(g* exp(y* y) * (0.5 / std::numbers::inv_sqrtpi)), kInsideOne);
constinit const OpDef kLgamma =
    Pointwise(Box<UnaryFn(lgamma)>, "lgamma(Tensor self) -> Tensor",
              "Logarithm of the absolute value of the gamma function.", ScalarFn::kLgamma, kFloat,
              UNARY(g* digamma(x)), {0.5, 5.0});
constinit const OpDef kDigamma =
    Pointwise(Box<UnaryFn(digamma)>, "digamma(Tensor self) -> Tensor",
              "Derivative of the logarithm of the gamma function.", ScalarFn::kDigamma, kFloat,
              UNARY(g* polygamma(1, x)), {0.5, 5.0});
constinit const OpDef kSigmoid =
    Pointwise(Box<UnaryFn(sigmoid)>, "sigmoid(Tensor self) -> Tensor", "1 / (1 + exp(-self)).",
              ScalarFn::kSigmoid, kFloat, UNARY(g* conj(y*(1.0 - y))));
constinit const OpDef kBitwiseNot =
    Pointwise(Box<UnaryFn(bitwise_not)>, "bitwise_not(Tensor self) -> Tensor",
              "Inverts every bit; of bool: logical not.", ScalarFn::kBitwiseNot, kInteger);
constinit const OpDef kLogicalNot =
    Pointwise(Box<UnaryFn(logical_not)>, "logical_not(Tensor self) -> Tensor",
              "Whether `self` is 0.", ScalarFn::kLogicalNot, kLogical);
constinit const OpDef kIsNan =
    Pointwise(Box<UnaryFn(isnan)>, "isnan(Tensor self) -> Tensor", "Whether `self` is NaN.",
              ScalarFn::kIsNan, DTypeRule::kFloatTest);

// ---- binary

constinit const OpDef kAdd =
    Pointwise(Box<BinaryFn(add)>, "add(Tensor self, Tensor other) -> Tensor",
              "Sum; of bool: logical or.", ScalarFn::kAdd, kPromote, BINARY(g, g));
constinit const OpDef kSub =
    Pointwise(Box<BinaryFn(sub)>, "sub(Tensor self, Tensor other) -> Tensor", "Difference.",
              ScalarFn::kSub, kPromote, BINARY(g, -g), {}, NotBool);
constinit const OpDef kMul = Pointwise(
    Box<BinaryFn(mul)>, "mul(Tensor self, Tensor other) -> Tensor",
    "Product; of bool: logical and.", ScalarFn::kMul, kPromote, BINARY(g* conj(b), g* conj(a)));
constinit const OpDef kDiv =
    Pointwise(Box<BinaryFn(div)>, "div(Tensor self, Tensor other) -> Tensor", "True division.",
              ScalarFn::kDiv, kFloat, BINARY(g / conj(b), -g* conj(y / b)), {0.5, 5.0});
constinit const OpDef kFloorDivide =
    Division(Box<BinaryFn(floor_divide)>, "floor_divide(Tensor self, Tensor other) -> Tensor",
             "Quotient rounded down.", ScalarFn::kFloorDivide, BINARY(Zero(g), Zero(g)));
constinit const OpDef kTruncDivide =
    Division(nullptr, "trunc_divide(Tensor self, Tensor other) -> Tensor",
             "Quotient rounded toward zero.", ScalarFn::kTruncDivide, BINARY(Zero(g), Zero(g)));
constinit const OpDef kRemainder =
    Division(Box<BinaryFn(remainder)>, "remainder(Tensor self, Tensor other) -> Tensor",
             "Remainder of floor_divide: has the sign of `other`.", ScalarFn::kRemainder,
             BINARY(g, -g* floor_divide(a, b)));
constinit const OpDef kFmod =
    Division(Box<BinaryFn(fmod)>, "fmod(Tensor self, Tensor other) -> Tensor",
             "Remainder of trunc_divide: has the sign of `self`.", ScalarFn::kFmod,
             BINARY(g, -g* trunc(a / b)));
constinit const OpDef kPow = PointwiseInF32(
    Box<BinaryFn(pow)>, "pow(Tensor self, Tensor exponent) -> Tensor",
    "Power; integers wrap, and a negative exponent gives 0 unless `self` is 1 or -1.",
    ScalarFn::kPow, kPromote,
    BINARY(where(eq(b, 0), 0.0, g* conj(b* pow(a, b - 1))), PowExponentGrad(g, a, b, y)),
    {0.1, 3.0});
constinit const OpDef kMaximum =
    Pointwise(Box<BinaryFn(maximum)>, "maximum(Tensor self, Tensor other) -> Tensor",
              "The larger one, NaN if either is.", ScalarFn::kMaximum, kPromote,
              BINARY(Share(g, lt(a, b), eq(a, b)), Share(g, gt(a, b), eq(a, b))));
constinit const OpDef kMinimum =
    Pointwise(Box<BinaryFn(minimum)>, "minimum(Tensor self, Tensor other) -> Tensor",
              "The smaller one, NaN if either is.", ScalarFn::kMinimum, kPromote,
              BINARY(Share(g, gt(a, b), eq(a, b)), Share(g, lt(a, b), eq(a, b))));
constinit const OpDef kFmax =
    Pointwise(Box<BinaryFn(fmax)>, "fmax(Tensor self, Tensor other) -> Tensor",
              "The larger one that is not NaN.", ScalarFn::kFmax, kPromote,
              BINARY(where(logical_or(ge(a, b), isnan(b)), g, 0.0),
                     where(logical_or(ge(a, b), isnan(b)), 0.0, g)));
constinit const OpDef kFmin =
    Pointwise(Box<BinaryFn(fmin)>, "fmin(Tensor self, Tensor other) -> Tensor",
              "The smaller one that is not NaN.", ScalarFn::kFmin, kPromote,
              BINARY(where(logical_or(le(a, b), isnan(b)), g, 0.0),
                     where(logical_or(le(a, b), isnan(b)), 0.0, g)));
constinit const OpDef kAtan2 =
    Pointwise(Box<BinaryFn(atan2)>, "atan2(Tensor self, Tensor other) -> Tensor",
              "Angle of the point (`other`, `self`), in (-pi, pi].", ScalarFn::kAtan2, kFloat,
              BINARY(g*(b / (a * a + b * b)), g*(-a / (a * a + b * b))));
constinit const OpDef kHypot =
    Pointwise(Box<BinaryFn(hypot)>, "hypot(Tensor self, Tensor other) -> Tensor",
              "Square root of the sum of squares, without overflow.", ScalarFn::kHypot, kFloat,
              BINARY(g*(a / y), g*(b / y)));
constinit const OpDef kCopysign =
    Pointwise(Box<BinaryFn(copysign)>, "copysign(Tensor self, Tensor other) -> Tensor",
              "Magnitude of `self` with the sign of `other`.", ScalarFn::kCopysign, kFloat,
              BINARY(where(eq(a, 0), 0.0, g*(y / a)), Zero(g)));
constinit const OpDef kNextafter = Pointwise(
    Box<BinaryFn(nextafter)>, "nextafter(Tensor self, Tensor other) -> Tensor",
    "The next value of the dtype after `self` toward `other`.", ScalarFn::kNextafter, kFloat);
constinit const OpDef kGcd =
    Pointwise(Box<BinaryFn(gcd)>, "gcd(Tensor self, Tensor other) -> Tensor",
              "Greatest common divisor, not negative.", ScalarFn::kGcd, kInteger);
constinit const OpDef kBitwiseAnd =
    Pointwise(Box<BinaryFn(bitwise_and)>, "bitwise_and(Tensor self, Tensor other) -> Tensor",
              "And of the bits.", ScalarFn::kBitwiseAnd, kInteger);
constinit const OpDef kBitwiseOr =
    Pointwise(Box<BinaryFn(bitwise_or)>, "bitwise_or(Tensor self, Tensor other) -> Tensor",
              "Or of the bits.", ScalarFn::kBitwiseOr, kInteger);
constinit const OpDef kBitwiseXor =
    Pointwise(Box<BinaryFn(bitwise_xor)>, "bitwise_xor(Tensor self, Tensor other) -> Tensor",
              "Exclusive or of the bits.", ScalarFn::kBitwiseXor, kInteger);
constinit const OpDef kShiftLeft = Pointwise(
    Box<BinaryFn(bitwise_left_shift)>, "bitwise_left_shift(Tensor self, Tensor other) -> Tensor",
    "Shifts bits up; 0 when `other` is negative or not below the width.", ScalarFn::kShiftLeft,
    kInteger, nullptr, {0.0, 7.0});
constinit const OpDef kShiftRight = Pointwise(
    Box<BinaryFn(bitwise_right_shift)>, "bitwise_right_shift(Tensor self, Tensor other) -> Tensor",
    "Shifts bits down, keeping the sign; all sign bits when `other` is negative or not "
    "below the width.",
    ScalarFn::kShiftRight, kInteger, nullptr, {0.0, 7.0});
constinit const OpDef kLogicalAnd =
    Pointwise(Box<BinaryFn(logical_and)>, "logical_and(Tensor self, Tensor other) -> Tensor",
              "Whether both are true.", ScalarFn::kLogicalAnd, kLogical);
constinit const OpDef kLogicalOr =
    Pointwise(Box<BinaryFn(logical_or)>, "logical_or(Tensor self, Tensor other) -> Tensor",
              "Whether one is true.", ScalarFn::kLogicalOr, kLogical);
constinit const OpDef kLogicalXor =
    Pointwise(Box<BinaryFn(logical_xor)>, "logical_xor(Tensor self, Tensor other) -> Tensor",
              "Whether exactly one is true.", ScalarFn::kLogicalXor, kLogical);
constinit const OpDef kEq = Pointwise(Box<BinaryFn(eq)>, "eq(Tensor self, Tensor other) -> Tensor",
                                      "Whether `self` equals `other`.", ScalarFn::kEq, kCompare);
constinit const OpDef kNe = Pointwise(Box<BinaryFn(ne)>, "ne(Tensor self, Tensor other) -> Tensor",
                                      "Whether `self` differs.", ScalarFn::kNe, kCompare);
constinit const OpDef kLt = Pointwise(Box<BinaryFn(lt)>, "lt(Tensor self, Tensor other) -> Tensor",
                                      "Whether `self` is less.", ScalarFn::kLt, kCompare);
constinit const OpDef kLe = Pointwise(Box<BinaryFn(le)>, "le(Tensor self, Tensor other) -> Tensor",
                                      "Whether `self` is less or equal.", ScalarFn::kLe, kCompare);
constinit const OpDef kGt = Pointwise(Box<BinaryFn(gt)>, "gt(Tensor self, Tensor other) -> Tensor",
                                      "Whether `self` is greater.", ScalarFn::kGt, kCompare);
constinit const OpDef kGe =
    Pointwise(Box<BinaryFn(ge)>, "ge(Tensor self, Tensor other) -> Tensor",
              "Whether `self` is greater or equal.", ScalarFn::kGe, kCompare);

// ---- select and conversion

constinit const OpDef kWhere = {
    .schema = "where(Tensor condition, Tensor self, Tensor other) -> Tensor",
    .doc = "`self` where `condition` holds, `other` elsewhere.",
    .call = Box<where>,
    .rule = DTypeRule::kSelect,
    .scalar = ScalarFn::kSelect,
    .complex = EachPart,
    .vjp = WhereVjp,
};
constinit const OpDef kCast = {
    .schema = "cast(Tensor self, ScalarType dtype) -> Tensor",
    .doc = "Converts as C does: float to integer truncates, to bool is a comparison with 0.",
    .infer = InferCast,
    .keeps_layout = true,
    .complex = CastParts,
    .vjp = CastVjp,
    .samples = {{"f32[2,3]", "{dtype=i32}"}, {"i64[4]", "{dtype=f16}"}, {"f32[]", "{dtype=bool}"}},
};
constinit const OpDef kBitcast = {
    .schema = "bitcast(Tensor self, ScalarType dtype) -> Tensor",
    .doc = "The same bits as another dtype; the last dimension scales with the width.",
    .infer = InferBitcast,
    .takes_complex = true,
    .vjp = BitcastVjp,
    .samples = {{"f32[2,3]", "{dtype=i32}"},
                {"f32[2,3]", "{dtype=u8}"},
                {"u8[2,8]", "{dtype=f64}"}},
};

}  // namespace hammock::ops
