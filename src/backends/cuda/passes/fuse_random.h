#pragma once

#include "compiler/loops/schedule.h"

namespace hammock::cuda {

/// Random words that only kernels read, one after another along their lines, are drawn by these
/// kernels, where calls would write them to memory first. They are the same words.
compiler::Schedule FuseRandom(const Graph& graph, compiler::Schedule schedule);

}  // namespace hammock::cuda
