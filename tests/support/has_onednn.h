#pragma once

#include "hammock/device.h"
#include "hammock/lazy/backend_interface.h"

namespace hammock::testing {

/// Whether the CPU backend multiplies and convolves by oneDNN.
inline bool HasOneDnn() {
  const Device cpu("cpu");
  for (const lazy::DeviceFact& fact : cpu.backend().DescribeDevice(cpu.backend_device())) {
    if (fact.name == "matmuls") return !fact.missing;
  }
  return false;
}

}  // namespace hammock::testing
