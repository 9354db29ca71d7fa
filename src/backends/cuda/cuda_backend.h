#pragma once
/// The devices "cuda", "cuda:1", ...: graphs as fused kernels and library calls on GPUs.

#include <memory>
#include <string>
#include <vector>

#include "backends/cuda/driver/machine.h"
#include "hammock/lazy/backend_interface.h"

namespace hammock {

/// Null if there is no GPU, or a library that it needs is missing.
lazy::BackendImplInterface* CudaBackend();

namespace cuda {

/// One device for each machine; of another type, under another name, for tests.
std::unique_ptr<lazy::BackendImplInterface> MakeBackend(
    std::vector<std::shared_ptr<Machine>> machines, const std::string& name, int8_t type);

}  // namespace cuda
}  // namespace hammock
