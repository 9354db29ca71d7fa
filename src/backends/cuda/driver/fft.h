#pragma once
/// Fourier transforms by cuFFT, which is opened at run time.

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/cuda/driver/driver.h"
#include "backends/cuda/driver/machine.h"

namespace hammock::cuda {

std::vector<std::string> FftFiles();
/// Empty if cuFFT can be opened.
const std::string& WhyNoFft();

/// One for each device, used with its context current. Thread-safe.
class Fft {
 public:
  /// Null if the library cannot compute it. Equal transforms are prepared once.
  std::shared_ptr<PreparedOp> Prepare(const Transform& transform);
  static void Run(const PreparedOp& transform, Address in, Address out, Address scratch,
                  CUstream stream);

 private:
  std::mutex mutex_;  // of what was prepared
  std::map<std::vector<int64_t>, std::weak_ptr<PreparedOp>> prepared_;
};

}  // namespace hammock::cuda
