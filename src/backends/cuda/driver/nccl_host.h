#pragma once

#include <functional>
#include <string>

#include "backends/cuda/driver/driver.h"

namespace hammock::cuda {

/// A machine whose streams NCCL can work on.
class NcclHost {
 public:
  virtual ~NcclHost() = default;
  /// Empty if there is NCCL for this machine.
  virtual std::string WhyNoNccl() const = 0;
  /// Calls `work` with the calling thread's stream, in its order. Not while it is captured.
  virtual void OnStream(const std::function<void(CUstream)>& work) = 0;
};

}  // namespace hammock::cuda
