#pragma once

#include <atomic>
#include <chrono>
#include <thread>

namespace hammock::plugins {

/// A mutex for a few instructions at a time: taken and given back in line, without a call. Giving
/// it back is a plain store, which costs much less than an exchange; so a thread that waits cannot
/// be woken, and looks again.
class SmallLock {
 public:
  void lock() {
    if (held_.exchange(true, std::memory_order_acquire)) [[unlikely]]
      Wait();
  }
  void unlock() { held_.store(false, std::memory_order_release); }

 private:
  [[gnu::noinline]] void Wait() {
    constexpr int kYields = 100;  // then the thread that has it may have a lower priority
    for (int i = 0; held_.exchange(true, std::memory_order_acquire); ++i) {
      if (i < kYields) {
        std::this_thread::yield();
      } else {
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
    }
  }

  std::atomic<bool> held_{false};
};

}  // namespace hammock::plugins
