// Bessel, gamma and normal distribution functions; the parts of a floating number.

#include <cmath>
#include <limits>
#include <numbers>

#include "base/throw.h"
#include "hammock/ops/elementwise.h"
#include "hammock/ops/special.h"
#include "ir/primitives.h"
#include "ops/primitives/elementwise_kit.h"
#include "ops/primitives/families.h"
#include "trace/apply.h"

namespace hammock {

using namespace ops;  // NOLINT: records and the op writer's kit

namespace {

extern const OpDef kI0, kI1, kEntr, kNdtr, kLogNdtr, kXlog1py, kPolygamma, kMvlgamma, kFrexp;

std::vector<Tensor> ExpandI0(const ExpandCall& call) {
  Tensor x = Wide(call, 0);
  return Narrow(call, exp(abs(x)) * i0e(x));
}

std::vector<Tensor> ExpandI1(const ExpandCall& call) {
  Tensor x = Wide(call, 0);
  return Narrow(call, exp(abs(x)) * i1e(x));
}

/// The logarithm gets an argument for which it, and its derivative, are finite.
std::vector<Tensor> ExpandEntr(const ExpandCall& call) {
  Tensor x = Wide(call, 0);
  Tensor positive = gt(x, 0);
  Tensor inside = -x * log(where(positive, x, 1.0));
  Tensor outside = where(eq(x, 0), 0.0, -std::numeric_limits<double>::infinity());
  return Narrow(call, where(isnan(x), x, where(positive, inside, Casted(outside, x.dtype()))));
}

std::vector<Tensor> ExpandNdtr(const ExpandCall& call) {
  Tensor x = Wide(call, 0);
  return Narrow(call, erfc(x * -std::numbers::sqrt2 / 2) * 0.5);
}

/// Below -1 the probability is small: its logarithm comes from the scaled erfcx.
std::vector<Tensor> ExpandLogNdtr(const ExpandCall& call) {
  Tensor x = Wide(call, 0);
  Tensor t = x * (std::numbers::sqrt2 / 2);
  Tensor low = lt(x, -1);
  Tensor below = log(erfcx(-where(low, t, -1.0)) * 0.5) - t * t;
  Tensor above = log1p(erfc(where(low, 1.0, t)) * -0.5);
  return Narrow(call, where(low, below, above));
}

std::vector<Tensor> ExpandXlog1py(const ExpandCall& call) {
  Tensor x = Wide(call, 0), y = Wide(call, 1);
  return Narrow(call, where(isnan(y), y, where(eq(x, 0), 0.0, x * log1p(y))));
}

/// (-1)^(n + 1) n! zeta(n + 1, x)
std::vector<Tensor> ExpandPolygamma(const ExpandCall& call) {
  int64_t n = call.attrs[0].integer();
  Tensor x = Wide(call, 0);
  if (n == 0) return Narrow(call, digamma(x));
  double factorial = std::tgamma(static_cast<double>(n) + 1);
  Tensor order = ConstantLike(static_cast<double>(n) + 1, x);
  Tensor result = zeta(order, x) * (n % 2 == 0 ? -factorial : factorial);
  // The limits that PyTorch has for n = 1.
  if (n == 1) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    result = where(eq(x, -kInfinity), std::nan(""), where(eq(x, kInfinity), 0.0, result));
  }
  return Narrow(call, result);
}

void InferMvlgamma(const InferCall& call) {
  constexpr int64_t kMost = 4096;  // each dimension is a term of the expansion
  const int64_t p = call.attrs[0].integer();
  if (p < 1 || p > kMost)
    Refuse(call, ErrorCode::kValue, "p must be from 1 to {}, is {}", kMost, p);
  InferFloatOfFirst(call);
}

std::vector<Tensor> ExpandMvlgamma(const ExpandCall& call) {
  int64_t p = call.attrs[0].integer();
  Tensor x = Wide(call, 0);
  double count = static_cast<double>(p);
  Tensor sum;
  for (int64_t i = p - 1; i >= 0; --i) {
    Tensor term = lgamma(x - static_cast<double>(i) / 2);
    sum = sum.defined() ? sum + term : term;
  }
  return Narrow(call, sum + count * (count - 1) / 4 * std::log(std::numbers::pi));
}

/// 2 ** exponent, for exponents of normal numbers; i64 in, f64 out.
Tensor PowerOfTwo(const Tensor& exponent) {
  Tensor bits =
      bitwise_left_shift(exponent + ConstantLike(1023, exponent), ConstantLike(52, exponent));
  return Apply(kBitcast, Location(), {bits}, {DType::kF64});
}

/// The exponent is read from the bits of the number in f64, where only those of f64 can be
/// subnormal. The mantissa is a product with powers of two, of which the exponent is no function.
std::vector<Tensor> ExpandFrexp(const ExpandCall& call) {
  Tensor x = Casted(call.in[0], DType::kF64);
  Tensor small = lt(abs(x), ConstantLike(std::numeric_limits<double>::min(), x));
  Tensor tiny = logical_and(small, ne(x, ConstantLike(0, x)));
  Tensor normal = where(tiny, x * ConstantLike(0x1p54, x), x);
  Tensor bits = Apply(kBitcast, Location(), {normal}, {DType::kI64});
  Tensor field =
      bitwise_and(bitwise_right_shift(bits, ConstantLike(52, bits)), ConstantLike(0x7ff, bits));
  Tensor zero = ConstantLike(0, field);
  Tensor plain = logical_and(isfinite(x), ne(x, ConstantLike(0, x)));
  Tensor exponent = where(plain, field - ConstantLike(1022, field), zero);
  Tensor half = bitwise_right_shift(exponent, ConstantLike(1, exponent));
  // In two steps: 2 ** 1024 is no f64.
  Tensor mantissa = normal * PowerOfTwo(-half) * PowerOfTwo(half - exponent);
  Tensor lost = where(tiny, ConstantLike(54, exponent), zero);
  return {Casted(mantissa, call.out[0].dtype()), Casted(exponent - lost, DType::kI32)};
}

void InferFrexp(const InferCall& call) {
  const Shape& self = *call.in[0];
  RequireDType(call, IsFloat(self.dtype()), self, "a floating dtype");
  call.out = {self, self.With(DType::kI32)};
}

// ---- Gradients

std::vector<Tensor> ErfcxVjp(const VjpCall& c) {
  return {c.grad() * (c.in[0] * 2 * c.out[0] - 2 * std::numbers::inv_sqrtpi)};
}

std::vector<Tensor> I0eVjp(const VjpCall& c) {
  const Tensor& x = c.in[0];
  return {c.grad() * (i1e(x) - sign(x) * c.out[0])};
}

std::vector<Tensor> I1eVjp(const VjpCall& c) {
  const Tensor& x = c.in[0];
  Tensor zero = eq(x, 0);
  Tensor slope = i0e(x) - c.out[0] * (sign(x) + reciprocal(where(zero, 1.0, x)));
  return {c.grad() * where(zero, 0.5, slope)};
}

// Of their own, since the expansions' would be infinity times zero where exp overflows.
std::vector<Tensor> I0Vjp(const VjpCall& c) { return {c.grad() * i1(c.in[0])}; }

std::vector<Tensor> I1Vjp(const VjpCall& c) {
  const Tensor& x = c.in[0];
  Tensor zero = eq(x, 0);
  Tensor slope = i0(x) - c.out[0] / where(zero, 1.0, x);
  return {c.grad() * where(zero, 0.5, slope)};
}

/// PyTorch has none of these either.
void RefuseFirst(const VjpCall& c) {
  if (!c.needs(0)) return;
  Throw<NotSupported>(ErrorCode::kNotSupported, "{}: there is no gradient for the first operand",
                      c.op.name());
}

/// The density of the gamma distribution, the derivative by `other`.
Tensor GammaDensity(const VjpCall& c) {
  RefuseFirst(c);
  const Tensor &a = c.in[0], &x = c.in[1];
  return exp((a - 1) * log(x) - x - lgamma(a));
}

std::vector<Tensor> IgammaVjp(const VjpCall& c) { return {Tensor(), c.grad() * GammaDensity(c)}; }
std::vector<Tensor> IgammacVjp(const VjpCall& c) { return {Tensor(), -c.grad() * GammaDensity(c)}; }

std::vector<Tensor> ZetaVjp(const VjpCall& c) {
  RefuseFirst(c);
  return {Tensor(), -c.grad() * c.in[0] * zeta(c.in[0] + 1, c.in[1])};
}

/// A number as an operand next to a tensor; at least one of the two is a tensor.
std::pair<Tensor, Tensor> Operands(const char* op, const TensorArg& a, const TensorArg& b) {
  if (!a.is_tensor() && !b.is_tensor()) {
    Throw<TypeError>(ErrorCode::kDTypeMismatch, "{}: one of the operands must be a tensor", op);
  }
  const Tensor& tensor = a.is_tensor() ? a.tensor() : b.tensor();
  return {AsTensor(a, tensor), AsTensor(b, tensor)};
}

}  // namespace

