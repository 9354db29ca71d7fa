#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

#include "hammock/error.h"

namespace hammock {

/// Throws an error with a formatted message: lower case, no full stop, the op first.
///   Throw(ErrorCode::kShapeMismatch, "matmul: inner sizes differ: {} @ {}", a, b);
///   Throw<TypeError>(ErrorCode::kDTypeMismatch, "cast: cannot cast {} to {}", from, to);
template <class E = ValueError, class... Args>
[[noreturn, gnu::cold, gnu::noinline]] void Throw(ErrorCode code,
                                                  fmt::format_string<Args...> format,
                                                  Args&&... args) {
  throw E(code, fmt::format(format, std::forward<Args>(args)...));
}

[[noreturn, gnu::cold]] void FailCheck(const char* condition, const char* file, int line,
                                       const std::string& detail);

}  // namespace hammock

/// Throws InternalError when a condition that only a bug can break does not hold, in all builds.
///   HAMMOCK_CHECK(index < size(), "index {} of {}", index, size());
#define HAMMOCK_CHECK(condition, ...)                \
  (__builtin_expect(static_cast<bool>(condition), 1) \
       ? static_cast<void>(0)                        \
       : ::hammock::FailCheck(#condition, __FILE__, __LINE__, ::fmt::format("" __VA_ARGS__)))
