#pragma once
/// Plain C++ numbers with the operations that scalar bodies are written in; `IrNumber` in
/// ir_number.h has the same ones and prints them. Note [Scalar bodies] in scalar_bodies.h.
/// Files that use these are compiled without contraction (`-ffp-contract=off`).

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

/// Bodies are inlined into loops that are compiled for one processor. Files that only print them
/// define this as `inline` before: there is nothing to gain, and it would take minutes.
#ifndef HAMMOCK_BODY
#define HAMMOCK_BODY [[gnu::always_inline]] inline
#endif

namespace hammock::compiler {

/// The signed integer of the same size.
template <class T>
using BitsOf =
    std::conditional_t<sizeof(T) == 8, int64_t,
                       std::conditional_t<sizeof(T) == 4, int32_t,
                                          std::conditional_t<sizeof(T) == 2, int16_t, int8_t>>>;

/// A truth value.
struct Truth {
  bool value;

  HAMMOCK_BODY friend Truth operator&(Truth a, Truth b) { return {bool(a.value & b.value)}; }
  HAMMOCK_BODY friend Truth operator|(Truth a, Truth b) { return {bool(a.value | b.value)}; }
  HAMMOCK_BODY friend Truth operator^(Truth a, Truth b) { return {bool(a.value ^ b.value)}; }
  HAMMOCK_BODY friend Truth operator!(Truth a) { return {!a.value}; }
};

/// A float, a double or an integer of 8 to 64 bits. Integers wrap around.
template <class T>
struct Number {
  using Element = T;
  using Mask = Truth;
  template <class U>
  using Of = Number<U>;

  T value;

  // Integers are computed unsigned and not narrower than int, where nothing overflows.
  using Unsigned = std::make_unsigned_t<std::conditional_t<std::integral<T>, T, int>>;
  using Work = std::conditional_t<std::floating_point<T>, T,
                                  std::conditional_t<(sizeof(T) < 4), uint32_t, Unsigned>>;

  HAMMOCK_BODY static Number Made(Work value) { return {static_cast<T>(value)}; }

  HAMMOCK_BODY friend Number operator+(Number a, Number b) {
    return Made(Work(a.value) + Work(b.value));
  }
  HAMMOCK_BODY friend Number operator-(Number a, Number b) {
    return Made(Work(a.value) - Work(b.value));
  }
  HAMMOCK_BODY friend Number operator*(Number a, Number b) {
    return Made(Work(a.value) * Work(b.value));
  }
  HAMMOCK_BODY friend Number operator-(Number a) { return Made(-Work(a.value)); }
  /// Of integers: neither divided by 0 nor the smallest one by -1.
  HAMMOCK_BODY friend Number operator/(Number a, Number b) {
    return {static_cast<T>(a.value / b.value)};
  }
  HAMMOCK_BODY friend Number operator%(Number a, Number b) {
    return {static_cast<T>(a.value % b.value)};
  }

  HAMMOCK_BODY friend Number operator&(Number a, Number b) {
    return {static_cast<T>(a.value & b.value)};
  }
  HAMMOCK_BODY friend Number operator|(Number a, Number b) {
    return {static_cast<T>(a.value | b.value)};
  }
  HAMMOCK_BODY friend Number operator^(Number a, Number b) {
    return {static_cast<T>(a.value ^ b.value)};
  }
  /// Shifts are by less than the number of bits. >> keeps the sign of signed ones.
  HAMMOCK_BODY friend Number operator<<(Number a, Number b) {
    return Made(Work(a.value) << b.value);
  }
  HAMMOCK_BODY friend Number operator>>(Number a, Number b) {
    return {static_cast<T>(a.value >> b.value)};
  }
  HAMMOCK_BODY friend Number operator<<(Number a, int by) { return Made(Work(a.value) << by); }
  HAMMOCK_BODY friend Number operator>>(Number a, int by) {
    return {static_cast<T>(a.value >> by)};
  }

