#pragma once
/// C++ operators of Tensor; included by elementwise.h. `==` and `!=` compare elements.
///
/// `&&` and `||` are left alone: overloaded they would evaluate both sides.

#include <type_traits>

#include "hammock/ops/elementwise.h"

namespace hammock {

template <class T>
concept Number = std::is_arithmetic_v<T> || ComplexNumber<T>;

#define HAMMOCK_OPERATOR(op, name)                                                              \
  inline Tensor operator op(const Tensor& a, const TensorArg& b) { return name(a, b, b.at()); } \
  template <Number T>                                                                           \
  Tensor operator op(T a, const TensorAt& b) {                                                  \
    return name(Scalar(a), b.tensor, b.at);                                                     \
  }
HAMMOCK_OPERATOR(+, add)
HAMMOCK_OPERATOR(-, sub)
HAMMOCK_OPERATOR(*, mul)
HAMMOCK_OPERATOR(/, div)
HAMMOCK_OPERATOR(%, remainder)
HAMMOCK_OPERATOR(&, bitwise_and)
HAMMOCK_OPERATOR(|, bitwise_or)
HAMMOCK_OPERATOR(^, bitwise_xor)
HAMMOCK_OPERATOR(<<, bitwise_left_shift)
HAMMOCK_OPERATOR(>>, bitwise_right_shift)
HAMMOCK_OPERATOR(<, lt)
HAMMOCK_OPERATOR(<=, le)
HAMMOCK_OPERATOR(>, gt)
HAMMOCK_OPERATOR(>=, ge)
#undef HAMMOCK_OPERATOR

// The compiler also tries `b == a` for `a == b`: operands of one type keep that from being
// ambiguous.
#define HAMMOCK_OPERATOR(op, name)                                  \
  inline Tensor operator op(const TensorAt& a, const TensorAt& b) { \
    return name(a.tensor, b.tensor, b.at);                          \
  }                                                                 \
  template <Number T>                                               \
  Tensor operator op(const TensorAt& a, T b) {                      \
    return name(a.tensor, b, a.at);                                 \
  }                                                                 \
  template <Number T>                                               \
  Tensor operator op(T a, const TensorAt& b) {                      \
    return name(Scalar(a), b.tensor, b.at);                         \
  }
HAMMOCK_OPERATOR(==, eq)
HAMMOCK_OPERATOR(!=, ne)
#undef HAMMOCK_OPERATOR

// On a temporary too: `x[0] += 1` writes to x.
#define HAMMOCK_OPERATOR(op, name)                                                         \
  inline Tensor& operator op(Tensor& a, const TensorArg& b) { return name(a, b, b.at()); } \
  inline Tensor operator op(Tensor&& a, const TensorArg& b) { return name(a, b, b.at()); }
HAMMOCK_OPERATOR(+=, add_)
HAMMOCK_OPERATOR(-=, sub_)
HAMMOCK_OPERATOR(*=, mul_)
HAMMOCK_OPERATOR(/=, div_)
HAMMOCK_OPERATOR(%=, remainder_)
HAMMOCK_OPERATOR(&=, bitwise_and_)
HAMMOCK_OPERATOR(|=, bitwise_or_)
HAMMOCK_OPERATOR(^=, bitwise_xor_)
HAMMOCK_OPERATOR(<<=, bitwise_left_shift_)
HAMMOCK_OPERATOR(>>=, bitwise_right_shift_)
#undef HAMMOCK_OPERATOR

inline Tensor operator-(const TensorAt& a) { return neg(a.tensor, a.at); }
inline Tensor operator+(const TensorAt& a) { return positive(a.tensor, a.at); }
inline Tensor operator~(const TensorAt& a) { return bitwise_not(a.tensor, a.at); }
inline Tensor operator!(const TensorAt& a) { return logical_not(a.tensor, a.at); }

}  // namespace hammock
