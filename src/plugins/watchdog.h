#pragma once
/// Watchdog: calls that may never return, on threads that can be given up.

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace hammock::plugins {

/// Runs calls on threads of its own, which are kept for later calls. Thread-safe.
class Watchdog {
 public:
  /// Whether `call` returned within the time; else its thread is left to it, and `call`, which owns
  /// all that it uses, lives as long.
  bool Run(std::function<void()> call, std::chrono::milliseconds most);

 private:
  struct Worker;
  std::mutex mutex_;
  std::vector<std::shared_ptr<Worker>> idle_;
};

}  // namespace hammock::plugins
