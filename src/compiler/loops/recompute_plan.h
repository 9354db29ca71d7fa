#pragma once
/// Which values of a schedule are computed a second time, so that fewer bytes are live at once.

#include "compiler/loops/residence.h"

namespace hammock::compiler {

struct RecomputePlan {
  /// By node: the first command that reads a second computation of it; kNever: none does.
  NodeMap<int> from;
  int values = 0;  ///< that are computed twice

  static constexpr int kNever = INT32_MAX;
};

/// Values are chosen by the cost of computing them again, the cheapest a byte first, until no
/// command has more than `most_bytes` live besides inputs and outputs, or nothing more helps.
RecomputePlan PlanRecomputation(const Graph& graph, const Schedule& schedule,
                                const Residence& residence, int64_t most_bytes);

}  // namespace hammock::compiler
