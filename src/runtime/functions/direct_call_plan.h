#pragma once
/// A captured function without tensors: the data that its computation takes, and the data that its
/// outputs are.

#include <vector>

#include "hammock/direct_call.h"
#include "runtime/cache/computation_cache.h"

namespace hammock {

struct DirectPlan {
  ~DirectPlan() {
    if (step) step->pins.fetch_sub(1);
  }

  struct Source {
    enum Kind { kInput, kResult, kConstant } kind = kConstant;
    size_t index = 0;
    BackendDataPtr constant = {};
  };

  DeviceEntry* device = nullptr;
  Device public_device;
  std::vector<Shape> input_types;
  CompiledStepPtr step;  ///< pinned; null if nothing is computed
  std::vector<Source> parameters;
  std::vector<Source> outputs;
};

}  // namespace hammock
