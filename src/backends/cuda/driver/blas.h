#pragma once
/// Matrix products by cuBLASLt, which is opened at run time.

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
/// Empty where cuBLASLt is there.
const std::string& WhyNoBlas();

/// One for each device, used with its context current. Thread-safe.
class Blas {
 public:
  Blas();
  ~Blas();
  /// Null for dtypes that the library does not have. `tf32`: products of f32 may round operands.
  /// Products that are alike are prepared once, and near sizes have one algorithm (near_sizes.h).
  std::shared_ptr<PreparedProduct> Prepare(const Product& product, bool tf32);
  void Multiply(const PreparedProduct& product, Address a, Address b, Address bias, Address out,
                Address scratch, CUstream stream) const;

 private:
  struct Choice;
  /// The algorithm for sizes near those of `product`, without what follows on it.
  std::shared_ptr<const Choice> ChoiceFor(const Product& product, bool tf32);

  void* handle_ = nullptr;
  std::mutex mutex_;
  std::map<std::pair<Product, bool>, std::weak_ptr<PreparedProduct>> prepared_;
  std::map<std::pair<Product, bool>, std::shared_ptr<const Choice>> choices_;
};

}  // namespace hammock::cuda
