// Orthogonal polynomials by their recurrences, and functions of torch.special.

#include "hammock/ops/polynomials.h"

#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "base/throw.h"
#include "hammock/ops/elementwise.h"
#include "hammock/ops/special.h"
#include "ops/primitives/elementwise_kit.h"
#include "ops/primitives/families.h"

namespace hammock {

using namespace ops;  // NOLINT: records and the op writer's kit

namespace {

extern const OpDef kNdtri;

// ---- Polynomials

/// p0 = 1, p1 = slope x + offset, p(k+1) = (scale x + shift) p(k) + previous p(k-1).
struct Family {
  bool shifted;
  double slope, offset;
  std::array<double, 3> (*factors)(double k);  ///< (scale, shift, previous)
};

std::array<double, 3> ChebyshevFactors(double) { return {2, 0, -1}; }
std::array<double, 3> HermiteFactors(double k) { return {2, 0, -2 * k}; }
std::array<double, 3> ProbabilistsFactors(double k) { return {1, 0, -k}; }
std::array<double, 3> LaguerreFactors(double k) {
  return {-1 / (k + 1), (2 * k + 1) / (k + 1), -k / (k + 1)};
}
std::array<double, 3> LegendreFactors(double k) { return {(2 * k + 1) / (k + 1), 0, -k / (k + 1)}; }

constexpr Family k_chebyshev_polynomial_t = {false, 1, 0, ChebyshevFactors};
constexpr Family k_chebyshev_polynomial_u = {false, 2, 0, ChebyshevFactors};
constexpr Family k_chebyshev_polynomial_v = {false, 2, -1, ChebyshevFactors};
constexpr Family k_chebyshev_polynomial_w = {false, 2, 1, ChebyshevFactors};
constexpr Family k_shifted_chebyshev_polynomial_t = {true, 1, 0, ChebyshevFactors};
constexpr Family k_shifted_chebyshev_polynomial_u = {true, 2, 0, ChebyshevFactors};
constexpr Family k_shifted_chebyshev_polynomial_v = {true, 2, -1, ChebyshevFactors};
constexpr Family k_shifted_chebyshev_polynomial_w = {true, 2, 1, ChebyshevFactors};
constexpr Family k_hermite_polynomial_h = {false, 2, 0, HermiteFactors};
constexpr Family k_hermite_polynomial_he = {false, 1, 0, ProbabilistsFactors};
constexpr Family k_laguerre_polynomial_l = {false, -1, 1, LaguerreFactors};
constexpr Family k_legendre_polynomial_p = {false, 1, 0, LegendreFactors};

/// slope x + offset
Tensor Line(const Tensor& x, double slope, double offset) {
  Tensor scaled = slope == 1 ? x : mul(x, ConstantLike(slope, x));
  return offset == 0 ? scaled : add(scaled, ConstantLike(offset, x));
}

Tensor Polynomial(const char* op, const Family& family, const Tensor& self, int64_t n) {
  constexpr int64_t kMost = 4096;  // each degree is a term of the graph
  if (n > kMost) {
    Throw(ErrorCode::kValue, "{}: the degree must be at most {}, is {}", op, kMost, n);
  }
  DType dtype = FloatOf(self.dtype());
  Tensor x = Casted(self, WideFloat(dtype));
  if (n <= 0) return Filled(self.sizes(), n == 0 ? 1 : 0, dtype, self);
  if (family.shifted) x = Line(x, 2, -1);
  Tensor before = ConstantLike(1, x), now = Line(x, family.slope, family.offset);
  for (int64_t k = 1; k < n; ++k) {
    auto [scale, shift, previous] = family.factors(static_cast<double>(k));
    Tensor next = add(mul(Line(x, scale, shift), now), mul(before, ConstantLike(previous, x)));
    before = std::exchange(now, next);
  }
  return Casted(now, dtype);
}

// ---- ndtri

/// Where the smaller tail `q` is below 0.02: a rational start (Abramowitz and Stegun 26.2.23) and
/// Newton's method on the logarithm of the probability.
Tensor TailQuantile(const Tensor& q) {
  auto c = [&](double value) { return ConstantLike(value, q); };
  Tensor log_q = log(q), t = sqrt(mul(log_q, c(-2)));
  auto horner = [&](std::initializer_list<double> terms) {
    Tensor sum;
    for (double term : terms) sum = sum.defined() ? add(mul(sum, t), c(term)) : c(term);
    return sum;
  };
  Tensor x = sub(
      div(horner({0.010328, 0.802853, 2.515517}), horner({0.001308, 0.189269, 1.432788, 1.0})), t);
  for (int i = 0; i < 3; ++i) {
    Tensor log_p = log_ndtr(x);
    Tensor half_square = mul(mul(x, x), c(0.5));
    Tensor slope = exp(sub(sub(neg(half_square), log_p), c(std::log(2 * std::numbers::pi) / 2)));
    x = sub(x, div(sub(log_p, log_q), slope));
  }
  return x;
}

std::vector<Tensor> ExpandNdtri(const ExpandCall& call) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Tensor p = Wide(call, 0);
  auto c = [&](double value) { return ConstantLike(value, p); };
  Tensor low = lt(p, c(0.5));
  Tensor q = where(low, p, sub(c(1), p));
  Tensor far = lt(q, c(0.02));
  Tensor middle = mul(erfinv(sub(mul(where(far, c(0.5), q), c(2)), c(1))), c(std::numbers::sqrt2));
  Tensor tail = TailQuantile(where(logical_and(far, gt(q, c(0))), q, c(0.01)));
  Tensor x = where(far, tail, middle);
  x = where(low, x, neg(x));
  x = where(eq(p, c(0)), c(-kInfinity), where(eq(p, c(1)), c(kInfinity), x));
  Tensor inside = logical_and(ge(p, c(0)), le(p, c(1)));
  return Narrow(call, where(inside, x, c(std::nan(""))));
}

Tensors NdtriGrad(const VjpCall& call) {
  Tensor x = Casted(call.out[0], WideFloat(call.out[0].dtype()));
  Tensor slope = mul(exp(mul(mul(x, x), ConstantLike(0.5, x))),
                     ConstantLike(std::sqrt(2 * std::numbers::pi), x));
  return {Casted(mul(Casted(call.grad(), x.dtype()), slope), call.in[0].dtype())};
}

}  // namespace

