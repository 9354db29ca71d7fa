#pragma once
/// Functions of doubles beyond exponentials and logarithms. Where a result of one rounding after
/// another would be off by several units in the last place, what a rounding lost is carried along
/// as a second double. scripts/fit_scalar_math.py gives the coefficients.

#include "compiler/scalar/no_body.h"
#include "compiler/scalar/scalar_double.h"
#include "compiler/scalar/scalar_trig64.h"
#include "hammock/ir/scalar_fn.h"

namespace hammock::compiler {

// ---- inverse functions of the circle

/// atan(above / below) + offset, where the quotient is at most 0.4143 in size.
template <class D>
HAMMOCK_BODY D AtanOf(const Pair<D>& above, const Pair<D>& below, const Pair<D>& offset) {
  D inverse = Like(offset.high, 1) / below.high;
  D u = above.high * inverse;
  D rest = Fma(-u, below.high, above.high) + Fma(-u, below.low, above.low);
  // Of tiny quotients, and of 1 / infinity, there is none that could be computed.
  D low = Select(Abs(u) > Like(u, 0x1p-500), rest * inverse, Like(u, 0));
  D z = u * u;
  D q =
      Poly(z, -0.017893971660120189, 0.038052222898221813, -0.050388080287179352,
           0.058477762864217242, -0.066630880766717235, 0.076920587650965946, -0.090908976733518526,
           0.11111110780413479, -0.1428571428013316, 0.19999999999952933, -0.33333333333333193);
  return offset.high + (u + Fma(u * z, q, low + offset.low));
}

/// pi/4 and pi/2 beyond a slope of tan(pi/8) and of its inverse.
inline constexpr double kLowSlope = 0.41421356237309505, kHighSlope = 2.4142135623730950;
inline constexpr double kHalfPiLow = 6.123233995736766e-17, kPiLow = 1.2246467991473532e-16;

/// The angle of a point with these two sides, of which neither is infinite if the other is: from 0
/// to pi/2. Their sum must not overflow.
template <class D>
HAMMOCK_BODY D AngleOf(const D& rise, const D& run) {
  D zero = Like(rise, 0);
  auto is_high = rise > run * Like(run, kHighSlope);
  auto is_middle = rise > run * Like(run, kLowSlope);
  auto is_above = rise > run;
  D larger = Select(is_above, rise, run), smaller = Select(is_above, run, rise);
  Pair<D> sum = QuickSum(larger, smaller), difference = QuickSum(larger, -smaller);
  Pair<D> above = {
      Select(is_high, -run,
             Select(is_middle, Select(is_above, difference.high, -difference.high), rise)),
      Select(is_high, zero,
             Select(is_middle, Select(is_above, difference.low, -difference.low), zero))};
  Pair<D> below = {Select(is_high, rise, Select(is_middle, sum.high, run)),
                   Select(is_high, zero, Select(is_middle, sum.low, zero))};
  Pair<D> offset = {
      Select(is_high, Like(rise, kPi / 2), Select(is_middle, Like(rise, kPi / 4), zero)),
      Select(is_high, Like(rise, kHalfPiLow), Select(is_middle, Like(rise, kHalfPiLow / 2), zero))};
  return AtanOf(above, below, offset);
}

template <class D>
HAMMOCK_BODY D Atan64(const D& x) {
  return CopySign(AngleOf(Abs(x), Like(x, 1)), x);
}

template <class D>
HAMMOCK_BODY D Atan2_64(const D& y, const D& x) {
  D zero = Like(x, 0), one = Like(x, 1), infinity = Like(x, kInfinity);
  D rise = Abs(y), run = Abs(x);
  auto both_infinite = (rise == infinity) & (run == infinity);
  auto both_zero = (rise == zero) & (run == zero);
  rise = Select(both_infinite, one, rise);
  run = Select(both_infinite | both_zero, one, run);
  // Neither overflow of the sum nor underflow of what the quotient lacks.
  D larger = Select(rise > run, rise, run);
  D scale = Select(larger > Like(x, 0x1p1000), Like(x, 0x1p-100),
                   Select(larger < Like(x, 0x1p-500), Like(x, 0x1p500), one));
  D angle = AngleOf(rise * scale, run * scale);
  auto bits = Bits(x);
  D reflected = Like(x, kPi) - (angle - Like(x, kPiLow));
  angle = Select(bits < Like(bits, 0), reflected, angle);
  return Select(IsNan(x) | IsNan(y), x + y, CopySign(angle, y));
}

/// asin(s) / s - 1 of s^2 = z <= 1/4.
template <class D>
HAMMOCK_BODY D AsinTail(const D& z) {
  return z * Poly(z, 0.032628765912276758, -0.020999307365646674, 0.021707634184789087,
                  0.0037063251292691933, 0.010780277051979942, 0.011398907424043061,
                  0.013980821206445662, 0.017351611951393241, 0.02237221499157022,
                  0.030381942707627597, 0.044642857174615413, 0.074999999999707967,
                  0.1666666666666676);
}

/// asin(sqrt(z)) of z = (1 - a) / 2.
template <class D>
HAMMOCK_BODY Pair<D> AsinOfRoot(const D& a) {
  D z = (Like(a, 1) - a) * Like(a, 0.5);
  D s = Sqrt(z);
  D low = Fma(-s, s, z) / (s + s);
  low = Select(s > Like(a, 0), low, Like(a, 0));
  return {s, Fma(s, AsinTail(z), low)};
}

template <class D>
HAMMOCK_BODY D Asin64(const D& x) {
  D a = Abs(x);
  D small = Fma(a, AsinTail(a * a), a);
  auto [s, tail] = AsinOfRoot(a);
  D large = Like(x, kPi / 2) - (Fma(Like(x, 2), s, Fma(Like(x, 2), tail, Like(x, -kHalfPiLow))));
  return CopySign(Select(a > Like(x, 0.5), large, small), x);
}

template <class D>
HAMMOCK_BODY D Acos64(const D& x) {
  D a = Abs(x), half_pi = Like(x, kPi / 2);
  D tail_x = Fma(x, AsinTail(x * x), Like(x, -kHalfPiLow));
  // half_pi - x exactly, and what asin has beyond x.
  D near = half_pi - x;
  D lost = (half_pi - near) - x;
  D small = near + (lost - tail_x);
  auto [s, tail] = AsinOfRoot(a);
  D twice = s + s;
  D positive = Fma(Like(x, 2), tail, twice);
  D negative = Like(x, kPi) - (twice + Fma(Like(x, 2), tail, Like(x, -kPiLow)));
  return Select(a > Like(x, 0.5), Select(x < Like(x, 0), negative, positive), small);
}

// ---- functions of the hyperbola

/// Half of e^a of a >= 0, and what it lacks.
template <class D>
HAMMOCK_BODY Pair<D> HalfExp64(const D& a) {
  auto [n, w] = SplitExp64(AtMost(a, 720));
  D p = w + Like(a, 1);
  D lost = w - (p - Like(a, 1));
  Nearest<D> before = {n.value - Like(a, 1), n.bits - Like(n.bits, 1)};
  auto [power, rest] = PowersOfTwo(before);
  return {p * power * rest, lost * power * rest};
}

template <class D>
HAMMOCK_BODY D Sinh64(const D& x) {
  D a = Abs(x), z = a * a;
  D q = Poly(z, 7.7587488542509357e-13, 1.6057259767177076e-10, 2.5052123136741235e-08,
             2.7557319157071755e-06, 0.00019841269841431873, 0.0083333333333331476,
             0.16666666666666669);
  D small = Fma(a * z, q, a);
  auto [half, lost] = HalfExp64(a);
  D large = half - (Like(x, 0.25) / half - lost);
  return CopySign(Select(a < Like(x, 1), small, large), x);
}

template <class D>
HAMMOCK_BODY D Cosh64(const D& x) {
  auto [half, lost] = HalfExp64(Abs(x));
  return half + (Like(x, 0.25) / half + lost);
}

/// log(2^doublings * x + low) of normal x above 0 and a low that is small compared with it.
template <class D>
HAMMOCK_BODY D LogOf(const D& x, const D& low, const D& doublings) {
  auto parts = SplitLog64(x);
  parts.exponent = parts.exponent + doublings;
  return JoinLog64(parts, parts.rest + low / x);
}

/// log(1 + t + low) of t >= 0; log(2 * large) where `is_large`.
template <class D, class Mask>
HAMMOCK_BODY D Log1pOrTwice(const D& t, const D& low, const D& large, const Mask& is_large) {
  D zero = Like(t, 0), one = Like(t, 1);
  D sum = t + one;
  D lost = Select(t > one, one - (sum - t), t - (sum - one)) + low;
  return LogOf(Select(is_large, large, sum), Select(is_large, zero, lost),
               Select(is_large, one, zero));
}

template <class D>
HAMMOCK_BODY D Asinh64(const D& x) {
  D a = Abs(x), one = Like(x, 1);
  auto is_large = a > Like(x, 0x1p28);
  D b = Select(is_large, one, a);
  D more = b * b / (one + Sqrt(Fma(b, b, one)));
  D t = b + more;
  D result = Log1pOrTwice(t, more - (t - b), a, is_large);
  result = Select(a < Like(x, kInfinity), result, a);
  return Select(a < Like(x, 0x1p-28), x, CopySign(result, x));
}

template <class D>
HAMMOCK_BODY D Acosh64(const D& x) {
  D one = Like(x, 1);
  auto is_large = x > Like(x, 0x1p28);
  D t = Select(is_large, one, x) - one;
  D root = Sqrt(Fma(t, t, t + t));
  D sum = root + t;
  D result = Log1pOrTwice(sum, t - (sum - root), x, is_large);
  result = Select(x < Like(x, kInfinity), result, x);
  return Select(x < one, Like(x, kNan), result);
}

template <class D>
HAMMOCK_BODY D Atanh64(const D& x) {
  D a = Abs(x), one = Like(x, 1), z = a * a;
  D small = Fma(a * z, AtanhTail64(z), a);
  D above = a + one, below = one - a;
  D above_low = a - (above - one), below_low = (one - below) - a;
  D quotient = above / below;
  D rest = Fma(-quotient, below, above) + Fma(-quotient, below_low, above_low);
  D large = LogOf(quotient, rest / below, Like(x, 0)) * Like(x, 0.5);
  D result = Select(z < Like(x, 0.0294), small, large);
  result = Select(a == one, Like(x, kInfinity), result);
  return CopySign(Select(a <= one, result, Like(x, kNan)), x);
}

// ---- the error function

/// 1 - erf(a) of 1/2 <= a.
template <class D>
HAMMOCK_BODY D ErfcTail64(const D& size) {
  D a = AtMost(size, 28), one = Like(size, 1), four = Like(size, 4);
  D t = (a - four) / (a + four);
  // (1 + 2a) * e^(a^2) * erfc(a)
  D q = Poly(t, -1.0068355915701702e-08, -1.2138883700979716e-08, 1.0443840986019483e-07,
             6.6793919113232218e-08, -8.2093927427825086e-07, 2.9982193933021546e-07,
             5.7074583289549818e-06, -1.1224898603943995e-05, -2.4398452365964477e-05,
             0.0001506225580085728, -0.00019925686416516359, -0.0007577734632618333,
             0.0050319700024295602, -0.016197734036228303, 0.037167515535318364,
             -0.066330365813768458, 0.093732834998456541, -0.10103906603624736,
             0.068097054254690231, 0.015379652102618931, -0.1396211168405625, 1.2329951186255526);
  D square = a * a;
  D lost = Fma(a, a, -square);
  auto [n, w] = SplitExp64(-square);
  D p = w + one;
  D p_low = w - (p - one);
  // q * (1 - lost) / (1 + 2a), and what that lacks.
  D below = Fma(Like(a, 2), a, one);
  D below_low = Fma(Like(a, 2), a, one - below);
  D inverse = one / below;
  D factor = q * inverse;
  D rest = Fma(-factor, below, q) - Fma(factor, below_low, q * lost);
  return Scaled(Fma(p, factor, Fma(p_low, factor, p * (rest * inverse))), n);
}

template <class D>
HAMMOCK_BODY D ErfSmall64(const D& x) {
  D z = x * x;
  D q = Poly(z, -7.8011753047915972e-10, 1.3722967496317573e-08, -1.6209173486772891e-07,
             1.6447517301696731e-06, -1.4924744627322853e-05, 0.00012055295318292221,
             -0.00085483259896108334, 0.0052239776074213965, -0.026866170643275931,
             0.11283791670945251, -0.37612638903183548, 0.12837916709551256);
  return Fma(x, q, x);
}

template <class D>
HAMMOCK_BODY D Erf64(const D& x) {
  D a = Abs(x);
  D large = CopySign(Like(x, 1) - ErfcTail64(AtLeast(AtMost(a, 6), 0.5)), x);
  return Select(a < Like(x, 1), ErfSmall64(x), large);
}

template <class D>
HAMMOCK_BODY D Erfc64(const D& x) {
  D a = Abs(x);
  D tail = ErfcTail64(AtLeast(a, 0.5));
  D large = Select(x < Like(x, 0), Like(x, 2) - tail, tail);
  return Select(a < Like(x, 0.5), Like(x, 1) - ErfSmall64(x), large);
}

/// x times the share of a normal distribution that lies below x.
template <class D>
HAMMOCK_BODY D Gelu64(const D& x) {
  D share = Erfc64(x * Like(x, -0.70710678118654752440)) * Like(x, 0.5);
  return x * share;
}

// ---- of two numbers

template <class D>
HAMMOCK_BODY D Hypot64(const D& x, const D& y) {
  D a = Abs(x), b = Abs(y), infinity = Like(x, kInfinity), one = Like(x, 1);
  D larger = Select(a > b, a, b);
  auto is_huge = larger > Like(x, 0x1p500), is_tiny = larger < Like(x, 0x1p-450);
  D scale = Select(is_huge, Like(x, 0x1p-600), Select(is_tiny, Like(x, 0x1p600), one));
  D back = Select(is_huge, Like(x, 0x1p600), Select(is_tiny, Like(x, 0x1p-600), one));
  D high = Select(a > b, a, b) * scale, low = Select(a > b, b, a) * scale;
  D result = Sqrt(Fma(high, high, low * low)) * back;
  result = Select(IsNan(x) | IsNan(y), x + y, result);
  return Select((a == infinity) | (b == infinity), infinity, result);
}

/// log2(x) of x above 0, good to some 2^-68 of it.
template <class D>
HAMMOCK_BODY Pair<D> Log2Pair(const D& x) {
  auto [exponent, f] = SplitFraction64(x);
  // s = f / (2 + f); log(1 + f) = 2 * (s + s^3/3 + s^5/5 + ...)
  D below = f + Like(x, 2);
  D below_low = f - (below - Like(x, 2));
  D inverse = Like(x, 1) / below;
  D s = f * inverse;
  D s_low = Fma(-s, below_low, Fma(-s, below, f)) * inverse;
  Pair<D> z = Product(s, s);
  z.low = Fma(s + s, s_low, z.low);
  // 1/3 + z * (1/5 + ...)
  D more = z.high * Poly(z.high, 0.05996110554450243, 0.058372168120750585, 0.066681681826066638,
                         0.076922781894395859, 0.090909094387618503, 0.11111111108738871,
                         0.14285714285722675, 0.19999999999999987);
  Pair<D> q = QuickSum(Like(x, 0.33333333333333331), more);
  q.low = q.low + Like(x, 1.8503717077085941e-17);
  // s * z * q
  Pair<D> cube = Product(s, z.high);
  cube.low = cube.low + Fma(s, z.low, s_low * z.high);
  Pair<D> tail = Product(cube.high, q.high);
  tail.low = tail.low + Fma(cube.high, q.low, cube.low * q.high);
  Pair<D> half = QuickSum(s, tail.high);
  half.low = half.low + (tail.low + s_low);
  // Twice that, by log2(e), after the exponent.
  Pair<D> part = Product(half.high, Like(x, 2 * kLog2E));
  part.low = part.low +
             Fma(half.high, Like(x, 2 * 2.0355273740931033e-17), half.low * Like(x, 2 * kLog2E));
  Pair<D> sum = Sum(exponent, part.high);
  sum.low = sum.low + part.low;
  return QuickSum(sum.high, sum.low);
}

template <class D>
HAMMOCK_BODY D Pow64(const D& x, const D& y) {
  D zero = Like(x, 0), one = Like(x, 1), infinity = Like(x, kInfinity);
  D a = Abs(x);
  Pair<D> log = Log2Pair(a);
  // So large a y that its product would be infinite gives what a smaller one gives.
  D factor = AtMost(AtLeast(y, -0x1p80), 0x1p80);
  Pair<D> product = Product(factor, log.high);
  product.low = Fma(factor, log.low, product.low);
  D high = AtMost(AtLeast(product.high, -1080), 1025);
  D low = Select(high == product.high, product.low, zero);
  auto n = NearestOf(high + Like(x, kShift64), kShift64);
  D size = Scaled(Exp2Fraction64((high - n.value) + low), n);
  auto is_shrinking = y < zero;
  size = Select(a == zero, Select(is_shrinking, infinity, zero), size);
  size = Select(a == infinity, Select(is_shrinking, zero, infinity), size);
  size = Select(a == one, one, size);
  auto is_growing = (a > one) ^ is_shrinking;
  size =
      Select(Abs(y) == infinity, Select(a == one, one, Select(is_growing, infinity, zero)), size);

  D half = y * Like(y, 0.5);
  auto is_whole = Floor(y) == y;
  auto is_odd = is_whole & (Floor(half) != half);
  auto bits = Bits(x);
  D result = Select((bits < Like(bits, 0)) & is_odd, -size, size);
  result = Select((x < zero) & (a < infinity) & !is_whole, Like(x, kNan), result);
  result = Select(IsNan(x) | IsNan(y), x + y, result);
  return Select((x == one) | (y == zero), one, result);
}

// ---- by name

template <class D>
HAMMOCK_BODY D UnaryMath64(ScalarFn fn, const D& x) {
  switch (fn) {
    case ScalarFn::kExp:
      return Exp64(x);
    case ScalarFn::kExp2:
      return Exp2_64(x);
    case ScalarFn::kExpm1:
      return Expm1_64(x);
    case ScalarFn::kLog:
      return Log64(x);
    case ScalarFn::kLog2:
      return Log2_64(x);
    case ScalarFn::kLog10:
      return Log10_64(x);
    case ScalarFn::kLog1p:
      return Log1p64(x);
    case ScalarFn::kSin:
      return Sin64(x, 0);
    case ScalarFn::kCos:
      return Sin64(x, 1);
    case ScalarFn::kTan:
      return Tan64(x);
    case ScalarFn::kAsin:
      return Asin64(x);
    case ScalarFn::kAcos:
      return Acos64(x);
    case ScalarFn::kAtan:
      return Atan64(x);
    case ScalarFn::kSinh:
      return Sinh64(x);
    case ScalarFn::kCosh:
      return Cosh64(x);
    case ScalarFn::kTanh:
      return Tanh64(x);
    case ScalarFn::kAsinh:
      return Asinh64(x);
    case ScalarFn::kAcosh:
      return Acosh64(x);
    case ScalarFn::kAtanh:
      return Atanh64(x);
    case ScalarFn::kErf:
      return Erf64(x);
    case ScalarFn::kErfc:
      return Erfc64(x);
    case ScalarFn::kSigmoid:
      return Sigmoid64(x);
    case ScalarFn::kGelu:
      return Gelu64(x);
    default:
      NoBody(fn);
  }
}

template <class D>
HAMMOCK_BODY D BinaryMath64(ScalarFn fn, const D& x, const D& y) {
  switch (fn) {
    case ScalarFn::kPow:
      return Pow64(x, y);
    case ScalarFn::kAtan2:
      return Atan2_64(x, y);
    case ScalarFn::kHypot:
      return Hypot64(x, y);
    default:
      NoBody(fn);
  }
}

}  // namespace hammock::compiler
