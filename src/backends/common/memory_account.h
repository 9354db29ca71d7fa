#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

namespace hammock {

/// Counts the bytes that live data of one device holds, and refuses more than a limit. Thread-safe.
class MemoryAccount {
 public:
  /// The device's name is for messages.
  explicit MemoryAccount(const char* device) : device_(device) {}

  /// Adds bytes. OutOfMemory names the bytes, the limit and `what` they are for. `others` are bytes
  /// counted elsewhere that the limit includes.
  void Add(int64_t bytes, int64_t others, std::string_view what);
  void Remove(int64_t bytes) { in_use_.fetch_sub(bytes, std::memory_order_relaxed); }

  int64_t in_use() const { return in_use_.load(std::memory_order_relaxed); }
  int64_t peak() const { return peak_.load(std::memory_order_relaxed); }
  int64_t limit() const { return limit_.load(std::memory_order_relaxed); }
  void SetLimit(int64_t bytes) { limit_.store(bytes, std::memory_order_relaxed); }
  const char* device() const { return device_; }

 private:
  const char* const device_;
  std::atomic<int64_t> in_use_{0};
  std::atomic<int64_t> peak_{0};
  std::atomic<int64_t> limit_{0};
};

}  // namespace hammock
