#pragma once
/// Convolutions by cuDNN, which is opened at run time.

#include <memory>
#include <mutex>
#include <string>

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
  std::mutex mutex_;  // of the handle
  void* handle_ = nullptr;
};

}  // namespace hammock::cuda
