#pragma once
/// Names of the elementwise ops that are alike: their declarations, methods, in-place forms and
/// records are made from these lists.

// clang-format off

/// One operand, with an in-place form.
#define HAMMOCK_UNARY_OPS(X)                                                                      \
  X(abs) X(neg) X(sign) X(sgn) X(floor) X(ceil) X(trunc) X(round) X(frac) X(sqrt) X(rsqrt)        \
  X(reciprocal) X(square) X(exp) X(exp2) X(expm1) X(log) X(log2) X(log10) X(log1p) X(sin) X(cos)  \
  X(tan) X(asin) X(acos) X(atan) X(sinh) X(cosh) X(tanh) X(asinh) X(acosh) X(atanh) X(sinc)       \
  X(erf) X(erfc) X(erfinv) X(lgamma) X(digamma) X(sigmoid) X(bitwise_not) X(logical_not)          \
  X(deg2rad) X(rad2deg)

/// One operand, only as a function.
#define HAMMOCK_UNARY_FUNCTIONS(X)                                                                \
  X(isnan) X(isinf) X(isfinite) X(isposinf) X(isneginf) X(isreal) X(signbit) X(angle) X(positive) \
  X(conj) X(conj_physical)

/// Two operands of which either may be a number, with an in-place form.
#define HAMMOCK_BINARY_OPS(X)                                                                     \
  X(add) X(sub) X(mul) X(div) X(floor_divide) X(remainder) X(fmod) X(pow) X(float_power) X(atan2) \
  X(hypot) X(copysign) X(nextafter) X(ldexp) X(xlogy) X(gcd) X(lcm) X(bitwise_and) X(bitwise_or)  \
  X(bitwise_xor) X(bitwise_left_shift) X(bitwise_right_shift) X(logical_and) X(logical_or)        \
  X(logical_xor) X(eq) X(ne) X(lt) X(le) X(gt) X(ge)

/// Two operands, only as a function.
#define HAMMOCK_BINARY_FUNCTIONS(X)                                                               \
  X(maximum) X(minimum) X(fmax) X(fmin) X(logaddexp) X(logaddexp2)

/// Second names, as X(alias, name).
#define HAMMOCK_UNARY_ALIASES(X)                                                                  \
  X(absolute, abs) X(negative, neg) X(fix, trunc) X(arcsin, asin) X(arccos, acos) X(arctan, atan) \
  X(arcsinh, asinh) X(arccosh, acosh) X(arctanh, atanh) X(expit, sigmoid)
#define HAMMOCK_BINARY_ALIASES(X)                                                                 \
  X(subtract, sub) X(multiply, mul) X(divide, div) X(true_divide, div) X(arctan2, atan2)          \
  X(not_equal, ne) X(less, lt) X(less_equal, le) X(greater, gt) X(greater_equal, ge)

// clang-format on