Tensor i0(const Tensor& self, Location at) { return ApplyUnary(kI0, at, self); }
Tensor i0e(const Tensor& self, Location at) { return ApplyUnary(kI0e, at, self); }
Tensor i1(const Tensor& self, Location at) { return ApplyUnary(kI1, at, self); }
Tensor i1e(const Tensor& self, Location at) { return ApplyUnary(kI1e, at, self); }
Tensor entr(const Tensor& self, Location at) { return ApplyUnary(kEntr, at, self); }
Tensor ndtr(const Tensor& self, Location at) { return ApplyUnary(kNdtr, at, self); }
Tensor log_ndtr(const Tensor& self, Location at) { return ApplyUnary(kLogNdtr, at, self); }
Tensor erfcx(const Tensor& self, Location at) { return ApplyUnary(kErfcx, at, self); }

Tensor igamma(const Tensor& self, const Tensor& other, Location at) {
  return ApplyBinary(kIgamma, at, self, other);
}

Tensor igammac(const Tensor& self, const Tensor& other, Location at) {
  return ApplyBinary(kIgammac, at, self, other);
}

Tensor zeta(const TensorArg& self, const TensorArg& other, Location at) {
  LocationScope scope(at);
  auto [s, q] = Operands("zeta", self, other);
  return ApplyBinary(kZeta, at, s, q);
}

