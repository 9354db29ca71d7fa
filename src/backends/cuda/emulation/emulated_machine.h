#pragma once
/// A machine on the host: kernels are compiled by the C++ compiler and their threads are fibres.
/// For tests where there is no GPU.

#include <memory>

#include "backends/cuda/driver/machine.h"

namespace hammock::cuda {

/// Kernels are compiled together when one of them is first launched. With the compiler "none"
/// nothing is computed: that leaves the cost of the host.
std::shared_ptr<Machine> MakeEmulatedMachine(const std::string& compiler, int card = 0);

/// What stands before Prelude() on the host.
const std::string& EmulationPrelude();

}  // namespace hammock::cuda
