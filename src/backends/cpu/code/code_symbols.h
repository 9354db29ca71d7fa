#pragma once
/// Tells the tools of the option `tools` about compiled functions in memory: perf by lines of
/// /tmp/perf-PID.map, gdb by its JIT interface.

#include <vector>

#include "backends/cpu/code/native_code.h"

namespace hammock::cpu {

/// Called when code is at its final address. Returns the argument of `ForgetCode`, or null. Never
/// throws.
void* AnnounceCode(const char* memory, const std::vector<CodeSymbol>& symbols) noexcept;
/// Called before the memory of the code is released. Lines stay in perf's file, for earlier
/// samples.
void ForgetCode(void* announced) noexcept;

}  // namespace hammock::cpu
