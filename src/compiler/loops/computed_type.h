#pragma once
/// The types that kernels compute in.

#include "base/throw.h"
#include "ir/convert.h"

namespace hammock::compiler {

inline bool IsNarrowFloat(DType dtype) { return dtype == DType::kF16 || dtype == DType::kBF16; }

/// Calls `f(T{})` with the type that values of `dtype` are computed in; not for bool.
template <class F>
auto VisitComputed(DType dtype, F f) {
  HAMMOCK_CHECK(dtype != DType::kBool, "truth values are not computed with");
  return VisitDType(dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
      return f(float{});
    } else if constexpr (std::is_same_v<T, bool>) {
      return f(uint8_t{});  // never called
    } else {
      return f(zero);
    }
  });
}

}  // namespace hammock::compiler
