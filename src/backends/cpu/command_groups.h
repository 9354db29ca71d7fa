#pragma once
/// Groups of concurrent commands of a schedule, which share one parallel region. An optimiser's
/// step is many small independent kernels; one after another, threads would wait for each other
/// after each.

#include <cstdint>
#include <vector>

#include "hammock/compiler/schedule.h"

namespace hammock::cpu {

/// For each command the last one of its group. A group consists of neighbouring kernels that are
/// independent of each other, and each too small to keep all threads busy. `work` is the number of
/// element instructions of a command, negative for a command that stays alone.
std::vector<int> GroupCommands(const compiler::Schedule& schedule,
                               const std::vector<int64_t>& work);

}  // namespace hammock::cpu
