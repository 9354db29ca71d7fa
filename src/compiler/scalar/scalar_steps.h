#pragma once
/// Building blocks of scalar functions: polynomials, limits, integers in floats, powers of two; for
/// `Number` and `IrNumber` alike. `F` is a number of floats or doubles.

#include <limits>

#include "compiler/scalar/number.h"

namespace hammock::compiler {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kPi = 3.141592653589793238;
inline constexpr double kLn2 = 0.693147180559945309;
inline constexpr double kLog2E = 1.442695040888963407;

/// The first coefficient is that of the highest power.
template <class F, class... Rest>
HAMMOCK_BODY F Poly(const F& x, double first, Rest... rest) {
  F sum = Like(x, typename F::Element(first));
  ((sum = Fma(sum, x, Like(x, typename F::Element(rest)))), ...);
  return sum;
}

/// min and max with a constant; a NaN stays.
template <class F>
HAMMOCK_BODY F AtMost(const F& x, double limit) {
  F bound = Like(x, typename F::Element(limit));
  return Select(x > bound, bound, x);
}
template <class F>
HAMMOCK_BODY F AtLeast(const F& x, double limit) {
  F bound = Like(x, typename F::Element(limit));
  return Select(x < bound, bound, x);
}

template <class F>
HAMMOCK_BODY auto IsNan(const F& x) {
  return x != x;
}

/// a where the last bit is 1, else b. By bits: g++ does not vectorise a test of one bit.
template <class D, class Int>
HAMMOCK_BODY D SelectOdd(const Int& number, const D& a, const D& b) {
  Int mask = Like(number, 0) - (number & Like(number, 1));
  auto a_bits = Bits(a), b_bits = Bits(b);
  return FromBits(b_bits ^ ((a_bits ^ b_bits) & mask));
}

/// A sum of two, of which the second is what the first lacks.
template <class F>
struct Pair {
  F high;
  F low;
};
/// a + b, where a is not smaller in size than b.
template <class F>
HAMMOCK_BODY Pair<F> QuickSum(const F& a, const F& b) {
  F sum = a + b;
  return {sum, b - (sum - a)};
}
template <class F>
HAMMOCK_BODY Pair<F> Sum(const F& a, const F& b) {
  F sum = a + b;
  F of_b = sum - a;
  return {sum, (a - (sum - of_b)) + (b - of_b)};
}
template <class F>
HAMMOCK_BODY Pair<F> Product(const F& a, const F& b) {
  F product = a * b;
  return {product, Fma(a, b, -product)};
}

/// The integer nearest to a value. Adding a number so large that its last bit is 1 rounds, and
/// leaves the integer in the low bits: no conversion that could overflow.
template <class F>
struct Nearest {
  using Int = typename F::template Of<BitsOf<typename F::Element>>;
  F value;
  Int bits;  ///< the high bits are not the integer's
};
inline constexpr double kShift32 = 0x1.8p23;
inline constexpr double kShift64 = 0x1.8p52;

/// Of the sum of a value and the shift.
template <class F>
HAMMOCK_BODY Nearest<F> NearestOf(const F& sum, double shift) {
  return {sum - Like(sum, typename F::Element(shift)), Bits(sum)};
}

/// 2^(n + more) where that is normal.
template <class F>
HAMMOCK_BODY F PowerOfTwo(const Nearest<F>& n, int more = 0) {
  using Int = BitsOf<typename F::Element>;
  constexpr bool kIs32 = sizeof(Int) == 4;
  constexpr int kPlace = kIs32 ? 23 : 52;
  Int bias = Int((kIs32 ? 127 : 1023) + more) << kPlace;
  return FromBits((n.bits << kPlace) + Like(n.bits, bias));
}

/// 2^n as a product of two normal numbers: results may be subnormal or overflow.
template <class F>
struct TwoPowers {
  F first;
  F second;
};
template <class F>
HAMMOCK_BODY TwoPowers<F> PowersOfTwo(const Nearest<F>& n) {
  using T = typename F::Element;
  constexpr bool kIs32 = sizeof(T) == 4;
  constexpr int kPlace = kIs32 ? 23 : 52, kBias = kIs32 ? 127 : 1023, kPart = kIs32 ? 64 : 512;
  constexpr T kSmall = kIs32 ? T(0x1p-64) : T(0x1p-512), kLarge = kIs32 ? T(0x1p64) : T(0x1p512);
  using Int = BitsOf<T>;
  auto is_small = n.value < Like(n.value, 0);
  auto bias = Select(is_small, Like(n.bits, Int(kBias + kPart) << kPlace),
                     Like(n.bits, Int(kBias - kPart) << kPlace));
  return {FromBits((n.bits << kPlace) + bias),
          Select(is_small, Like(n.value, kSmall), Like(n.value, kLarge))};
}

/// p * 2^n of p around 1, where results may be subnormal or overflow: rounded once.
template <class F>
HAMMOCK_BODY F Scaled(const F& p, const Nearest<F>& n) {
  if constexpr (requires { HasScale(p); }) {
    if (HasScale(p)) return Scale(p, n.value);
  }
  auto [power, rest] = PowersOfTwo(n);
  return p * power * rest;  // the first product is exact
}
/// The same where the result is normal. A NaN becomes anything.
template <class F>
HAMMOCK_BODY F ScaledNormal(const F& p, const Nearest<F>& n) {
  constexpr int kPlace = sizeof(typename F::Element) == 4 ? 23 : 52;
  return FromBits(Bits(p) + (n.bits << kPlace));
}

/// x = n * ln2 + r, and e^r - 1.
template <class F>
struct ExpParts {
  Nearest<F> n;
  F expm1_r;
};

/// log, given its value for ordinary numbers.
template <class F>
HAMMOCK_BODY F WithLogLimits(const F& x, const F& result) {
  using T = typename F::Element;
  F r = Select(x < Like(x, T(kInfinity)), result, x);
  r = Select(x < Like(x, 0), Like(x, T(kNan)), r);
  return Select(x == Like(x, 0), Like(x, T(-kInfinity)), r);
}

}  // namespace hammock::compiler
