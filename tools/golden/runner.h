#pragma once
/// Runs many cases, in this process or in children that may die.

#include <functional>
#include <string>
#include <vector>

#include "case.h"
#include "replay.h"

namespace hammock::golden {

struct RunOptions {
  std::string dir;
  std::string device;  ///< empty: the default one
  bool eager = false;
  bool isolate = false;    ///< a child process for each group
  int case_seconds = 120;  ///< isolated only: a case that takes longer counts as a crash
};

/// Called after each case, in order.
using OnResult = std::function<void(const Case&, const CaseResult&)>;

std::vector<CaseResult> RunCases(const std::vector<Case>& cases, const RunOptions& options,
                                 const OnResult& on_result);

}  // namespace hammock::golden
