#pragma once
/// Functions that the C++ library lacks or does not offer thread-safe, to a few ulp of double.

namespace hammock::reference {

double Erfinv(double x);   ///< inverse of erf on [-1, 1], NaN outside
double Lgamma(double x);   ///< log |gamma(x)|; infinite at 0 and the negative integers
double Digamma(double x);  ///< derivative of Lgamma; NaN at the negative integers

}  // namespace hammock::reference
