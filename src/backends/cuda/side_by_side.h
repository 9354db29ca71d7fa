#pragma once
/// Which kernels of a schedule run side by side, in one launch. An optimiser's step is many small
/// kernels that do not depend on each other; a launch for each would take longer than its work.

#include <vector>

#include "compiler/loops/schedule.h"

namespace hammock::cuda {

/// An order of the steps, in groups; those of a group are independent of each other. A step that
/// `waits` (by step) may come later than in the schedule, with the others that nobody has needed
/// so far; all others are alone, in their order. An input that a step reads last, and could
/// overwrite in place, stays so.
std::vector<std::vector<int>> GroupSteps(const compiler::Schedule& schedule,
                                         const std::vector<bool>& waits);

}  // namespace hammock::cuda