Tensor xlog1py(const TensorArg& self, const TensorArg& other, Location at) {
  LocationScope scope(at);
  auto [x, y] = Operands("xlog1py", self, other);
  return ApplyBinary(kXlog1py, at, x, y);
}

Tensor polygamma(int64_t n, const Tensor& self, Location at) {
  LocationScope scope(at);
  if (n < 0) Throw(ErrorCode::kValue, "polygamma: n must not be negative, is {}", n);
  return Apply(kPolygamma, at, {self}, {n});
}

Tensor mvlgamma(const Tensor& self, int64_t p, Location at) {
  LocationScope scope(at);
  if (self.dtype() == DType::kBool) {
    Throw<TypeError>(ErrorCode::kDTypeMismatch, "mvlgamma: {} is not supported, needs numbers",
                     self.shape().to_string());
  }
  return Apply(kMvlgamma, at, {self}, {p});
}

std::tuple<Tensor, Tensor> frexp(const Tensor& self, Location at) {
  LocationScope scope(at);
  auto parts = ApplyMulti(kFrexp, at, std::span(&self, 1));
  return {parts[0], parts[1]};
}

// ---- Records

namespace {

/// Elementwise in floats: a primitive with a scalar function, or a composite with an expansion.
constexpr OpDef FloatOp(const char* schema, const char* doc, BoxedFn call, ScalarFn scalar,
                        ExpandFn expand, VjpFn vjp, Domain domain = {}) {
  return OpDef{.schema = schema,
               .doc = doc,
               .call = call,
               .rule = DTypeRule::kFloat,
               .scalar = scalar,
               .expand = expand,
               .vjp = vjp,
               .domain = domain};
}

}  // namespace

