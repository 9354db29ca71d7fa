#pragma once
/// Machines that are GPUs.

#include <memory>
#include <string>
#include <vector>

#include "backends/cuda/driver/machine.h"

namespace hammock::cuda {

/// Empty if GPUs, a compiler and cuBLASLt are available; else the part that is missing.
std::string WhyNoGpu();
int GpuCount();

/// A machine of its own for each call, also on the same GPU: it has its own order of work.
std::shared_ptr<Machine> MakeGpuMachine(int ordinal);

}  // namespace hammock::cuda
