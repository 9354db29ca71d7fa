#pragma once
/// Machines that are GPUs.

#include <memory>
#include <string>
#include <vector>

#include "backends/cuda/driver/machine.h"

namespace hammock::cuda {

/// Empty where GPUs, a compiler and a library of products are there; else what is missing.
std::string WhyNoGpu();
int GpuCount();

/// A machine of its own for each call, also on the same GPU: it has its own order of work.
std::shared_ptr<Machine> MakeGpuMachine(int ordinal);

}  // namespace hammock::cuda
