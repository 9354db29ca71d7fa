#pragma once

#include <cstdint>

namespace hammock {

/// a / b, rounded up; neither is negative.
constexpr int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace hammock
