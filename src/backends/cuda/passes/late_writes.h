#pragma once
/// WriteLate: moves kernels that write outputs behind the ops that can fail, so that they may write
/// into the memory of donated inputs.

#include <vector>

#include "hammock/compiler/schedule.h"

namespace hammock::cuda {

/// An order of the commands. `fault` is the last command that can fail. Kernels that could write an
/// output over an input that they read come right behind `fault`, unless a command up to it needs
/// their results. Empty if no command has to move.
std::vector<int> WriteLate(const compiler::Schedule& schedule, int fault);

}  // namespace hammock::cuda
