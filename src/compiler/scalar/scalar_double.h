#pragma once
/// Exponentials and logarithms of doubles. scripts/fit_scalar_math.py gives the coefficients.

#include "compiler/scalar/scalar_steps.h"

namespace hammock::compiler {

template <class D>
HAMMOCK_BODY ExpParts<D> SplitExp64(const D& x) {
  auto n = NearestOf(Fma(x, Like(x, kLog2E), Like(x, kShift64)), kShift64);
  D r = Fma(n.value, Like(x, -0.69314718055994529), x);
  r = Fma(n.value, Like(x, -2.3190468138462996e-17), r);
  D q = Poly(r, 2.0924450174349273e-09, 2.5109044922671647e-08, 2.755724273601854e-07,
             2.7557244181763616e-06, 2.4801587360588174e-05, 0.00019841269886158814,
             0.0013888888888866817, 0.0083333333333216152, 0.041666666666666699,
             0.16666666666666677, 0.5);
  return {n, Fma(r * r, q, r)};
}

template <class D>
HAMMOCK_BODY D Exp64(const D& x) {
  auto [n, w] = SplitExp64(AtMost(AtLeast(x, -746), 710));
  return Scaled(w + Like(x, 1), n);
}

/// 2^r of |r| <= 1/2.
template <class D>
HAMMOCK_BODY D Exp2Fraction64(const D& r) {
  D q = Poly(r, 2.5741836834463666e-11, 4.4566705502693133e-10, 7.0548882310275134e-09,
             1.0178051228725007e-07, 1.3215486833105971e-06, 1.5252733856193775e-05,
             0.00015403530393341051, 0.0013333558146390479, 0.009618129107628496,
             0.055504108664821701, 0.24022650695910072, 0.69314718055994529);
  return Fma(r, q, Like(r, 1));
}

template <class D>
HAMMOCK_BODY D Exp2_64(const D& x) {
  D y = AtMost(AtLeast(x, -1080), 1025);
  auto n = NearestOf(y + Like(x, kShift64), kShift64);
  return Scaled(Exp2Fraction64(y - n.value), n);
}

template <class D>
HAMMOCK_BODY D Expm1_64(const D& x) {
  auto [n, w] = SplitExp64(AtMost(AtLeast(x, -50), 710));
  // Half of the result, since 2^n alone may overflow.
  D half = PowerOfTwo(n, -1);
  D result = Fma(half, w, half - Like(x, 0.5)) * Like(x, 2);
  return Select(Abs(x) < Like(x, 0x1p-54), x, result);
}

template <class D>
HAMMOCK_BODY D Sigmoid64(const D& x) {
  auto [n, w] = SplitExp64(AtMost(AtLeast(-x, -50), 746));
  D scale = Like(x, 0x1p-512);
  D power = PowerOfTwo(n, -512);
  D sum = power + scale;
  D lost = scale - (sum - power);
  return Like(x, 1) / (sum + Fma(power, w, lost)) * scale;
}

template <class D>
HAMMOCK_BODY D Tanh64(const D& x) {
  D one = Like(x, 1);
  D a = Abs(x), z = x * x;
  D q = Poly(z, 7.3160847052101819e-06, -3.2733494562285588e-05, 9.3789586664522971e-05,
             -0.00023813633167162532, 0.00058981151479955594, -0.001455801927506237,
             0.0035921246888835235, -0.0088632352988261571, 0.021869488525973708,
             -0.05396825396799055, 0.13333333333332992, -0.33333333333333331);
  D small = Fma(x * z, q, x);
  D y = AtMost(a, 22);
  auto [n, w] = SplitExp64(y + y);
  D power = PowerOfTwo(n);
  D large = one - Like(x, 2) / Fma(power, w, power + one);
  return CopySign(Select(a < Like(x, 0.55), small, large), x);
}

/// x = 2^exponent * (1 + f), f between sqrt(1/2) - 1 and sqrt(2) - 1.
template <class D>
struct Fraction64 {
  D exponent;
  D f;
};
/// Of numbers above 0.
template <class D>
HAMMOCK_BODY Fraction64<D> SplitFraction64(const D& x) {
  constexpr int64_t kSqrtHalf = 0x3fe6a09e00000000, kOne = 0x3ff0000000000000;
  auto is_subnormal = x < Like(x, std::numeric_limits<double>::min());
  D y = Select(is_subnormal, x * Like(x, 0x1p52), x);
  auto bits = Bits(y);
  bits = bits + Like(bits, kOne - kSqrtHalf);
  auto shifted = ShiftRightZeros(bits, 52) | Like(bits, 0x4330000000000000);
  D bias = Select(is_subnormal, Like(x, 0x1p52 + 1023 + 52), Like(x, 0x1p52 + 1023));
  D m = FromBits((bits & Like(bits, 0x000fffffffffffff)) + Like(bits, kSqrtHalf));
  return {FromBits(shifted) - bias, m - Like(x, 1)};
}

/// (atanh(s) / s - 1) / z of z = s^2 <= 0.0295.
template <class D>
HAMMOCK_BODY D AtanhTail64(const D& z) {
  return Poly(z, 0.066270605930273799, 0.066249078044670576, 0.076935519769965155,
              0.090908876846404682, 0.11111111325210263, 0.14285714284531206, 0.2000000000000316,
              0.33333333333333331);
}

/// x = 2^exponent * (1 + f), and log(1 + f) = f - (half_square - rest).
template <class D>
struct LogParts64 {
  D exponent;
  D f;
  D half_square;
  D rest;

