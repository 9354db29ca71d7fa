#pragma once
/// Convolutions by cuDNN, which is opened at run time.

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/cuda/driver.h"
#include "backends/cuda/machine.h"

namespace hammock::cuda {

/// Empty where cuDNN is there.
const std::string& WhyNoDnn();

/// One for each device, used with its context current. Thread-safe.
class Dnn {
 public:
  ~Dnn();
  /// Null where the library has no algorithm that gives the same bits every time. `tf32`:
  /// convolutions of f32 may round operands.
  std::shared_ptr<PreparedProduct> Prepare(const Convolution& convolution, bool tf32);
  void Convolve(const PreparedProduct& convolution, Address a, Address b, Address out,
                Address scratch, CUstream stream);

 private:
  /// With the mutex; null where the library cannot be started.
  void* HandleOf(CUstream stream);

  struct Handle {
    CUstream stream = nullptr;  // null until it was used
    void* handle = nullptr;
  };
  std::mutex mutex_;  // of calls of the library
  // Each stream has its own, since what the library keeps in one may be in use until a call is
  // done.
  std::vector<Handle> handles_;
};

}  // namespace hammock::cuda
