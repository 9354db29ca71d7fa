#pragma once
/// One execution of a program: its numbers, inputs and outputs in the memory of a device, the
/// failures of runs that it depends on, and what other streams do.

#include <memory>
#include <span>
#include <vector>

#include "backends/cuda/device_state.h"
#include "backends/cuda/failure_dump.h"
#include "backends/cuda/program.h"
#include "hammock/lazy/backend_interface.h"

namespace hammock::cuda {

/// The arguments of ExecuteComputation. Those that the computation reads are values of the device.
struct ExecutionRequest {
  const lazy::Computation& computation;
  std::span<const lazy::BackendDataPtr> arguments;
  const lazy::BackendDevice& device;
  const lazy::RunContext& run;
};

/// Launches the program. Results of one that may fail are pending; `dump`, if any, is written when
/// it has.
std::vector<lazy::BackendDataPtr> Execute(DeviceState& state,
                                          const std::shared_ptr<const Program>& program,
                                          const ExecutionRequest& request,
                                          std::shared_ptr<const FailureDump> dump);

}  // namespace hammock::cuda