  HAMMOCK_BODY D LogOfFraction() const { return f - (half_square - rest); }
};

/// Of numbers above 0.
template <class D>
HAMMOCK_BODY LogParts64<D> SplitLog64(const D& x) {
  auto [exponent, f] = SplitFraction64(x);
  // log(1 + f) = f - f^2/2 + s * (f^2/2 + R), s = f / (2 + f), R = 2 * (atanh(s) - s) / s.
  D s = f / (f + Like(x, 2));
  D z = s * s;
  D half_square = f * f * Like(x, 0.5);
  return {exponent, f, half_square, s * Fma(z + z, AtanhTail64(z), half_square)};
}

/// log(x), where `rest` may have something added to that of the parts.
template <class D>
HAMMOCK_BODY D JoinLog64(const LogParts64<D>& parts, const D& rest) {
  D low = Fma(parts.exponent, Like(rest, 2.3190468138462996e-17), rest);
  return Fma(parts.exponent, Like(rest, kLn2), parts.f - (parts.half_square - low));
}

template <class D>
HAMMOCK_BODY D Log64(const D& x) {
  auto parts = SplitLog64(x);
  return WithLogLimits(x, JoinLog64(parts, parts.rest));
}

template <class D>
HAMMOCK_BODY D Log2_64(const D& x) {
  auto parts = SplitLog64(x);
  D log_m = parts.LogOfFraction();
  D low = Fma(log_m, Like(x, 2.0355273740931033e-17), parts.exponent);
  return WithLogLimits(x, Fma(log_m, Like(x, kLog2E), low));
}

template <class D>
HAMMOCK_BODY D Log10_64(const D& x) {
  auto parts = SplitLog64(x);
  D log_m = parts.LogOfFraction();
  D low =
      Fma(log_m, Like(x, 1.098319650216765e-17), parts.exponent * Like(x, -2.8037281277851704e-18));
  D sum = Fma(log_m, Like(x, 0.43429448190325182), low);
  return WithLogLimits(x, Fma(parts.exponent, Like(x, 0.30102999566398120), sum));
}

template <class D>
HAMMOCK_BODY D Log1p64(const D& x) {
  D one = Like(x, 1);
  D sum = x + one;
  // The rounding error of the sum.
  D lost = Select(x > one, one - (sum - x), x - (sum - one));
  auto parts = SplitLog64(sum);
  D result = JoinLog64(parts, parts.rest + lost / sum);
  result = Select(Abs(x) < Like(x, 0x1p-54), x, result);
  result = Select(x < Like(x, kInfinity), result, x);
  result = Select(x < -one, Like(x, kNan), result);
  return Select(x == -one, Like(x, -kInfinity), result);
}

}  // namespace hammock::compiler
