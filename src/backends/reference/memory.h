#pragma once
/// MemoryPool: counts the bytes that live data of one device holds, and refuses more than a limit.
/// The memory itself comes from the host's allocator.

#include <atomic>
#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>

#include "hammock/host_tensor.h"

namespace hammock::reference {

/// Thread-safe. Must outlive every tensor that it made.
class MemoryPool {
 public:
  /// `derived` gives the bytes of derived forms, which count too.
  MemoryPool(const char* device, std::function<int64_t()> derived)
      : device_(device), derived_(std::move(derived)) {}

  /// A new tensor. OutOfMemory names the bytes, the limit and `what` it was for.
  HostTensor Allocate(const Shape& shape, std::string_view what);
  /// The caller's bytes, shared and counted while the result lives.
  HostTensor Adopt(const HostTensor& tensor, std::string_view what);

  int64_t in_use() const { return in_use_.load(std::memory_order_relaxed) + derived(); }
  int64_t derived() const { return derived_(); }
  int64_t peak() const { return peak_.load(std::memory_order_relaxed); }
  int64_t limit() const { return limit_.load(std::memory_order_relaxed); }
  void SetLimit(int64_t bytes) { limit_.store(bytes, std::memory_order_relaxed); }

 private:
  void Reserve(int64_t bytes, std::string_view what);

  const char* device_;
  const std::function<int64_t()> derived_;
  std::atomic<int64_t> in_use_{0};
  std::atomic<int64_t> peak_{0};
  std::atomic<int64_t> limit_{0};
};

}  // namespace hammock::reference
