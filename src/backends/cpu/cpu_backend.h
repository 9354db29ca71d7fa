#pragma once
/// The device "cpu": graphs as fused kernels, compiled in the background, with planned memory.

#include "hammock/lazy/backend_interface.h"

namespace hammock {

lazy::BackendImplInterface* CpuBackend();

}  // namespace hammock
