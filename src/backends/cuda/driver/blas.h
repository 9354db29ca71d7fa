#pragma once
/// Matmuls by cuBLASLt, which is opened at run time.

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/driver/driver.h"
#include "backends/cuda/driver/machine.h"

namespace hammock::cuda {

/// Names of the library, best first.
std::vector<std::string> BlasFiles();
/// Empty if cuBLASLt can be opened.
const std::string& WhyNoBlas();
int64_t BlasVersion();  ///< 0 where it is not known

/// One for each device, used with its context current. Thread-safe.
class Blas {
 public:
  Blas();
  ~Blas();
  /// Null for dtypes that the library does not have. `tf32`: matmuls of f32 may round operands.
  /// Equal matmuls are prepared once, and near sizes share one algorithm (near_sizes.h).
  std::shared_ptr<PreparedOp> Prepare(const MatMul& matmul, bool tf32);
  /// The algorithms chosen so far, for another process.
  std::string SaveChoices();
  void AddChoices(const std::string& saved);
  void Multiply(const PreparedOp& matmul, Address a, Address b, Address bias, Address out,
                Address scratch, CUstream stream) const;

 private:
  struct Choice;
  /// The algorithm for sizes near those of `matmul`, without its epilogue.
  std::shared_ptr<const Choice> ChoiceFor(const MatMul& matmul, bool tf32);

  void* handle_ = nullptr;
  std::mutex mutex_;
  std::map<std::pair<MatMul, bool>, std::weak_ptr<PreparedOp>> prepared_;
  std::map<std::pair<MatMul, bool>, std::shared_ptr<const Choice>> choices_;
};

}  // namespace hammock::cuda
