#pragma once
/// Compiled computations in files of `cache_dir`, for other processes. Nothing here fails: a file
/// that cannot be read, is damaged, of another backend version or another graph is as good as none.

#include "hammock/lazy/lowering_context.h"
#include "runtime/backend_registry.h"

namespace hammock {

/// The saved form of `wanted`, which is not compiled yet; null if there is none that fits.
lazy::ComputationPtr LoadComputation(DeviceEntry& device, const lazy::Computation& wanted);
void SaveComputation(DeviceEntry& device, const lazy::ComputationPtr& computation);

}  // namespace hammock
