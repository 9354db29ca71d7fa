#include "backends/reference/float_arithmetic.h"

#include <cmath>

#include "hammock/ir/half.h"

namespace hammock::reference {
namespace {

/// The next value of a 16-bit float: its bits count up with its magnitude.
template <class T>
double NextAfter16(double from, double to) {
  if (std::isnan(from) || std::isnan(to)) return std::nan("");
  if (from == to) return to;
  if (from == 0) return std::copysign(static_cast<float>(T::FromBits(1)), to);
  uint16_t bits = T(static_cast<float>(from)).bits;
  return static_cast<float>(T::FromBits((from < to) == (from > 0) ? bits + 1 : bits - 1));
}

}  // namespace

double NextAfter(DType dtype, double from, double to) {
  if (dtype == DType::kF64) return std::nextafter(from, to);
  if (dtype == DType::kF32) {
    return std::nextafter(static_cast<float>(from), static_cast<float>(to));
  }
  return dtype == DType::kF16 ? NextAfter16<Half>(from, to) : NextAfter16<BFloat16>(from, to);
}

double Remainder(double a, double b) {
  double mod = std::fmod(a, b);
  return mod != 0 && (b < 0) != (mod < 0) ? mod + b : mod;
}

double FloorDivide(double a, double b) {
  if (b == 0) return a / b;
  double mod = std::fmod(a, b);
  double quotient = (a - mod) / b;
  if (mod != 0 && (b < 0) != (mod < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(0.0, a / b);
  double floor = std::floor(quotient);
  return quotient - floor > 0.5 ? floor + 1 : floor;
}

double TruncDivide(DType dtype, double a, double b) {
  return std::trunc(dtype == DType::kF64 ? a / b : static_cast<float>(a / b));
}

double Maximum(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::nan("");
  return a < b ? b : a;
}

double Minimum(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::nan("");
  return b < a ? b : a;
}

}  // namespace hammock::reference
