#pragma once
/// Recordings of one program's steps, by the addresses that they work on. A loop of steps soon
/// comes back to the same memory, so a few are enough.

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "backends/cuda/machine.h"

namespace hammock::cuda {

/// Thread-safe.
class Recordings {
 public:
  /// Does `work`, which depends on `addresses` alone; by a recording when they come again.
  void Run(Machine& machine, std::vector<Address> addresses, const std::function<void()>& work);

 private:
  static constexpr size_t kKept = 8;

  struct Entry {
    std::vector<Address> addresses;
    std::shared_ptr<Recording> recording;  // null when they were seen once
    uint64_t last_use = 0;
  };
  Entry& EntryOf(std::vector<Address> addresses);

  std::mutex mutex_;
  std::vector<Entry> entries_;
  uint64_t uses_ = 0;
};

}  // namespace hammock::cuda
