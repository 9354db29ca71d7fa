#pragma once
/// sin, cos and tan of all doubles. scripts/fit_scalar_math.py gives the coefficients.

#include "compiler/scalar/scalar_steps.h"
#include "compiler/scalar/two_over_pi.h"

namespace hammock::compiler {

/// x = k * pi/2 + r, and k's last bits.
template <class D>
struct Reduced64 {
  Pair<D> r;
  typename Nearest<D>::Int quadrant;
};

/// Of |x| < 2^25: the first product and difference are exact.
template <class D>
HAMMOCK_BODY Reduced64<D> ReduceSmall64(const D& x) {
  D k = RoundEven(x * Like(x, 2 / kPi));
  D first = Fma(k, Like(x, -1.5707963267948966), x);
  Pair<D> second = Product(k, Like(x, 6.123233995736766e-17));
  Pair<D> r = Sum(first, -second.high);
  D low = (r.low - second.low) - k * Like(x, -1.4973849048591833e-33);
  return {QuickSum(r.high, low), Bits(k + Like(x, kShift64))};
}

/// `x` without multiples of 4.
template <class D>
HAMMOCK_BODY D WithoutFours(const D& x) {
  return Fma(RoundEven(x * Like(x, 0.25)), Like(x, -4), x);
}

/// a + x, exact but for the last bits of the second.
template <class D>
HAMMOCK_BODY Pair<D> Add(const Pair<D>& a, const D& x) {
  Pair<D> sum = Sum(a.high, x);
  return QuickSum(sum.high, sum.low + a.low);
}

/// Of |x| >= 2^25. x is y * 2^g with a whole y < 2^68, so 2^g * 2/pi may be replaced by what is
/// left of it when multiples of 4 are taken away: kTwoOverPi has it for every sixteenth g.
template <class D>
HAMMOCK_BODY Reduced64<D> ReduceLarge64(const D& x) {
  auto bits = Bits(x);
  auto part = ((ShiftRightZeros(bits, 52) & Like(bits, 0x7ff)) - Like(bits, 1023 + 25)) >> 4;
  part = Select(part < Like(bits, 0), Like(bits, 0), part);
  part = Select(part < Like(bits, kTurnParts), part, Like(bits, kTurnParts - 1));
  D y = x * FromBits((Like(bits, 1023 + 27) - (part << 4)) << 52);
  Pair<D> a = Product(y, Lookup(part, kTwoOverPi[0])), b = Product(y, Lookup(part, kTwoOverPi[1])),
          c = Product(y, Lookup(part, kTwoOverPi[2]));
  D d = y * Lookup(part, kTwoOverPi[3]);
  Pair<D> turns = Sum(WithoutFours(a.high), WithoutFours(a.low));
  Pair<D> more = Sum(turns.high, WithoutFours(b.high));
  D k = RoundEven(more.high);
  Pair<D> rest = {more.high - k, Like(x, 0)};
  rest = Add(Add(Add(rest, turns.low), more.low), b.low);
  rest = Add(Add(rest, c.high), c.low + d);
  Pair<D> r = Product(rest.high, Like(x, 1.5707963267948966));
  r.low = r.low +
          Fma(rest.high, Like(x, 6.123233995736766e-17), rest.low * Like(x, 1.5707963267948966));
  return {QuickSum(r.high, r.low), Bits(k + Like(x, kShift64))};
}

template <class D>
struct SinCos64 {
  Pair<D> sin;
  Pair<D> cos;
  typename Nearest<D>::Int quadrant;
};

template <class D>
HAMMOCK_BODY SinCos64<D> SinCosOf64(const D& x) {
  auto small = ReduceSmall64(x);
  auto large = ReduceLarge64(x);
  auto is_small = Abs(x) < Like(x, 0x1p25);
  D r = Select(is_small, small.r.high, large.r.high);
  D low = Select(is_small, small.r.low, large.r.low);
  auto quadrant = Select(is_small, small.quadrant, large.quadrant);
  D z = r * r;
  D s = Poly(z, 1.5895400200293776e-10, -2.5050733828764546e-08, 2.7557313534998255e-06,
             -0.00019841269829348556, 0.0083333333333218285, -0.1666666666666663);
  D c = Poly(z, -1.1359105308972589e-11, 2.0875713137985783e-09, -2.7557314280458859e-07,
             2.4801587289243389e-05, -0.0013888888888873758, 0.041666666666666595);
  D one = Like(x, 1), half = z * Like(x, 0.5);
  D near = one - half;
  D lost = (one - near) - half;
  return {QuickSum(r, Fma(r * z, s, low * near)), QuickSum(near, Fma(z * z, c, Fma(-r, low, lost))),
          quadrant};
}

/// The sine `quadrants` after x.
template <class D>
HAMMOCK_BODY D Sin64(const D& x, int quadrants) {
  auto [sin, cos, k] = SinCosOf64(x);
  auto quadrant = k + Like(k, quadrants);
  auto sign = (quadrant & Like(k, 2)) << 62;
  D result = FromBits(Bits(SelectOdd(quadrant, cos.high, sin.high)) ^ sign);
  return quadrants == 0 ? Select(Abs(x) < Like(x, 0x1p-27), x, result) : result;
}

template <class D>
HAMMOCK_BODY D Tan64(const D& x) {
  auto [sin, cos, k] = SinCosOf64(x);
  Pair<D> above = {SelectOdd(k, -cos.high, sin.high), SelectOdd(k, -cos.low, sin.low)};
  Pair<D> below = {SelectOdd(k, sin.high, cos.high), SelectOdd(k, sin.low, cos.low)};
  D inverse = Like(x, 1) / below.high;
  D quotient = above.high * inverse;
  D rest = Fma(-quotient, below.high, above.high) + Fma(-quotient, below.low, above.low);
  return Select(Abs(x) < Like(x, 0x1p-27), x, Fma(rest, inverse, quotient));
}

}  // namespace hammock::compiler
