#pragma once
/// FaultWords: words of the host's memory in which kernels note what went wrong. Whoever asks later
/// reads them without a copy.

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "backends/cuda/machine.h"

namespace hammock::cuda {

/// Thread-safe; must outlive its words.
class FaultWords {
 public:
  explicit FaultWords(std::shared_ptr<Machine> machine) : machine_(std::move(machine)) {}
  ~FaultWords();
  FaultWords(const FaultWords&) = delete;
  FaultWords& operator=(const FaultWords&) = delete;

  /// `count` zeros. They are used again when the last holder is gone, so someone must hold them
  /// until the run has ended.
  std::shared_ptr<uint64_t> Take(int count);

 private:
  const std::shared_ptr<Machine> machine_;
  std::mutex mutex_;
  std::vector<void*> slabs_;
  std::map<int, std::vector<uint64_t*>> free_;  // by size
};

}  // namespace hammock::cuda
