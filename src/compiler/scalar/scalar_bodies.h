#pragma once
/// Note [Scalar bodies]
/// Every scalar function is written once, as a template over a type of numbers, and has three uses:
/// with `Number` it is C++, with `IrNumber` it prints LLVM IR, with `CNumber` CUDA C++ or OpenCL
/// C. All
/// three do the same operations in the same order, each rounded once, so results have the same bits
/// (NaNs have any). There are no branches, only selects. Which of a function's lines are executed
/// does not depend on data, so none of them may trap: divisors of integers are made harmless,
/// shifts are kept in range.
///
/// f16 and bf16 are computed in float and rounded after each function by the caller. Functions
/// without a body are called lane by lane: backends/cpu/interpret/lane_functions.h.

#include "compiler/scalar/no_body.h"
#include "compiler/scalar/scalar_double_more.h"
#include "compiler/scalar/scalar_wide.h"
#include "hammock/ir/dtype.h"
#include "hammock/ir/scalar_fn.h"

namespace hammock::compiler {

/// Whether the function has an inline body for elements of this type. bool has them through
/// UnaryBool and BinaryBool; emitters write selects themselves.
constexpr bool HasBody(ScalarFn fn, DType dtype) {
  return fn != ScalarFn::kSelect && BodyOf(fn, dtype) <= ScalarBody::kByLane;
}

// ---- 16-bit floats

/// The bits of the nearest bfloat16, ties to even; a NaN stays one.
template <class F>
HAMMOCK_BODY auto ToBFloat16Bits(const F& x) {
  auto bits = Resize<uint32_t>(Bits(x));
  auto high = bits >> 16;
  auto rounded = (bits + Like(bits, 0x7fff) + (high & Like(bits, 1))) >> 16;
  return Resize<uint16_t>(Select(IsNan(x), high | Like(bits, 0x40), rounded));
}

/// `bits`: a number of uint16_t.
template <class Bits16>
HAMMOCK_BODY auto FromBFloat16Bits(const Bits16& bits) {
  return FromBits(Resize<uint32_t>(bits) << 16);
}

// ---- floats

template <class F>
HAMMOCK_BODY F Sign(const F& x) {
  F zero = Like(x, 0), one = Like(x, 1);
  return Select(x > zero, one, zero) - Select(x < zero, one, zero);
}

template <class N>
HAMMOCK_BODY N Larger(const N& x, const N& y) {
  return Select(x < y, y, x);
}
template <class N>
HAMMOCK_BODY N Smaller(const N& x, const N& y) {
  return Select(y < x, y, x);
}

/// `result`, which is x where x is a NaN, or y where that is one.
template <class F>
HAMMOCK_BODY F OrNan(const F& y, const F& result) {
  return Select(IsNan(y), y, result);
}

template <class F>
HAMMOCK_BODY F UnaryFloat(ScalarFn fn, const F& x) {
  constexpr bool kIs32 = sizeof(typename F::Element) == 4;
  switch (fn) {
    case ScalarFn::kAbs:
      return Abs(x);
    case ScalarFn::kNeg:
      return -x;
    case ScalarFn::kSign:
      return Sign(x);
    case ScalarFn::kFloor:
      return Floor(x);
    case ScalarFn::kCeil:
      return Ceil(x);
    case ScalarFn::kTrunc:
      return Trunc(x);
    case ScalarFn::kRound:
      return RoundEven(x);
    case ScalarFn::kSqrt:
      return Sqrt(x);
    case ScalarFn::kRsqrt:
      return Like(x, 1) / Sqrt(x);
    case ScalarFn::kReciprocal:
      return Like(x, 1) / x;
    default:
      break;
  }
  if constexpr (kIs32) {
    return UnaryMath32(fn, x);
  } else {
    return UnaryMath64(fn, x);
  }
}

template <class F>
HAMMOCK_BODY F BinaryFloat(ScalarFn fn, const F& x, const F& y) {
  switch (fn) {
    case ScalarFn::kAdd:
      return x + y;
    case ScalarFn::kSub:
      return x - y;
    case ScalarFn::kMul:
      return x * y;
    case ScalarFn::kDiv:
      return x / y;
    case ScalarFn::kTruncDivide:
      return Trunc(x / y);
    case ScalarFn::kMaximum:
      return OrNan(y, Larger(x, y));
    case ScalarFn::kMinimum:
      return OrNan(y, Smaller(x, y));
    case ScalarFn::kFmax:
      return Select(IsNan(x), y, Larger(x, y));
    case ScalarFn::kFmin:
      return Select(IsNan(x), y, Smaller(x, y));
    case ScalarFn::kCopysign:
      return CopySign(x, y);
    default:
      break;
  }
  if constexpr (sizeof(typename F::Element) == 4) {
    return BinaryMath32(fn, x, y);
  } else {
    return BinaryMath64(fn, x, y);
  }
}

// ---- integers

/// A divisor that never traps: 1 instead of 0 and, with a sign, of -1.
template <class N>
HAMMOCK_BODY N SafeDivisor(const N& y) {
  auto is_bad = y == Like(y, 0);
  if constexpr (std::signed_integral<typename N::Element>) is_bad = is_bad | (y == Like(y, -1));
  return Select(is_bad, Like(y, 1), y);
}

/// Truncated quotient; the smallest integer divided by -1 wraps.
template <class N>
HAMMOCK_BODY N Quotient(const N& x, const N& y) {
  N quotient = x / SafeDivisor(y);
  if constexpr (std::signed_integral<typename N::Element>) {
    N negated = -x;
    return Select(y == Like(y, -1), negated, quotient);
  } else {
    return quotient;
  }
}

template <class N>
HAMMOCK_BODY N Modulus(const N& x, const N& y) {
  return x % SafeDivisor(y);
}

template <class N>
HAMMOCK_BODY N FloorQuotient(const N& x, const N& y) {
  N quotient = Quotient(x, y);
  if constexpr (std::signed_integral<typename N::Element>) {
    auto is_low = (Modulus(x, y) != Like(x, 0)) & ((x ^ y) < Like(x, 0));
    return Select(is_low, quotient - Like(x, 1), quotient);
  } else {
    return quotient;
  }
}

template <class N>
HAMMOCK_BODY N FloorModulus(const N& x, const N& y) {
  N modulus = Modulus(x, y);
  if constexpr (std::signed_integral<typename N::Element>) {
    auto is_low = (modulus != Like(x, 0)) & ((x ^ y) < Like(x, 0));
    return Select(is_low, modulus + y, modulus);
  } else {
    return modulus;
  }
}

template <class N>
HAMMOCK_BODY auto IsShift(const N& y) {
  using T = typename N::Element;
  auto is_shift = y < Like(y, T(8 * sizeof(T)));
  if constexpr (std::signed_integral<T>) is_shift = is_shift & (y >= Like(y, 0));
  return is_shift;
}

template <class N>
HAMMOCK_BODY N ShiftLeft(const N& x, const N& y) {
  auto is_shift = IsShift(y);
  N zero = Like(x, 0);
  return Select(is_shift, x << Select(is_shift, y, zero), zero);
}

template <class N>
HAMMOCK_BODY N ShiftRight(const N& x, const N& y) {
  constexpr int kTop = 8 * sizeof(typename N::Element) - 1;
  if constexpr (std::signed_integral<typename N::Element>) {
    return x >> Select(IsShift(y), y, Like(y, kTop));
  } else {
    auto is_shift = IsShift(y);
    return Select(is_shift, x >> Select(is_shift, y, Like(y, 0)), Like(x, 0));
  }
}

/// By squaring; of a negative exponent the quotient 1 / x^-y, truncated.
template <class N>
HAMMOCK_BODY N PowInt(const N& x, const N& y) {
  using T = typename N::Element;
  constexpr int kBits = 8 * sizeof(T) - std::signed_integral<T>;
  N zero = Like(x, 0), one = Like(x, 1);
  N result = one, power = x, rest = y;
  for (int bit = 0; bit < kBits; ++bit) {
    N mask = zero - (rest & one);
    result = result * (((power - one) & mask) + one);
    power = power * power;
    rest = ShiftRightZeros(rest, 1);
  }
  if constexpr (std::signed_integral<T>) {
    N of_minus_one = one - ((y & one) << 1);
    N inverse = Select(x == one, one, Select(x == Like(x, -1), of_minus_one, zero));
    result = Select(y < zero, inverse, result);
  }
  return result;
}

template <class N>
HAMMOCK_BODY N UnaryInt(ScalarFn fn, const N& x) {
  N zero = Like(x, 0), one = Like(x, 1);
  switch (fn) {
    case ScalarFn::kAbs:
      return Select(x < zero, -x, x);
    case ScalarFn::kNeg:
      return -x;
    case ScalarFn::kSign:
      return Select(x > zero, one, zero) - Select(x < zero, one, zero);
    case ScalarFn::kBitwiseNot:
      return x ^ Like(x, static_cast<typename N::Element>(-1));
    case ScalarFn::kFloor:
    case ScalarFn::kCeil:
    case ScalarFn::kTrunc:
    case ScalarFn::kRound:
      return x;
    default:
      NoBody(fn);
  }
}

template <class N>
HAMMOCK_BODY N BinaryInt(ScalarFn fn, const N& x, const N& y) {
  switch (fn) {
    case ScalarFn::kAdd:
      return x + y;
    case ScalarFn::kSub:
      return x - y;
    case ScalarFn::kMul:
      return x * y;
    case ScalarFn::kFloorDivide:
      return FloorQuotient(x, y);
    case ScalarFn::kTruncDivide:
      return Quotient(x, y);
    case ScalarFn::kRemainder:
      return FloorModulus(x, y);
    case ScalarFn::kFmod:
      return Modulus(x, y);
    case ScalarFn::kPow:
      return PowInt(x, y);
    case ScalarFn::kMaximum:
    case ScalarFn::kFmax:
      return Larger(x, y);
    case ScalarFn::kMinimum:
    case ScalarFn::kFmin:
      return Smaller(x, y);
    case ScalarFn::kBitwiseAnd:
      return x & y;
    case ScalarFn::kBitwiseOr:
      return x | y;
    case ScalarFn::kBitwiseXor:
      return x ^ y;
    case ScalarFn::kShiftLeft:
      return ShiftLeft(x, y);
    case ScalarFn::kShiftRight:
      return ShiftRight(x, y);
    default:
      NoBody(fn);
  }
}

// ---- all numbers. `fn` has the form and, for this type, a body.

template <class N>
HAMMOCK_BODY N Unary(ScalarFn fn, const N& x) {
  if constexpr (std::floating_point<typename N::Element>) {
    return UnaryFloat(fn, x);
  } else {
    return UnaryInt(fn, x);
  }
}

template <class N>
HAMMOCK_BODY N Binary(ScalarFn fn, const N& x, const N& y) {
  if constexpr (std::floating_point<typename N::Element>) {
    return BinaryFloat(fn, x, y);
  } else {
    return BinaryInt(fn, x, y);
  }
}

template <class N>
HAMMOCK_BODY typename N::Mask Test(ScalarFn fn, const N& x) {
  switch (fn) {
    case ScalarFn::kIsNan:
      return IsNan(x);
    case ScalarFn::kLogicalNot:
      return x == Like(x, 0);
    default:
      NoBody(fn);
  }
}

template <class N>
HAMMOCK_BODY typename N::Mask Compare(ScalarFn fn, const N& x, const N& y) {
  switch (fn) {
    case ScalarFn::kEq:
      return x == y;
    case ScalarFn::kNe:
      return x != y;
    case ScalarFn::kLt:
      return x < y;
    case ScalarFn::kLe:
      return x <= y;
    case ScalarFn::kGt:
      return x > y;
    case ScalarFn::kGe:
      return x >= y;
    case ScalarFn::kLogicalAnd:
      return (x != Like(x, 0)) & (y != Like(y, 0));
    case ScalarFn::kLogicalOr:
      return (x != Like(x, 0)) | (y != Like(y, 0));
    case ScalarFn::kLogicalXor:
      return (x != Like(x, 0)) ^ (y != Like(y, 0));
    default:
      NoBody(fn);
  }
}

/// bool as numbers of uint8_t that are 0 or 1: what is not 0 is 1. Tests and compares are those of
/// uint8_t.
template <class N>
HAMMOCK_BODY N UnaryBool(ScalarFn fn, const N& x) {
  N zero = Like(x, 0), one = Like(x, 1);
  if (fn == ScalarFn::kBitwiseNot) return one - x;
  return Select(UnaryInt(fn, x) != zero, one, zero);
}
template <class N>
HAMMOCK_BODY N BinaryBool(ScalarFn fn, const N& x, const N& y) {
  return Select(BinaryInt(fn, x, y) != Like(x, 0), Like(x, 1), Like(x, 0));
}

}  // namespace hammock::compiler
