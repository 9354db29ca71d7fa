#pragma once
/// Matrix products by cuBLASLt, which is opened at run time.

#include <memory>
#include <string>
#include <vector>

#include "backends/cuda/driver.h"
#include "backends/cuda/machine.h"

namespace hammock::cuda {

/// Names of the library, best first.
std::vector<std::string> BlasFiles();
/// Empty where cuBLASLt is there.
const std::string& WhyNoBlas();

/// One for each device, used with its context current. Thread-safe.
class Blas {
 public:
  Blas();
  ~Blas();
  /// Null for dtypes that the library does not have. `tf32`: products of f32 may round operands.
  std::shared_ptr<PreparedProduct> Prepare(const Product& product, bool tf32) const;
  void Multiply(const PreparedProduct& product, Address a, Address b, Address bias, Address out,
                Address scratch, CUstream stream) const;

 private:
  void* handle_ = nullptr;
};

}  // namespace hammock::cuda
