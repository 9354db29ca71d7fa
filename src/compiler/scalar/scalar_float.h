#pragma once
/// Functions of floats that are hot in models, computed in float, as straight lines of basic
/// operations. scripts/fit_scalar_math.py gives the coefficients.

#include "compiler/scalar/scalar_steps.h"

namespace hammock::compiler {

/// x = n * ln2 + r; returns r.
template <class F>
HAMMOCK_BODY F LessMultiplesOfLn2(const F& x, const Nearest<F>& n) {
  F r = Fma(n.value, Like(x, -0.693147182f), x);
  return Fma(n.value, Like(x, 1.9046543e-09f), r);
}
template <class F>
HAMMOCK_BODY Nearest<F> MultiplesOfLn2(const F& x) {
  return NearestOf(Fma(x, Like(x, float(kLog2E)), Like(x, float(kShift32))), kShift32);
}

template <class F>
HAMMOCK_BODY ExpParts<F> SplitExp32(const F& x) {
  auto n = MultiplesOfLn2(x);
  F r = LessMultiplesOfLn2(x, n);
  F q = Poly(r, 0.00139464604, 0.00836658394, 0.0416662819, 0.16666543, 0.500000006);
  return {n, Fma(r * r, q, r)};
}

template <class F>
HAMMOCK_BODY F Exp32(const F& x) {
  F y = AtMost(AtLeast(x, -104), 89);
  auto n = MultiplesOfLn2(y);
  F r = LessMultiplesOfLn2(y, n);
  F p = Poly(r, 0.00139464604, 0.00836658394, 0.0416662819, 0.16666543, 0.500000006, 1, 1);
  return Scaled(p, n);
}

template <class F>
HAMMOCK_BODY F Exp2_32(const F& x) {
  F y = AtMost(AtLeast(x, -152), 129);
  auto n = NearestOf(y + Like(x, float(kShift32)), kShift32);
  F r = y - n.value;
  F q =
      Poly(r, 0.000154763017, 0.00134002698, 0.00961800389, 0.0555032779, 0.240226513, 0.693147206);
  return Scaled(Fma(r, q, Like(x, 1)), n);
}

template <class F>
HAMMOCK_BODY F Expm1_32(const F& x) {
  auto [n, w] = SplitExp32(AtMost(AtLeast(x, -20), 89));
  // Half of the result, since 2^n alone may overflow.
  F half = PowerOfTwo(n, -1);
  F result = Fma(half, w, half - Like(x, 0.5f)) * Like(x, 2);
  return Select(Abs(x) < Like(x, 0x1p-26f), x, result);
}

/// 1 / (1 + e^-x), both scaled by 2^-64: no result is lost to overflow.
template <class F>
HAMMOCK_BODY F Sigmoid32(const F& x) {
  auto [n, w] = SplitExp32(AtMost(AtLeast(-x, -20), 104));
  F scale = Like(x, 0x1p-64f);
  F power = PowerOfTwo(n, -64);
  F sum = power + scale;
  F lost = scale - (sum - power);
  return scale / (sum + Fma(power, w, lost));
}

/// Of |x| = n ln2 / 2 + s, with t the tanh of s: e^(2 |x|) is 2^n (1 + t) / (1 - t). There is no s
/// but x itself up to where tanh is 1/4, which keeps small results exact.
template <class F>
HAMMOCK_BODY F Tanh32(const F& x) {
  F one = Like(x, 1);
  F a = AtMost(Abs(x), 10);
  F y = Fma(a, Like(x, float(2 * kLog2E)), Like(x, -0.25f));
  auto n = NearestOf(y + Like(x, float(kShift32)), kShift32);
  F s = Fma(n.value, Like(x, float(-kLn2 / 2)), a), z = s * s;
  F t = Fma(s * z, Poly(z, -0.0511896307, 0.133224077, -0.333332104), s);
  F power = PowerOfTwo(n);
  F above = Fma(power + one, t, power - one);
  F below = above + (Like(x, 2) - (t + t));
  return CopySign(above / below, x);
}

template <class F>
HAMMOCK_BODY F Erf32(const F& x) {
  F one = Like(x, 1);
  F a = Abs(x), z = x * x;
  F small = Fma(x,
                Poly(z, -0.000608656394, 0.00501170661, -0.0267791007, 0.112821575, -0.376125262,
                     0.128379154),
                x);
  // 1 - erf is 2^y.
  F t = AtMost(a, 4);
  F y = t * Poly(t, 0.000309595216, -0.00464544293, 0.0330464182, -0.151896824, -0.917120325,
                 -1.62811014);
  auto n = NearestOf(y + Like(x, float(kShift32)), kShift32);
  F r = y - n.value;
  F p = Poly(r, 0.00132647241, 0.00967151266, 0.0555073375, 0.240222421, 0.693146978);
  F large = one - ScaledNormal(Fma(r, p, one), n);
  return Select(a >= Like(x, 0.9f), CopySign(large, x), small);
}

/// x times the share of a normal distribution that lies below x, as max(x, 0) - |x| times the share
/// above |x|. That share is 2^(y - 1).
template <class F>
HAMMOCK_BODY F Gelu32(const F& x) {
  F t = AtMost(Abs(x), 16), z = t * t;
  // Odd and even powers, which do not wait for each other.
  F odd = Poly(z, -3.81251399e-08, -1.23098656e-05, -0.000289017954, 0.00695374075, -0.459215368);
  F even = Poly(z, 1.03608349e-06, 8.1510997e-05, 5.55360393e-06, -0.0524529918, -1.15110491);
  F y = AtLeast(t * Fma(odd, t, even), -126);  // which gives 0
  auto n = NearestOf(y + Like(x, float(kShift32)), kShift32);
  F r = y - n.value;
  F p = Poly(r, 7.73815085e-05, 0.00067001349, 0.00480900194, 0.0277516389, 0.120113257,
             0.346573603, 0.5);
  // Minus infinity keeps its size: no share of it is no number.
  return Fma(Select(x < -t, x, -t), ScaledNormal(p, n), AtLeast(x, -0.0));
}

template <class F>
HAMMOCK_BODY F Log32(const F& x) {
  auto is_subnormal = x < Like(x, std::numeric_limits<float>::min());
  F y = Select(is_subnormal, x * Like(x, 0x1p23f), x);
  // y = m * 2^e, m around 1
  auto bits = Bits(y);
  auto e = (bits - Like(bits, 0x3f3504f3)) >> 23;
  F f = FromBits(bits - (e << 23)) - Like(x, 1);
  F exponent = ToFloat(e) - Select(is_subnormal, Like(x, 23), Like(x, 0));
  F q = Poly(f, -0.0770431442, 0.129270409, -0.132037499, 0.141788561, -0.166171193, 0.200022138,
             -0.250010058, 0.333333185);
  F tail = Fma(f * f, Fma(f, q, Like(x, -0.5f)), exponent * Like(x, -1.9046543e-09f));
  F result = Fma(exponent, Like(x, 0.693147182f), f + tail);
  return WithLogLimits(x, result);
}

}  // namespace hammock::compiler
