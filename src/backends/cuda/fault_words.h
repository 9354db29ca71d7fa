#pragma once
/// FaultWords: words in which kernels note what went wrong. Those that say what it was are in the
/// host's memory: whoever asks later reads them without a copy. One more for each run is in the
/// device's memory, for kernels to read.

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "backends/cuda/machine.h"

namespace hammock::cuda {

/// The words of one run.
struct RunWords {
  uint64_t* faults = nullptr;  ///< in the host's memory
  Address failed = 0;          ///< in the device's; undefined until the run has written it
};

/// Thread-safe; must outlive its words.
class FaultWords {
 public:
  explicit FaultWords(std::shared_ptr<Machine> machine) : machine_(std::move(machine)) {}
  ~FaultWords();
  FaultWords(const FaultWords&) = delete;
  FaultWords& operator=(const FaultWords&) = delete;

  /// With `count` faults that are 0. They are used again when the last holder is gone, so someone
  /// must hold them until the run has ended, if it has ops that can fail. OutOfMemory where the
  /// device has no word left.
  std::shared_ptr<const RunWords> Take(int count);

 private:
  void AddSlab(int size, std::vector<RunWords>& free);

  const std::shared_ptr<Machine> machine_;
  std::mutex mutex_;
  std::vector<void*> host_slabs_;
  std::vector<Address> device_slabs_;
  std::map<int, std::vector<RunWords>> free_;  // by size
};

}  // namespace hammock::cuda
