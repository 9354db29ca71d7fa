#pragma once

#include <atomic>
#include <cstdint>

namespace hammock::plugins {

/// A mutex for a few instructions at a time: taken and given back in line, without a call.
class SmallLock {
 public:
  void lock() {
    uint32_t expected = kFree;
    if (state_.compare_exchange_strong(expected, kHeld, std::memory_order_acquire)) [[likely]]
      return;
    while (state_.exchange(kAwaited, std::memory_order_acquire) != kFree) state_.wait(kAwaited);
  }
  void unlock() {
    if (state_.exchange(kFree, std::memory_order_release) == kAwaited) state_.notify_one();
  }

 private:
  enum : uint32_t { kFree, kHeld, kAwaited };
  std::atomic<uint32_t> state_{kFree};
};

}  // namespace hammock::plugins
