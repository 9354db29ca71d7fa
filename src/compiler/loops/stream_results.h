#pragma once
/// Lets kernels write past the caches what is large and read by no command. It changes no bit.

#include <cstdint>
#include <vector>

#include "compiler/loops/schedule.h"

namespace hammock::compiler {

/// By buffer: whether a command reads it.
std::vector<bool> BuffersRead(const Schedule& schedule);

/// Gives the launch of a command another kernel where its results are such. `bytes` are those of
/// the buffers.
void StreamResults(Launch& launch, const Command& command, const Schedule& schedule,
                   const std::vector<int64_t>& bytes, const std::vector<bool>& read);

}  // namespace hammock::compiler
