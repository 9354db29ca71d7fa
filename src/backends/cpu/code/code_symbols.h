#pragma once
/// Tells tools about functions in memory that no file holds: perf by lines of /tmp/perf-PID.map
/// (option `cpu.perf_map`), gdb by its interface for such code (option `cpu.gdb`).

#include <vector>

#include "backends/cpu/code/native_code.h"

namespace hammock::cpu {

/// Called when code is at its final address. Returns the argument of `ForgetCode`, or null. Never
/// throws.
void* AnnounceCode(const char* memory, const std::vector<CodeSymbol>& symbols) noexcept;
/// Called before its memory goes. perf's file keeps its lines: samples refer to the past.
void ForgetCode(void* announced) noexcept;

}  // namespace hammock::cpu
