#pragma once
/// Facts about one run of a computation, besides its arguments: the last argument of
/// `ExecuteComputation`.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hammock/export.h"
#include "hammock/location.h"

namespace hammock::distributed {
class StepAgreements;
}

namespace hammock::lazy {

/// The profile (hammock/profile.h) of a run. Backends that know when their kernels ran write them
/// here; `hammock report` then shows them under the nodes that they compute.
struct HAMMOCK_API RunProfile {
  std::string device;         ///< such as "cpu:0"
  int64_t graph = 0;          ///< number of the compiled graph in the profile
  int64_t first_kernel = 0;   ///< number of this computation's first kernel in that graph
  int64_t planned_bytes = 0;  ///< in use on the device at the highest point of the run

  /// Nanoseconds of the profile's clock.
  static int64_t Now();
  /// A kernel of the computation, numbered as in ComputationInfo::kernels, ran from `begin` to
  /// `end`.
  void AddKernel(size_t kernel, std::string_view name, int64_t begin, int64_t end) const;
  /// The device's memory in use now.
  void AddMemory(int64_t in_use) const;
};

struct RunContext {
  /// `donated[i]` says that argument i may be overwritten: it is read by nobody else, and every op
  /// that can fail must have run before its memory is reused. May be shorter than the arguments.
  std::vector<bool> donated = {};
  /// Line of the program where the last output of the step was recorded; 0: not known. A compiled
  /// graph knows no other lines than those where it was first recorded.
  LocationId location = 0;
  /// Null where no profile is being written.
  const RunProfile* profile = nullptr;
  /// Becomes true when the process ends before the run does: the run may then stop with any error,
  /// as long as no donated argument was written. Null where that cannot happen.
  const std::atomic<bool>* cancel = nullptr;
  /// The collectives that ranks have agreed on for this step, for RunCollective
  /// (hammock/lazy/collectives.h). Null where it has none.
  distributed::StepAgreements* collectives = nullptr;
};

}  // namespace hammock::lazy
