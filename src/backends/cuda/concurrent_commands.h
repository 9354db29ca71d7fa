#pragma once
/// Groups of concurrent kernels of a schedule, which share one launch. An optimiser's step is many
/// small independent kernels; a launch for each would take longer than its work.

#include <vector>

#include "hammock/compiler/schedule.h"

namespace hammock::cuda {

/// An order of the commands, in groups; the commands of a group are independent of each other.
/// Commands that `waits` marks (by command) may come later than in the schedule, grouped with
/// others whose results are not needed yet; all others are alone, in their order. An input that a
/// command reads last, and could overwrite in place, stays so.
std::vector<std::vector<int>> GroupCommands(const compiler::Schedule& schedule,
                                            const std::vector<bool>& waits);

}  // namespace hammock::cuda
