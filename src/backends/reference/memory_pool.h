#pragma once
/// MemoryPool: counts the bytes that live data of one device holds, and refuses more than a limit.
/// The memory itself comes from the host's allocator.

#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>

#include "backends/common/memory_account.h"
#include "hammock/host_tensor.h"

namespace hammock::reference {

/// Thread-safe. Must outlive every tensor that it made.
class MemoryPool {
 public:
  /// `derived` gives the bytes of derived data, which count too.
  MemoryPool(const char* device, std::function<int64_t()> derived)
      : account_(device), derived_(std::move(derived)) {}

  /// A new tensor. OutOfMemory names the bytes, the limit and `what` it was for.
  HostTensor Allocate(const Shape& shape, std::string_view what);
  /// The caller's bytes, shared and counted while the result lives.
  HostTensor Adopt(const HostTensor& tensor, std::string_view what);

  int64_t in_use() const { return account_.in_use() + derived(); }
  int64_t derived() const { return derived_(); }
  int64_t peak() const { return account_.peak(); }
  int64_t limit() const { return account_.limit(); }
  void SetLimit(int64_t bytes) { account_.SetLimit(bytes); }

 private:
  MemoryAccount account_;
  const std::function<int64_t()> derived_;
};

}  // namespace hammock::reference
