#pragma once
/// Sizes of a launch of the loop IR, for emitters.

#include <cstdint>

#include "hammock/compiler/kernel.h"

namespace hammock::compiler {

/// Rows of all outer dims together.
HAMMOCK_API int64_t LinesOf(const Launch& launch);

/// Whether positions of elements do not fit 32 bits.
HAMMOCK_API bool NeedsWideIndex(const Launch& launch);

}  // namespace hammock::compiler
