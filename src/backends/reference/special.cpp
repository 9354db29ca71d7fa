#include "backends/reference/special.h"

#include <math.h>

#include <numbers>

namespace hammock::reference {
namespace {

#define SPECIAL_FUNCTION inline
#define SPECIAL_LGAMMA Lgamma
#include "compiler/text/special_functions.inc"
#undef SPECIAL_FUNCTION
#undef SPECIAL_LGAMMA

}  // namespace

double Lgamma(double x) {
  int sign = 0;  // std::lgamma would write a global
  return ::lgamma_r(x, &sign);
}

double Gelu(double x) {
  double share = erfc(-x * (std::numbers::sqrt2 / 2)) / 2;
  return x * share;
}

double Erfinv(double x) { return special_erfinv(x); }
double Digamma(double x) { return special_digamma(x); }
double Erfcx(double x) { return special_erfcx(x); }
double BesselI0e(double x) { return special_i0e(x); }
double BesselI1e(double x) { return special_i1e(x); }
double Igamma(double a, double x) { return special_igamma(a, x); }
double Igammac(double a, double x) { return special_igammac(a, x); }
double Zeta(double s, double q) { return special_zeta(s, q); }

}  // namespace hammock::reference
