#pragma once

#include "hammock/compiler/schedule.h"

namespace hammock::cuda {

/// Random words that only kernels read, contiguously along their lines, are drawn by these kernels
/// instead of being written to memory by calls. They are the same words.
compiler::Schedule FuseRandom(const Graph& graph, compiler::Schedule schedule);

}  // namespace hammock::cuda
