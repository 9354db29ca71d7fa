#pragma once
/// Conversion of elements of every dtype, storage types included: for what holds single numbers and
/// tensors on the host.

#include "hammock/ir/storage_types.h"
#include "ir/convert.h"

namespace hammock {

template <class T>
inline constexpr bool kIsFloat8 = std::same_as<T, Float8E4M3> || std::same_as<T, Float8E5M2>;

/// As Convert; f8 converts as f32 does.
template <class To, class From>
To ConvertStored(From value) {
  if constexpr (std::same_as<To, From>) {
    return value;
  } else if constexpr (kIsFloat8<From>) {
    return ConvertStored<To>(static_cast<float>(value));
  } else if constexpr (kIsFloat8<To>) {
    return To(Convert<float>(value));
  } else {
    return Convert<To>(value);
  }
}

/// As VisitElement, for every dtype whose elements are whole bytes.
template <class F>
decltype(auto) VisitStored(DType dtype, F&& f) {
  if (dtype == DType::kF8E4M3) return f(Float8E4M3{});
  if (dtype == DType::kF8E5M2) return f(Float8E5M2{});
  return VisitElement(dtype, std::forward<F>(f));
}

/// The value of a packed dtype that `value` wraps to.
inline int64_t WrapPacked(DType dtype, int64_t value) {
  const int others = 64 - InfoOf(dtype).bits;
  const uint64_t high = static_cast<uint64_t>(value) << others;
  return IsSigned(dtype) ? static_cast<int64_t>(high) >> others
                         : static_cast<int64_t>(high >> others);
}

}  // namespace hammock