namespace ops {

constinit const OpDef kErfcx =
    FloatOp("erfcx(Tensor self) -> Tensor", "exp(self * self) * erfc(self), without overflow.",
            Box<erfcx>, ScalarFn::kErfcx, nullptr, ErfcxVjp);
constinit const OpDef kI0e = FloatOp("i0e(Tensor self) -> Tensor", "exp(-|self|) * i0(self).",
                                     Box<i0e>, ScalarFn::kI0e, nullptr, I0eVjp);
constinit const OpDef kI1e = FloatOp("i1e(Tensor self) -> Tensor", "exp(-|self|) * i1(self).",
                                     Box<i1e>, ScalarFn::kI1e, nullptr, I1eVjp);
constinit const OpDef kIgamma =
    FloatOp("igamma(Tensor self, Tensor other) -> Tensor",
            "Regularised lower incomplete gamma function of `self` at `other`.", Box<igamma>,
            ScalarFn::kIgamma, nullptr, IgammaVjp, {0.1, 5.0});
constinit const OpDef kIgammac =
    FloatOp("igammac(Tensor self, Tensor other) -> Tensor",
            "Regularised upper incomplete gamma function of `self` at `other`.", Box<igammac>,
            ScalarFn::kIgammac, nullptr, IgammacVjp, {0.1, 5.0});
constinit const OpDef kZeta = FloatOp("zeta(Tensor self, Tensor other) -> Tensor",
                                      "Hurwitz zeta function: the sum of (other + k) ** -self.",
                                      Box<zeta>, ScalarFn::kZeta, nullptr, ZetaVjp, {1.5, 5.0});

}  // namespace ops

