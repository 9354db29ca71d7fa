#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "backends/cuda/emit/launch_config.h"

namespace hammock::cuda {

/// Everything that the text of a kernel depends on, much cheaper than the text. Kernels of the loop
/// IR are identified by their address, since the schedule keeps them alive.
class KernelKey {
 public:
  explicit KernelKey(bool guarded) {
    numbers_.reserve(40);
    Add(guarded);
  }
  void Add(const compiler::Kernel* kernel, const LaunchConfig& config);
  void Add(int64_t number) { numbers_.push_back(static_cast<char32_t>(number)); }
  void Add(const std::vector<bool>& flags);

  bool operator==(const KernelKey&) const = default;
  size_t hash() const { return std::hash<std::u32string>()(numbers_); }

 private:
  std::u32string numbers_;
};

}  // namespace hammock::cuda
