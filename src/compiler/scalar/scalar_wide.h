#pragma once
/// Functions of floats computed in double and rounded at the end. Those of the inner namespace
/// `wide` are accurate enough for that (better than 2^-33 relative) and assume ordinary arguments;
/// what is special is selected by their callers. `F` is a number of floats, `D` one of doubles.
/// scripts/fit_scalar_math.py gives the coefficients.

#include "compiler/scalar/no_body.h"
#include "compiler/scalar/scalar_float.h"
#include "hammock/ir/scalar_fn.h"

namespace hammock::compiler {

namespace wide {

/// e^x - 1 of |x| <= ln2 / 2.
template <class D>
HAMMOCK_BODY D Expm1Small(const D& r) {
  D q = Poly(r, 2.488251013327902e-05, 0.00019904959205835498, 0.0013888809292464835,
             0.0083332889569901116, 0.041666666955159921, 0.16666666754542098, 0.49999999999736439);
  return Fma(r * r, q, r);
}

/// e^x of |x| < 700.
template <class D>
HAMMOCK_BODY D Exp(const D& x) {
  auto n = NearestOf(Fma(x, Like(x, kLog2E), Like(x, kShift64)), kShift64);
  D power = PowerOfTwo(n);
  return Fma(power, Expm1Small(Fma(n.value, Like(x, -kLn2), x)), power);
}

/// 2^x of |x| < 1000.
template <class D>
HAMMOCK_BODY D Exp2(const D& x) {
  auto n = NearestOf(x + Like(x, kShift64), kShift64);
  D power = PowerOfTwo(n);
  return Fma(power, Expm1Small((x - n.value) * Like(x, kLn2)), power);
}

/// x = 2^exponent * m, and log(m).
template <class D>
struct LogParts {
  D exponent;
  D log_m;
};

/// Of normal numbers above 0.
template <class D>
HAMMOCK_BODY LogParts<D> SplitLog(const D& x) {
  constexpr int64_t kSqrtHalf = 0x3fe6a09e00000000, kOne = 0x3ff0000000000000;
  auto bits = Bits(x);
  bits = bits + Like(bits, kOne - kSqrtHalf);
  // The exponent as the last bits of a number whose last bit is 1.
  auto shifted = ShiftRightZeros(bits, 52) | Like(bits, 0x4330000000000000);
  D exponent = FromBits(shifted) - Like(x, 0x1p52 + 1023);
  D m = FromBits((bits & Like(bits, 0x000fffffffffffff)) + Like(bits, kSqrtHalf));
  D s = (m - Like(x, 1)) / (m + Like(x, 1));
  D z = s * s;
  D q = Poly(z, 0.0979329750054896, 0.11088017215008125, 0.14286056226473604, 0.19999997797398905,
             0.33333333337933768);
  D twice = s + s;
  return {exponent, Fma(twice * z, q, twice)};
}

template <class D>
HAMMOCK_BODY D Log(const D& x) {
  auto [exponent, log_m] = SplitLog(x);
  return Fma(exponent, Like(x, kLn2), log_m);
}

template <class D>
HAMMOCK_BODY D Log2(const D& x) {
  auto [exponent, log_m] = SplitLog(x);
  return Fma(log_m, Like(x, kLog2E), exponent);
}

/// asin(s) of |s| <= 1/2, z = s^2.
template <class D>
HAMMOCK_BODY D AsinSmall(const D& s, const D& z) {
  D q = Poly(z, 0.034646298823876265, 0.0075094974126293816, 0.024604704793786639,
             0.030112526348291424, 0.044659972113638348, 0.074999488975938403, 0.16666667180263114);
  return Fma(s * z, q, s);
}

/// atan(x) of |x| <= 1.
template <class D>
HAMMOCK_BODY D AtanSmall(const D& x) {
  D z = x * x;
  D q = Poly(z, 0.00044069509860755686, -0.0033265002585602011, 0.01177868121475976,
             -0.02654784503228623, 0.044179175319550582, -0.06056961510819503, 0.075105138060091448,
             -0.090536303847062655, 0.11106143587770699, -0.1428532090364292, 0.19999984222836156,
             -0.3333333311112685);
  return Fma(x * z, q, x);
}

/// sin and cos of r, where x = k * pi/2 + r, and k's last bits.
template <class D>
struct SinCos {
  D sin;
  D cos;
  typename Nearest<D>::Int quadrant;
};

/// |x| >= 2^40, of 24 bits: k * pi/2 + r. x is y * 2^g with a whole y < 2^48, so 2^g * 2/pi may
/// be replaced by what is left of it when multiples of 4 are taken away.
template <class D>
HAMMOCK_BODY void ReduceLarge(const D& x, D& k, D& r) {
  D a = Abs(x);
  auto pick = [&](double g17, double g41, double g65, double g89) {
    D low = Select(a < Like(x, 0x1p64), Like(x, g17), Like(x, g41));
    D high = Select(a < Like(x, 0x1p112), Like(x, g65), Like(x, g89));
    return Select(a < Like(x, 0x1p88), low, high);
  };
  D y = x * pick(0x1p-17, 0x1p-41, 0x1p-65, 0x1p-89);
  D high =
      pick(-0.9731962363782003, 0.53189587413970552, -0.030049345475696931, -0.35970439121436915);
  D low = pick(-1.0675672071051066e-16, 5.4340918558292107e-17, -6.2357131933282513e-17,
               7.1730661320049234e-17);
  D near = RoundEven(y * high);
  D turns = Fma(y, low, Fma(y, high, -near));
  D more = RoundEven(turns);
  k = near + more;
  r = (turns - more) * Like(x, kPi / 2);
}

/// Where `usual` does not hold a and b become what `rare` makes of them. Numbers that can branch
/// have another one.
template <class Mask, class D, class F>
HAMMOCK_BODY void Unless(const Mask& usual, D& a, D& b, F rare) {
  D rare_a = a, rare_b = b;
  rare(rare_a, rare_b);
  a = Select(usual, a, rare_a);
  b = Select(usual, b, rare_b);
}

/// Of doubles that are floats, of any size. The first product is exact: its last bit is 2^-52 or
/// more, and what is left after the subtraction is less than 1.
template <class D>
HAMMOCK_BODY SinCos<D> SinCosOf(const D& x) {
  D k = RoundEven(x * Like(x, 2 / kPi));
  D r = Fma(k, Like(x, -1.5707963267948966), x);
  r = Fma(k, Like(x, -6.123233995736766e-17), r);
  Unless(Abs(x) < Like(x, 0x1p40), k, r,
         [&](D& k_large, D& r_large) { ReduceLarge(x, k_large, r_large); });
  D z = r * r;
  D s = Poly(z, 2.716103307332717e-06, -0.00019839095858577107, 0.0083333286171230706,
             -0.16666666634733221);
  D c = Poly(z, -2.7191703397475493e-07, 2.4799292833727211e-05, -0.0013888882883085886,
             0.041666666612645072);
  D cos = Fma(z * z, c, Fma(z, Like(x, -0.5), Like(x, 1)));
  return {Fma(r * z, s, r), cos, Bits(k + Like(x, kShift64))};
}

/// The sine `quadrants` after x.
template <class D>
HAMMOCK_BODY D Sin(const D& x, int quadrants) {
  auto [sin, cos, k] = SinCosOf(x);
  auto quadrant = k + Like(k, quadrants);
  auto sign = (quadrant & Like(k, 2)) << 62;
  return FromBits(Bits(SelectOdd(quadrant, cos, sin)) ^ sign);
}

template <class D>
HAMMOCK_BODY D Tan(const D& x) {
  auto [sin, cos, k] = SinCosOf(x);
  return SelectOdd(k, -cos, sin) / SelectOdd(k, sin, cos);
}

}  // namespace wide

// ---- by doubles

template <class F>
HAMMOCK_BODY F Log2_32(const F& x) {
  return WithLogLimits(x, Narrow(wide::Log2(Widen(x))));
}

template <class F>
HAMMOCK_BODY F Log10_32(const F& x) {
  auto y = Widen(x);
  return WithLogLimits(x, Narrow(wide::Log(y) * Like(y, 0.43429448190325182765)));
}

template <class F>
HAMMOCK_BODY F Log1p32(const F& x) {
  auto y = Widen(x);
  auto sum = y + Like(y, 1);
  F result = Narrow(wide::Log(sum));
  result = Select(Abs(x) < Like(x, 0x1p-26f), x, result);
  result = Select(x < Like(x, float(kInfinity)), result, x);
  result = Select(x < Like(x, -1), Like(x, float(kNan)), result);
  return Select(x == Like(x, -1), Like(x, float(-kInfinity)), result);
}

/// x itself where it is so small that the function is x.
template <class F>
HAMMOCK_BODY F OrItself(const F& x, float limit, const F& result) {
  return Select(Abs(x) < Like(x, limit), x, result);
}

template <class F>
HAMMOCK_BODY F Sin32(const F& x) {
  return OrItself(x, 0x1p-14f, Narrow(wide::Sin(Widen(x), 0)));
}
template <class F>
HAMMOCK_BODY F Cos32(const F& x) {
  return Narrow(wide::Sin(Widen(x), 1));
}
template <class F>
HAMMOCK_BODY F Tan32(const F& x) {
  return OrItself(x, 0x1p-14f, Narrow(wide::Tan(Widen(x))));
}

/// asin(sqrt((1 - a) / 2)) of a = |x| above 1/2, else asin(a).
template <class D, class Mask>
HAMMOCK_BODY D AsinPart(const D& a, const Mask& is_large) {
  D half = (Like(a, 1) - a) * Like(a, 0.5);
  D z = Select(is_large, half, a * a);
  return wide::AsinSmall(Select(is_large, Sqrt(half), a), z);
}

template <class F>
HAMMOCK_BODY F Asin32(const F& x) {
  auto a = Abs(Widen(x));
  auto is_large = a > Like(a, 0.5);
  auto part = AsinPart(a, is_large);
  return CopySign(Narrow(Select(is_large, Fma(Like(a, -2), part, Like(a, kPi / 2)), part)), x);
}

template <class F>
HAMMOCK_BODY F Acos32(const F& x) {
  auto y = Widen(x);
  auto a = Abs(y);
  auto is_large = a > Like(a, 0.5);
  auto part = AsinPart(a, is_large);
  auto twice = part + part;
  auto large = Select(y < Like(y, 0), Like(y, kPi) - twice, twice);
  return Narrow(Select(is_large, large, Like(y, kPi / 2) - CopySign(part, y)));
}

template <class F>
HAMMOCK_BODY F Atan32(const F& x) {
  auto a = Abs(Widen(x));
  auto is_large = a > Like(a, 1);
  auto part = wide::AtanSmall(Select(is_large, Like(a, 1) / a, a));
  return CopySign(Narrow(Select(is_large, Like(a, kPi / 2) - part, part)), x);
}

template <class F>
HAMMOCK_BODY F Atan2_32(const F& y, const F& x) {
  auto b = Widen(y), a = Widen(x);
  auto rise = Abs(b), run = Abs(a);
  auto zero = Like(a, 0);
  auto is_steep = rise > run;
  auto low = Select(is_steep, run, rise), high = Select(is_steep, rise, run);
  auto slope = Select(high == zero, zero, low / high);
  slope = Select(low == Like(a, kInfinity), Like(a, 1), slope);
  auto angle = wide::AtanSmall(slope);
  angle = Select(is_steep, Like(a, kPi / 2) - angle, angle);
  auto bits = Bits(a);
  angle = Select(bits < Like(bits, 0), Like(a, kPi) - angle, angle);
  F result = CopySign(Narrow(angle), y);
  return Select(IsNan(x) | IsNan(y), x + y, result);
}

template <class F>
HAMMOCK_BODY F Sinh32(const F& x) {
  auto a = Abs(Widen(x));
  auto z = a * a;
  auto q = Poly(z, 2.8169513249730455e-06, 0.00019836159758171995, 0.0083333500582938192,
                0.16666666497558744);
  auto small = Fma(a * z, q, a);
  auto e = wide::Exp(AtMost(a, 100));
  auto large = (e - Like(a, 1) / e) * Like(a, 0.5);
  return CopySign(Narrow(Select(a < Like(a, 1), small, large)), x);
}

template <class F>
HAMMOCK_BODY F Cosh32(const F& x) {
  auto a = Abs(Widen(x));
  auto e = wide::Exp(AtMost(a, 100));
  return Narrow((e + Like(a, 1) / e) * Like(a, 0.5));
}

template <class F>
HAMMOCK_BODY F Asinh32(const F& x) {
  auto a = Abs(Widen(x));
  auto one = Like(a, 1);
  F result = CopySign(Narrow(wide::Log(a + Sqrt(Fma(a, a, one)))), x);
  result = Select(Abs(x) < Like(x, float(kInfinity)), result, x);
  return OrItself(x, 0x1p-14f, result);
}

template <class F>
HAMMOCK_BODY F Acosh32(const F& x) {
  auto y = Widen(x);
  auto above = y - Like(y, 1);
  F result = Narrow(wide::Log(y + Sqrt(above * (y + Like(y, 1)))));
  // Near 1 the sum above has lost what matters.
  auto root = Sqrt(above + above);
  auto near_one = root * Poly(above, 3.0 / 160, -1.0 / 12, 1);
  result = Select(above < Like(y, 0x1p-9), Narrow(near_one), result);
  result = Select(x < Like(x, float(kInfinity)), result, x);
  return Select(x < Like(x, 1), Like(x, float(kNan)), result);
}

template <class F>
HAMMOCK_BODY F Atanh32(const F& x) {
  auto a = Abs(Widen(x));
  auto one = Like(a, 1);
  F result = CopySign(Narrow(wide::Log((one + a) / (one - a)) * Like(a, 0.5)), x);
  result = OrItself(x, 0x1p-14f, result);
  F size = Abs(x);
  result = Select(size == Like(x, 1), CopySign(Like(x, float(kInfinity)), x), result);
  return Select(size <= Like(x, 1), result, Like(x, float(kNan)));
}

template <class F>
HAMMOCK_BODY F Erfc32(const F& x) {
  auto y = Widen(x);
  auto a = AtMost(Abs(y), 10.5);
  auto t = (a - Like(a, 2)) / (a + Like(a, 2));
  auto q = Poly(t, -2.5346208131255476e-07, -8.8778691338570778e-06, -2.3321963862273313e-05,
                2.4551901194910684e-05, 0.00017125487406265661, 4.4492535008980417e-05,
                -0.00098092316786034268, -0.00084732023400500356, 0.0069972885491673235,
                0.0037329123021240659, -0.078978568940876279, 0.24165819322698109,
                -0.4271858476454734, 0.25539567631970633);
  auto tail = q * wide::Exp(-(a * a));
  return Narrow(Select(y < Like(y, 0), Like(y, 2) - tail, tail));
}

template <class F>
HAMMOCK_BODY F Hypot32(const F& x, const F& y) {
  auto a = Widen(x), b = Widen(y);
  F result = Narrow(Sqrt(a * a + b * b));
  F infinity = Like(x, float(kInfinity));
  return Select((Abs(x) == infinity) | (Abs(y) == infinity), infinity, result);
}

template <class F>
HAMMOCK_BODY F Pow32(const F& x, const F& y) {
  F zero = Like(x, 0), one = Like(x, 1), infinity = Like(x, float(kInfinity));
  F a = Abs(x);
  auto product = Widen(y) * wide::Log2(Widen(a));
  F size = Narrow(wide::Exp2(AtMost(AtLeast(product, -200), 200)));
  auto is_shrinking = y < zero;
  size = Select(a == zero, Select(is_shrinking, infinity, zero), size);
  size = Select(a == infinity, Select(is_shrinking, zero, infinity), size);
  size = Select(a == one, one, size);

  F half = y * Like(y, 0.5f);
  auto is_whole = Floor(y) == y;
  auto is_odd = is_whole & (Floor(half) != half);
  auto bits = Bits(x);
  F result = Select((bits < Like(bits, 0)) & is_odd, -size, size);
  result = Select((x < zero) & (a < infinity) & !is_whole, Like(x, float(kNan)), result);
  result = Select(IsNan(x) | IsNan(y), x + y, result);
  return Select((x == one) | (y == zero), one, result);
}

template <class F>
HAMMOCK_BODY F UnaryMath32(ScalarFn fn, const F& x) {
  switch (fn) {
    case ScalarFn::kExp:
      return Exp32(x);
    case ScalarFn::kExp2:
      return Exp2_32(x);
    case ScalarFn::kExpm1:
      return Expm1_32(x);
    case ScalarFn::kLog:
      return Log32(x);
    case ScalarFn::kLog2:
      return Log2_32(x);
    case ScalarFn::kLog10:
      return Log10_32(x);
    case ScalarFn::kLog1p:
      return Log1p32(x);
    case ScalarFn::kSin:
      return Sin32(x);
    case ScalarFn::kCos:
      return Cos32(x);
    case ScalarFn::kTan:
      return Tan32(x);
    case ScalarFn::kAsin:
      return Asin32(x);
    case ScalarFn::kAcos:
      return Acos32(x);
    case ScalarFn::kAtan:
      return Atan32(x);
    case ScalarFn::kSinh:
      return Sinh32(x);
    case ScalarFn::kCosh:
      return Cosh32(x);
    case ScalarFn::kTanh:
      return Tanh32(x);
    case ScalarFn::kAsinh:
      return Asinh32(x);
    case ScalarFn::kAcosh:
      return Acosh32(x);
    case ScalarFn::kAtanh:
      return Atanh32(x);
    case ScalarFn::kErf:
      return Erf32(x);
    case ScalarFn::kErfc:
      return Erfc32(x);
    case ScalarFn::kSigmoid:
      return Sigmoid32(x);
    case ScalarFn::kGelu:
      return Gelu32(x);
    default:
      NoBody(fn);
  }
}

template <class F>
HAMMOCK_BODY F BinaryMath32(ScalarFn fn, const F& x, const F& y) {
  switch (fn) {
    case ScalarFn::kPow:
      return Pow32(x, y);
    case ScalarFn::kAtan2:
      return Atan2_32(x, y);
    case ScalarFn::kHypot:
      return Hypot32(x, y);
    default:
      NoBody(fn);
  }
}

}  // namespace hammock::compiler
