#pragma once
/// Arithmetic of floats where ours differs from the C++ library's, on doubles that hold elements of
/// any float dtype.

#include "hammock/ir/dtype.h"

namespace hammock::reference {

/// Python's float remainder: the sign is that of `b`.
double Remainder(double a, double b);
/// Python's float floor division, as PyTorch has it.
double FloorDivide(double a, double b);
/// The quotient is a value of its own: it is rounded to float before it is truncated.
double TruncDivide(DType dtype, double a, double b);
double Maximum(double a, double b);  ///< NaN if one is
double Minimum(double a, double b);  ///< NaN if one is
/// The value of the dtype that follows `from` in the direction of `to`.
double NextAfter(DType dtype, double from, double to);

}  // namespace hammock::reference