  HAMMOCK_BODY friend Truth operator==(Number a, Number b) { return {a.value == b.value}; }
  HAMMOCK_BODY friend Truth operator!=(Number a, Number b) { return {a.value != b.value}; }
  HAMMOCK_BODY friend Truth operator<(Number a, Number b) { return {a.value < b.value}; }
  HAMMOCK_BODY friend Truth operator<=(Number a, Number b) { return {a.value <= b.value}; }
  HAMMOCK_BODY friend Truth operator>(Number a, Number b) { return {a.value > b.value}; }
  HAMMOCK_BODY friend Truth operator>=(Number a, Number b) { return {a.value >= b.value}; }
};

/// A constant of x's type.
template <class T>
HAMMOCK_BODY Number<T> Like(Number<T>, std::type_identity_t<T> value) {
  return {value};
}

template <class T>
HAMMOCK_BODY Number<T> Select(Truth condition, Number<T> a, Number<T> b) {
  return {condition.value ? a.value : b.value};
}

/// Shifts zeros in, whatever the sign.
template <class T>
HAMMOCK_BODY Number<T> ShiftRightZeros(Number<T> a, int by) {
  return {static_cast<T>(static_cast<std::make_unsigned_t<T>>(a.value) >> by)};
}

// The processor's instructions round; where it lacks one, the C library does the same.
#define HAMMOCK_FLOAT_FUNCTION(Name, builtin)                                        \
  HAMMOCK_BODY Number<float> Name(Number<float> x) { return {builtin##f(x.value)}; } \
  HAMMOCK_BODY Number<double> Name(Number<double> x) { return {builtin(x.value)}; }
HAMMOCK_FLOAT_FUNCTION(Sqrt, __builtin_sqrt)
HAMMOCK_FLOAT_FUNCTION(Floor, __builtin_floor)
HAMMOCK_FLOAT_FUNCTION(Ceil, __builtin_ceil)
HAMMOCK_FLOAT_FUNCTION(Trunc, __builtin_trunc)
HAMMOCK_FLOAT_FUNCTION(RoundEven, __builtin_rint)
HAMMOCK_FLOAT_FUNCTION(Abs, __builtin_fabs)
#undef HAMMOCK_FLOAT_FUNCTION

/// a * b + c, rounded once.
HAMMOCK_BODY Number<float> Fma(Number<float> a, Number<float> b, Number<float> c) {
  return {__builtin_fmaf(a.value, b.value, c.value)};
}
HAMMOCK_BODY Number<double> Fma(Number<double> a, Number<double> b, Number<double> c) {
  return {__builtin_fma(a.value, b.value, c.value)};
}
HAMMOCK_BODY Number<float> CopySign(Number<float> x, Number<float> sign) {
  return {__builtin_copysignf(x.value, sign.value)};
}
HAMMOCK_BODY Number<double> CopySign(Number<double> x, Number<double> sign) {
  return {__builtin_copysign(x.value, sign.value)};
}

template <std::floating_point T>
HAMMOCK_BODY Number<BitsOf<T>> Bits(Number<T> x) {
  return {std::bit_cast<BitsOf<T>>(x.value)};
}
template <std::integral T>
HAMMOCK_BODY auto FromBits(Number<T> x) {
  using Float = std::conditional_t<sizeof(T) == 4, float, double>;
  return Number<Float>{std::bit_cast<Float>(x.value)};
}
/// Cut to an integer of the same size, which must be in range.
template <std::floating_point T>
HAMMOCK_BODY Number<BitsOf<T>> ToInt(Number<T> x) {
  return {static_cast<BitsOf<T>>(x.value)};
}
template <std::signed_integral T>
HAMMOCK_BODY auto ToFloat(Number<T> x) {
  using Float = std::conditional_t<sizeof(T) == 4, float, double>;
  return Number<Float>{static_cast<Float>(x.value)};
}
/// An integer of another size: wrapped, or extended by its sign if it has one.
template <class To, std::integral T>
HAMMOCK_BODY Number<To> Resize(Number<T> x) {
  return {static_cast<To>(x.value)};
}

/// The bits of the nearest 16-bit float (ties to even); all NaNs of one sign become one.
HAMMOCK_BODY Number<uint16_t> ToHalfBits(Number<float> x) {
  uint32_t bits = std::bit_cast<uint32_t>(x.value);
  uint32_t sign = (bits >> 16) & 0x8000;
  uint32_t size = bits & 0x7fffffff;
  uint32_t normal = (size - 0x38000000 + 0xfff + ((size >> 13) & 1)) >> 13;
  // Subnormal: the adder rounds at the right bit.
  uint32_t small = std::bit_cast<uint32_t>(std::bit_cast<float>(size) + 0.5f) - 0x3f000000;
  uint32_t result = size < 0x38800000 ? small : normal;
  result = size >= 0x47800000 ? 0x7c00 : result;
  result = size > 0x7f800000 ? 0x7e00 : result;
  return {static_cast<uint16_t>(sign | result)};
}
HAMMOCK_BODY Number<float> FromHalfBits(Number<uint16_t> x) {
  uint32_t sign = (uint32_t{x.value} & 0x8000) << 16;
  uint32_t size = (uint32_t{x.value} & 0x7fff) << 13;
  uint32_t normal = std::bit_cast<uint32_t>(std::bit_cast<float>(size) * 0x1p112f);
  uint32_t result = size >= 0x0f800000 ? size | 0x7f800000 : normal;
  result = size > 0x0f800000 ? result | 0x00400000 : result;
  return {std::bit_cast<float>(sign | result)};
}
/// An element of a table.
template <std::integral T, size_t kSize>
HAMMOCK_BODY Number<double> Lookup(Number<T> index, const double (&table)[kSize]) {
  return {table[index.value]};
}
HAMMOCK_BODY Number<double> Widen(Number<float> x) { return {static_cast<double>(x.value)}; }
HAMMOCK_BODY Number<float> Narrow(Number<double> x) { return {static_cast<float>(x.value)}; }

}  // namespace hammock::compiler
