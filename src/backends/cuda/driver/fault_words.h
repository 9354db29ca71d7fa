#pragma once
/// FaultWords: words in which kernels note errors. The words that describe an error are in host
/// memory, where they are read without a copy. One more word for each run is in device memory, for
/// kernels to read; see Note [Guarded kernels].

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "backends/cuda/driver/machine.h"
#include "backends/cuda/driver/stream_uses.h"

namespace hammock::cuda {

/// The words of one run.
struct RunWords {
  uint64_t* faults = nullptr;  ///< in the host's memory
  Address failed = 0;          ///< in the device's; undefined until the run has written it
  mutable StreamUses uses{0};  ///< of `failed`
};

/// Thread-safe; must outlive its words.
class FaultWords {
 public:
  explicit FaultWords(std::shared_ptr<Machine> machine) : machine_(std::move(machine)) {}
  ~FaultWords();
  FaultWords(const FaultWords&) = delete;
  FaultWords& operator=(const FaultWords&) = delete;

  /// Words for a run of the calling thread's stream, with `count` faults that are 0. They are
  /// reused when the last holder is gone, so they must be held until the run has ended, if it has
  /// ops that can fail. OutOfMemory if the device has no memory for them.
  std::shared_ptr<const RunWords> Take(int count);

 private:
  RunWords Make(int size);

  const std::shared_ptr<Machine> machine_;
  std::mutex mutex_;
  std::vector<void*> slabs_;                      // of the host's memory
  std::vector<Address> failed_;                   // all of them
  std::map<int, std::vector<uint64_t*>> unused_;  // faults, by size
  std::map<int, std::vector<RunWords>> free_;     // by size
};

}  // namespace hammock::cuda
