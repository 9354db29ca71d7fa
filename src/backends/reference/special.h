#pragma once
/// Functions that the C++ library lacks or does not offer thread-safe, to a few ulp of double.

namespace hammock::reference {

double Erfinv(double x);             ///< inverse of erf on [-1, 1], NaN outside
double Lgamma(double x);             ///< log |gamma(x)|; infinite at 0 and the negative integers
double Digamma(double x);            ///< derivative of Lgamma; NaN at the negative integers
double Gelu(double x);               ///< x * (1 + erf(x / sqrt(2))) / 2, -0 at minus infinity
double Erfcx(double x);              ///< exp(x * x) * erfc(x)
double BesselI0e(double x);          ///< exp(-|x|) * I0(x)
double BesselI1e(double x);          ///< exp(-|x|) * I1(x)
double Igamma(double a, double x);   ///< regularised lower incomplete gamma function
double Igammac(double a, double x);  ///< 1 - Igamma(a, x)
double Zeta(double s, double q);     ///< Hurwitz zeta function

}  // namespace hammock::reference
