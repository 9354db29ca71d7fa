// Functions summed from their series; special values are PyTorch's.

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "backends/reference/special.h"

namespace hammock::reference {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kEpsilon = std::numeric_limits<double>::epsilon();

/// exp(-x) * I_order(x) for x >= 0 and order 0 or 1.
double BesselIe(int order, double x) {
  if (x < 30) {
    // The sum of (x/2)^(2k + order) / (k! (k + order)!): all terms are positive.
    double quarter = x * x / 4, term = order == 0 ? 1 : x / 2, sum = term;
    for (int k = 1; term > sum * kEpsilon / 4; ++k) {
      term *= quarter / (static_cast<double>(k) * (k + order));
      sum += term;
    }
    return std::exp(-x) * sum;
  }
  // Hankel's expansion; its smallest term is below exp(-2x).
  double mu = 4.0 * order * order, term = 1, sum = 1;
  for (int k = 1; k < 40 && std::abs(term) > kEpsilon / 4; ++k) {
    double odd = 2 * k - 1;
    term *= -(mu - odd * odd) / (8 * k * x);
    sum += term;
  }
  return sum / std::sqrt(2 * std::numbers::pi * x);
}

/// x^a exp(-x) / gamma(a + 1).
double GammaFactor(double a, double x) { return std::exp(a * std::log(x) - x - Lgamma(a + 1)); }

constexpr int kMaxTerms = 1000000;

/// Best for x < a + 1.
double LowerBySeries(double a, double x) {
  double term = 1, sum = 1;
  for (int k = 1; k < kMaxTerms && term > sum * kEpsilon / 4; ++k) {
    term *= x / (a + k);
    sum += term;
  }
  return GammaFactor(a, x) * sum;
}

/// A continued fraction, evaluated forward (Lentz); best for x >= a + 1.
double UpperByFraction(double a, double x) {
  constexpr double kTiny = 1e-300;
  double b = x + 1 - a, c = 1 / kTiny, d = 1 / b, h = d;
  for (int k = 1; k < kMaxTerms; ++k) {
    double factor = -k * (k - a);
    b += 2;
    d = factor * d + b;
    c = b + factor / c;
    if (std::abs(d) < kTiny) d = kTiny;
    if (std::abs(c) < kTiny) c = kTiny;
    d = 1 / d;
    h *= d * c;
    if (std::abs(d * c - 1) < kEpsilon) break;
  }
  return GammaFactor(a, x) * a * h;
}

/// For small a and x: 1 - x^a / gamma(a + 1) * (1 + a * sum) without cancellation.
double UpperForSmall(double a, double x) {
  double term = 1, sum = 0;
  for (int k = 1; k < kMaxTerms; ++k) {
    term *= -x / k;
    double part = term / (a + k);
    sum += part;
    if (std::abs(part) <= std::abs(sum) * kEpsilon / 4) break;
  }
  double power = a * std::log(x) - Lgamma(a + 1);
  return -std::expm1(power) - a * std::exp(power) * sum;
}

constexpr double kLarge = 1e5;

/// The upper (sign 1) or lower (sign -1) function for large a, by the first terms of Temme's
/// expansion, which holds for every x.
double Uniform(double a, double x, double sign) {
  double mu = (x - a) / a;  // x / a - 1
  double half_square = mu - std::log1p(mu);
  if (std::abs(mu) < 1e-2) {
    half_square = 0;
    double power = mu * mu;
    for (int k = 2; k < 10; ++k, power *= -mu) half_square += power / k;
  }
  double eta = std::copysign(std::sqrt(2 * half_square), mu);
  double correction = std::abs(eta) < 1e-4 ? -1.0 / 3 + eta / 12 : 1 / mu - 1 / eta;
  double main = 0.5 * std::erfc(sign * eta * std::sqrt(a / 2));
  double scale = std::exp(-a * half_square) / std::sqrt(2 * std::numbers::pi * a);
  return main + sign * scale * correction;
}

}  // namespace

