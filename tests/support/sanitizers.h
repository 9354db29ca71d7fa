#pragma once
/// Which sanitizers a test was built with.

#include <gtest/gtest.h>

namespace hammock::testing {

#if defined(__SANITIZE_THREAD__)
inline constexpr bool kThreadSanitizer = true;
#else
inline constexpr bool kThreadSanitizer = false;
#endif

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kAddressSanitizer = true;
#else
inline constexpr bool kAddressSanitizer = false;
#endif

}  // namespace hammock::testing

/// For tests whose forked children start threads.
#define SKIP_IF_FORKS_CANNOT_START_THREADS()                                           \
  if (hammock::testing::kThreadSanitizer) {                                            \
    GTEST_SKIP() << "the thread sanitizer ends children of a fork that start threads"; \
  }
