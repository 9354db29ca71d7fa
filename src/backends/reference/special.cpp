#include "backends/reference/special.h"

#include <math.h>

#include <cmath>
#include <limits>
#include <numbers>

namespace hammock::reference {
namespace {

template <int N>
double Polynomial(const double (&coefficients)[N], double x) {
  double result = 0;
  for (double coefficient : coefficients) result = result * x + coefficient;
  return result;
}

/// M. Giles, "Approximating the erfinv function" (2010): good to 7 digits, but not far in the tail,
/// where erfc(y) is near exp(-y^2) / (y sqrt(pi)).
double ErfinvGuess(double x) {
  constexpr double kCentral[] = {2.81022636e-08,  3.43273939e-07, -3.5233877e-06,
                                 -4.39150654e-06, 0.00021858087,  -0.00125372503,
                                 -0.00417768164,  0.246640727,    1.50140941};
  constexpr double kTail[] = {-0.000200214257, 0.000100950558, 0.00134934322,
                              -0.00367342844,  0.00573950773,  -0.0076224613,
                              0.00943887047,   1.00167406,     2.83297682};
  double w = -std::log((1 - x) * (1 + x));
  if (w < 5) return x * Polynomial(kCentral, w - 2.5);
  if (w < 16) return x * Polynomial(kTail, std::sqrt(w) - 3);
  double y = std::sqrt(-std::log(1 - x));
  for (int step = 0; step < 3; ++step) {
    y = std::sqrt(-std::log((1 - x) * y / std::numbers::inv_sqrtpi));
  }
  return y;
}

}  // namespace

double Erfinv(double x) {
  if (!(std::abs(x) <= 1)) return std::numeric_limits<double>::quiet_NaN();
  if (std::abs(x) == 1) return x * std::numeric_limits<double>::infinity();
  double magnitude = std::abs(x);
  double y = ErfinvGuess(magnitude);
  for (int step = 0; step < 3; ++step) {
    // Near 1 the complement has the digits that erf has lost.
    double residual = magnitude < 0.5 ? std::erf(y) - magnitude : (1 - magnitude) - std::erfc(y);
    double slope = 2 * std::numbers::inv_sqrtpi * std::exp(-y * y);
    double newton = residual / slope;
    y -= newton / (1 + y * newton);  // Halley's correction: erf'' = -2 y erf'
  }
  return std::copysign(y, x);
}

double Lgamma(double x) {
  int sign = 0;  // std::lgamma would write a global
  return ::lgamma_r(x, &sign);
}

double Digamma(double x) {
  if (x == 0) return std::copysign(std::numeric_limits<double>::infinity(), -x);
  double result = 0;
  if (x < 0) {
    double whole = std::trunc(x);
    if (x == whole) return std::numeric_limits<double>::quiet_NaN();
    result = -std::numbers::pi / std::tan(std::numbers::pi * (x - whole));
    x = 1 - x;
  }
  for (; x < 10; ++x) result -= 1 / x;
  // The asymptotic series with the Bernoulli numbers B(2k) / 2k.
  constexpr double kSeries[] = {-1.0 / 12,  691.0 / 32760, -1.0 / 132, 1.0 / 240,
                                -1.0 / 252, 1.0 / 120,     -1.0 / 12};
  double inverse = 1 / (x * x);
  return result + std::log(x) - 0.5 / x + Polynomial(kSeries, inverse) * inverse;
}

}  // namespace hammock::reference
