#include "backends/cuda/emit/kernel_key.h"

namespace hammock::cuda {

void KernelKey::Add(const compiler::Kernel* kernel, const LaunchConfig& config) {
  const auto address = static_cast<int64_t>(reinterpret_cast<uintptr_t>(kernel));
  Add(address);
  Add(address >> 32);
  Add(static_cast<int64_t>(config.way));
  for (int number : {config.outer_dims, config.vector, config.threads, config.lines, config.slots,
                     config.passes, config.accumulators}) {
    Add(number);
  }
  for (bool flag : {config.wide_index, config.split, config.whole, config.even}) Add(flag);
  Add(config.is_wide);
  Add(config.is_transposed);
}

void KernelKey::Add(const std::vector<bool>& flags) {
  Add(static_cast<int64_t>(flags.size()));
  for (bool flag : flags) Add(flag);
}

}  // namespace hammock::cuda
