#pragma once
/// WriteLate: moves kernels that write outputs behind the ops that can fail, so that they may write
/// into the memory of donated inputs.

#include <vector>

#include "compiler/loops/schedule.h"

namespace hammock::cuda {

/// An order of the steps. `fault` is the last step that can fail. Kernels that could write an
/// output over an input that they read come right behind `fault`, unless a step up to it needs
/// their results. Empty if no step has to move.
std::vector<int> WriteLate(const compiler::Schedule& schedule, int fault);

}  // namespace hammock::cuda
