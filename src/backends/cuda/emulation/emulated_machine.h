#pragma once
/// A machine on the host, for tests without a GPU: kernels are compiled by the C++ compiler, and
/// their threads are fibres.

#include <memory>

#include "backends/cuda/driver/machine.h"

namespace hammock::cuda {

/// Kernels are compiled together when one of them is first launched. With the compiler "none"
/// nothing is computed, to measure the cost of the host alone.
std::shared_ptr<Machine> MakeEmulatedMachine(const std::string& compiler, int card = 0);

/// The text before Prelude() on the host.
const std::string& EmulationPrelude();

}  // namespace hammock::cuda
