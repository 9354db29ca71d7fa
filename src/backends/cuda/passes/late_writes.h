#pragma once
/// Kernels that write results come behind the ops that can fail, so that they may write into the
/// memory of donated inputs.

#include <vector>

#include "compiler/loops/schedule.h"

namespace hammock::cuda {

/// An order of the steps: kernels that could write an output over an input they read, and of which
/// no step up to `fault`, the last that can fail, needs a result, come right behind it. Empty where
/// that is the order they have.
std::vector<int> WriteLate(const compiler::Schedule& schedule, int fault);

}  // namespace hammock::cuda
