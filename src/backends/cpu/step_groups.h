#pragma once
/// Which steps of a schedule run side by side, in one parallel region. An optimiser's step is many
/// small kernels that do not depend on each other; one after another, threads would meet after
/// each.

#include <cstdint>
#include <vector>

#include "compiler/loops/schedule.h"

namespace hammock::cpu {

/// For each step the last one of its group. Groups are neighbours: kernels, none of which reads or
/// writes what another one writes, and each so small that threads alone on it would be short of
/// work. `work` is that of a step in element instructions, and negative for one that stays alone.
std::vector<int> GroupSteps(const compiler::Schedule& schedule, const std::vector<int64_t>& work);

}  // namespace hammock::cpu
