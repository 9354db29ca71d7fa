#pragma once
/// Rematerialise: with the option `memory_budget`, values that are cheap to compute are computed
/// again where they are used later, instead of being kept. docs/design/rematerialisation.md

#include <algorithm>
#include <vector>

#include "hammock/compiler/schedule.h"

namespace hammock::compiler {

/// The most memory for the intermediate values of a run: inputs and results have memory in any
/// case.
struct MemoryBudget {
  double fraction = 1;   ///< of what is planned without a budget
  int64_t bytes = 0;     ///< 0: the fraction counts
  int64_t at_least = 0;  ///< below which the fraction does not go

  int64_t Of(int64_t planned) const {
    if (bytes > 0) return bytes;
    return std::max(at_least, static_cast<int64_t>(fraction * static_cast<double>(planned)));
  }
};

/// A graph whose intermediate values are planned within the budget, or as little above it as was
/// found. One that is within it already stays as it is. `epilogues`: as of MakeSchedule.
Graph Rematerialise(Graph graph, const MemoryBudget& budget, bool epilogues);

/// The same for the option `memory_budget`, as the last pass before the schedule; no pass where the
/// option is not set.
std::vector<Pass> RematerialisePasses(bool epilogues);

}  // namespace hammock::compiler