namespace {

constexpr ScalarFn kNoScalar = ScalarFn::kNone;

constinit const OpDef kI0 =
    FloatOp("i0(Tensor self) -> Tensor", "Modified Bessel function of the first kind, order 0.",
            Box<i0>, kNoScalar, ExpandI0, I0Vjp);
constinit const OpDef kI1 =
    FloatOp("i1(Tensor self) -> Tensor", "Modified Bessel function of the first kind, order 1.",
            Box<i1>, kNoScalar, ExpandI1, I1Vjp);
constinit const OpDef kEntr =
    FloatOp("entr(Tensor self) -> Tensor", "-self * log(self), 0 at 0, minus infinity below.",
            Box<entr>, kNoScalar, ExpandEntr, nullptr, {0.1, 5.0});
constinit const OpDef kNdtr = FloatOp("ndtr(Tensor self) -> Tensor",
                                      "Distribution function of the standard normal distribution.",
                                      Box<ndtr>, kNoScalar, ExpandNdtr, nullptr);
constinit const OpDef kLogNdtr =
    FloatOp("log_ndtr(Tensor self) -> Tensor", "Logarithm of ndtr, exact in the tail.",
            Box<log_ndtr>, kNoScalar, ExpandLogNdtr, nullptr);
constinit const OpDef kXlog1py =
    FloatOp("xlog1py(Tensor self, Tensor other) -> Tensor",
            "self * log1p(other), 0 where `self` is 0 unless `other` is NaN.", Box<xlog1py>,
            kNoScalar, ExpandXlog1py, nullptr, {0.1, 5.0});
constinit const OpDef kPolygamma = {
    .schema = "polygamma(int n, Tensor self) -> Tensor",
    .doc = "The n-th derivative of digamma.",
    .call = Box<polygamma>,
    .infer = InferFloatOfFirst,
    .keeps_layout = true,
    .expand = ExpandPolygamma,
    .samples = {{"f32[2,3]", "{n=1}"}, {"f64[3]", "{n=0}"}},
};
constinit const OpDef kMvlgamma = {
    .schema = "mvlgamma(Tensor self, int p) -> Tensor",
    .doc = "Logarithm of the multivariate gamma function of dimension `p`, from 1 to 4096.",
    .call = Box<mvlgamma>,
    .infer = InferMvlgamma,
    .expand = ExpandMvlgamma,
    .samples = {{"f32[2,3]", "{p=2}"}},
};
constinit const OpDef kFrexp = {
    .schema = "frexp(Tensor self) -> (Tensor mantissa, Tensor exponent)",
    .doc = "self == mantissa * 2 ** exponent with |mantissa| in [0.5, 1).",
    .call = Box<frexp>,
    .infer = InferFrexp,
    .keeps_layout = true,
    .expand = ExpandFrexp,
    .num_outputs = 2,
    .samples = {{"f32[2,3]"}, {"f16[3]"}},
};

constexpr const OpDef* kNodes[] = {&kI0,      &kI1,        &kEntr,     &kNdtr, &kLogNdtr,
                                   &kXlog1py, &kPolygamma, &kMvlgamma, &kFrexp};

#define ALIAS(name, arguments, function) \
  {.schema = name arguments " -> Tensor", .doc = "PyTorch's other name.", .call = Box<function>},
// clang-format off
constinit const OpDef kFunctions[] = {
    ALIAS("special_i0", "(Tensor self)", i0)
    ALIAS("special_i0e", "(Tensor self)", i0e)
    ALIAS("special_i1", "(Tensor self)", i1)
    ALIAS("special_i1e", "(Tensor self)", i1e)
    ALIAS("special_entr", "(Tensor self)", entr)
    ALIAS("special_ndtr", "(Tensor self)", ndtr)
    ALIAS("special_log_ndtr", "(Tensor self)", log_ndtr)
    ALIAS("special_erfcx", "(Tensor self)", erfcx)
    ALIAS("special_erf", "(Tensor self)", UnaryFn(erf))
    ALIAS("special_erfc", "(Tensor self)", UnaryFn(erfc))
    ALIAS("special_erfinv", "(Tensor self)", UnaryFn(erfinv))
    ALIAS("special_exp2", "(Tensor self)", UnaryFn(exp2))
    ALIAS("special_expm1", "(Tensor self)", UnaryFn(expm1))
    ALIAS("special_log1p", "(Tensor self)", UnaryFn(log1p))
    ALIAS("special_expit", "(Tensor self)", UnaryFn(sigmoid))
    ALIAS("special_sinc", "(Tensor self)", UnaryFn(sinc))
    ALIAS("special_gammaln", "(Tensor self)", UnaryFn(lgamma))
    ALIAS("special_digamma", "(Tensor self)", UnaryFn(digamma))
    ALIAS("special_psi", "(Tensor self)", UnaryFn(digamma))
    ALIAS("special_logit", "(Tensor self, Scalar? eps=None)", logit)
    ALIAS("special_xlogy", "(Tensor self, Tensor other)", BinaryFn(xlogy))
    ALIAS("special_xlog1py", "(Tensor self, Tensor other)", xlog1py)
    ALIAS("special_zeta", "(Tensor self, Tensor other)", zeta)
    ALIAS("special_gammainc", "(Tensor self, Tensor other)", igamma)
    ALIAS("special_gammaincc", "(Tensor self, Tensor other)", igammac)
    ALIAS("special_polygamma", "(int n, Tensor self)", polygamma)
    ALIAS("special_multigammaln", "(Tensor self, int p)", mvlgamma)
};
// clang-format on
#undef ALIAS

}  // namespace

std::span<const OpDef* const> ops::BesselGammaOps() {
  static const auto list = Listed(kNodes, kFunctions);
  return list;
}

}  // namespace hammock
