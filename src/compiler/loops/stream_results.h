#pragma once
/// Lets kernels write past the caches what is large and read by no command. It changes no bit.

#include <cstdint>
#include <vector>

#include "hammock/compiler/schedule.h"

namespace hammock::compiler {

/// Whether a command reads them.
BufferMap<bool> BuffersRead(const Schedule& schedule);

/// Gives the launch of a command another kernel where its results are such.
void StreamResults(Launch& launch, const Command& command, const Schedule& schedule,
                   const BufferMap<int64_t>& bytes, const BufferMap<bool>& read);

}  // namespace hammock::compiler
