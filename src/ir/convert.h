#pragma once
/// Element conversion and dispatch on a dtype, for everything that touches elements on the host.

#include <cmath>
#include <complex>
#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

#include "base/throw.h"
#include "hammock/ir/dtype.h"

namespace hammock {

template <class T>
inline constexpr bool kIsReal =
    std::floating_point<T> || std::same_as<T, Half> || std::same_as<T, BFloat16>;

template <class T>
inline constexpr bool kIsComplex =
    std::same_as<T, std::complex<float>> || std::same_as<T, std::complex<double>>;

/// Truncates toward zero; what no int64_t holds, and NaN, becomes its smallest value.
inline int64_t RealToInt(double value) {
  if (!(value >= -0x1p63 && value < 0x1p63)) return std::numeric_limits<int64_t>::min();
  return static_cast<int64_t>(value);
}

/// The cast of one element: as in C where C defines it. Reals become integers through int64_t and
/// wrap to the width (u64 also holds what lies above 2^63); to bool is `!= 0`. Of a complex number
/// a real one takes the real part.
template <class To, class From>
To Convert(From value) {
  if constexpr (std::same_as<To, From>) {
    return value;
  } else if constexpr (kIsComplex<From> && kIsComplex<To>) {
    return To(value);
  } else if constexpr (kIsComplex<From> && !std::same_as<To, bool>) {
    return Convert<To>(value.real());
  } else if constexpr (kIsComplex<To>) {
    return To(Convert<typename To::value_type>(value));
  } else if constexpr (std::same_as<To, bool>) {
    return value != From(0);
  } else if constexpr (std::same_as<To, Half> || std::same_as<To, BFloat16>) {
    return To(static_cast<float>(value));
  } else if constexpr (std::same_as<From, Half> || std::same_as<From, BFloat16>) {
    return Convert<To>(static_cast<float>(value));
  } else if constexpr (std::floating_point<From> && std::integral<To>) {
    if constexpr (std::same_as<To, uint64_t>) {
      if (value >= From(0x1p63) && value < From(0x1p64)) return static_cast<uint64_t>(value);
    }
    return static_cast<To>(RealToInt(static_cast<double>(value)));
  } else {
    return static_cast<To>(value);
  }
}

/// Calls `f(T{})` with the element type of a real `dtype`; NotSupported for the other ones.
///   VisitDType(dtype, [&](auto zero) { Fill<decltype(zero)>(out, count); });
template <class F>
decltype(auto) VisitDType(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kBool:
      return f(bool{});
    case DType::kU8:
      return f(uint8_t{});
    case DType::kU16:
      return f(uint16_t{});
    case DType::kU32:
      return f(uint32_t{});
    case DType::kU64:
      return f(uint64_t{});
    case DType::kI8:
      return f(int8_t{});
    case DType::kI16:
      return f(int16_t{});
    case DType::kI32:
      return f(int32_t{});
    case DType::kI64:
      return f(int64_t{});
    case DType::kF16:
      return f(Half{});
    case DType::kBF16:
      return f(BFloat16{});
    case DType::kF32:
      return f(float{});
    case DType::kF64:
      return f(double{});
    case DType::kC64:
    case DType::kC128:
    case DType::kF8E4M3:
    case DType::kF8E5M2:
    case DType::kI4:
    case DType::kU4:
    case DType::kI2:
    case DType::kU2:
      break;
  }
  if (IsComplex(dtype)) {
    Throw<InternalError>(ErrorCode::kInternal, "elements of {} are not real", NameOf(dtype));
  }
  Throw<NotSupported>(ErrorCode::kNotSupported, "dtype {} is reserved and has no elements yet",
                      NameOf(dtype));
}

/// As VisitDType, for complex dtypes too.
template <class F>
decltype(auto) VisitElement(DType dtype, F&& f) {
  if (dtype == DType::kC64) return f(std::complex<float>{});
  if (dtype == DType::kC128) return f(std::complex<double>{});
  return VisitDType(dtype, std::forward<F>(f));
}

}  // namespace hammock