double Gelu(double x) {
  double share = std::erfc(-x * (std::numbers::sqrt2 / 2)) / 2;
  return std::max(x, -40.0) * share;  // below that nothing is left of it
}

double Erfcx(double x) {
  if (x < 25) return std::exp(x * x) * std::erfc(x);
  // The asymptotic series of erfc, whose terms fall by 1 / (2 x^2) at first.
  double term = 1, sum = 1;
  for (int k = 1; k < 10; ++k) {
    term *= -(2 * k - 1) / (2 * x * x);
    sum += term;
  }
  return std::numbers::inv_sqrtpi / x * sum;
}

double BesselI0e(double x) {
  if (std::isnan(x)) return x;
  return BesselIe(0, std::abs(x));
}

double BesselI1e(double x) {
  if (std::isnan(x)) return x;
  return std::copysign(BesselIe(1, std::abs(x)), x);
}

double Igamma(double a, double x) {
  if (a < 0 || x < 0 || (a == 0 && !(x > 0))) return kNan;
  if (a == 0) return 1;
  if (x == 0) return 0;
  if (std::isnan(a) || std::isnan(x)) return kNan;
  if (std::isinf(a)) return std::isinf(x) ? kNan : 0;
  if (std::isinf(x)) return 1;
  if (a > kLarge) return Uniform(a, x, -1);
  return x < a + 1 ? LowerBySeries(a, x) : 1 - UpperByFraction(a, x);
}

double Igammac(double a, double x) {
  if (a < 0 || x < 0 || (a == 0 && !(x > 0))) return kNan;
  if (a == 0) return 0;
  if (x == 0) return 1;
  if (std::isnan(a) || std::isnan(x)) return kNan;
  if (std::isinf(a)) return std::isinf(x) ? kNan : 1;
  if (std::isinf(x)) return 0;
  if (a > kLarge) return Uniform(a, x, 1);
  if (x < 1 && a < 1) return UpperForSmall(a, x);
  return x < a + 1 ? 1 - LowerBySeries(a, x) : UpperByFraction(a, x);
}

double Zeta(double s, double q) {
  if (s == 1) return kInfinity;
  if (s < 1 || std::isnan(q)) return kNan;
  if (q <= 0) {
    if (q == std::floor(q)) return kInfinity;
    if (s != std::floor(s)) return kNan;  // a power of a negative number
  }
  if (std::isnan(s)) return s;
  constexpr double kManyTerms = 1000;
  if (q < -kManyTerms) {
    // The sum over all integers, which depends on q's fraction alone, without the terms before q.
    if (std::isinf(s)) return kInfinity;
    double fraction = q - std::floor(q), sign = std::fmod(s, 2) == 0 ? 1 : -1;
    return Zeta(s, fraction) + sign * (Zeta(s, 1 - fraction) - Zeta(s, 1 - q));
  }
  // Terms one by one until Euler and Maclaurin's formula is exact for the rest.
  double sum = 0, far = std::max(12.0, std::min(s, 1e4));
  for (; q < far; ++q) {
    double term = std::pow(q, -s);
    sum += term;
    if (q > 0 && term < sum * kEpsilon / 16) return sum;
  }
  // B(2j) / (2j)!
  constexpr double kBernoulli[] = {1.0 / 12,           -1.0 / 720,     1.0 / 30240,
                                   -1.0 / 1209600,     1.0 / 47900160, -691.0 / 1307674368000.0,
                                   1.0 / 74724249600.0};
  double power = std::pow(q, -s);
  sum += power * q / (s - 1) + power / 2;
  double rising = s * power / q;
  for (int j = 0; j < 7; ++j) {
    sum += kBernoulli[j] * rising;
    rising *= (s + 2 * j + 1) * (s + 2 * j + 2) / (q * q);
  }
  return sum;
}

}  // namespace hammock::reference