#define HAMMOCK_DEFINE(name)                                          \
  Tensor special_##name(const Tensor& self, int64_t n, Location at) { \
    LocationScope scope(at);                                          \
    return Polynomial("special_" #name, k_##name, self, n);           \
  }
HAMMOCK_POLYNOMIALS(HAMMOCK_DEFINE)
#undef HAMMOCK_DEFINE

Tensor special_ndtri(const Tensor& self, Location at) { return Apply(kNdtri, at, {self}); }

Tensor special_spherical_bessel_j0(const Tensor& self, Location at) {
  LocationScope scope(at);
  return sinc(mul(self, 1 / std::numbers::pi));
}

Tensor special_modified_bessel_i0(const Tensor& self, Location at) { return i0(self, at); }
Tensor special_modified_bessel_i1(const Tensor& self, Location at) { return i1(self, at); }

// ---- Records

namespace {

constinit const OpDef kNdtri = {
    .schema = "special_ndtri(Tensor self) -> Tensor",
    .doc = "The inverse of the standard normal distribution function.",
    .call = Box<special_ndtri>,
    .rule = DTypeRule::kFloat,
    .keeps_layout = true,
    .expand = ExpandNdtri,
    .vjp = NdtriGrad,
    .domain = {.lo = 0.001, .hi = 0.999},
    .samples = {{"f32[2,3]"}},
};

#define HAMMOCK_RECORD(name)                                                 \
  {.schema = "special_" #name "(Tensor self, int n) -> Tensor",              \
   .doc = "The orthogonal polynomial of degree `n`, which is at most 4096.", \
   .call = Box<special_##name>},
#define UNARY(name, about) \
  {.schema = #name "(Tensor self) -> Tensor", .doc = about, .call = Box<name>},

constinit const OpDef kFunctions[] = {HAMMOCK_POLYNOMIALS(HAMMOCK_RECORD) UNARY(
    special_spherical_bessel_j0, "sin(x) / x.") UNARY(special_modified_bessel_i0, "Same as i0.")
                                          UNARY(special_modified_bessel_i1, "Same as i1.")};

}  // namespace

std::span<const OpDef* const> ops::PolynomialOps() {
  static constexpr const OpDef* kNodes[] = {&kNdtri};
  static const auto list = Listed(kNodes, kFunctions);
  return list;
}

}  // namespace hammock
