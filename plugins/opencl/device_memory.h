#pragma once
/// The memory of a device: blocks, a limit for those in use, and a cache of those that are not.

#include <hammock/lazy/backend_device.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "handles.h"

namespace opencl {

class DeviceMemory;

/// A buffer, which goes back to the cache with its last owner. The device's queue runs in order: a
/// block that is taken again is not written before its earlier uses have ended.
struct Block {
  Block(DeviceMemory& owner, Memory memory, int64_t bytes, int64_t reserved)
      : owner(owner), memory(std::move(memory)), bytes(bytes), reserved(reserved) {}
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  cl_mem get() const { return memory.get(); }

  DeviceMemory& owner;
  Memory memory;
  const int64_t bytes;     ///< asked for
  const int64_t reserved;  ///< of the buffer
};
using BlockPtr = std::shared_ptr<const Block>;

/// Thread-safe.
class DeviceMemory {
 public:
  DeviceMemory(cl_context context, cl_device_id device);

  /// `what` is named in the error where memory is short.
  BlockPtr Take(int64_t bytes, const char* what);
  hammock::lazy::MemoryInfo Info() const;
  void SetLimit(int64_t bytes);
  void FreeCached();

 private:
  friend struct Block;
  void GiveBack(Block& block);
  /// Null where the device has none left.
  Memory Allocate(int64_t reserved) const;

  const cl_context context_;
  const int64_t total_;    // that the device has
  const int64_t largest_;  // buffer that it can have
  mutable std::mutex mutex_;
  std::multimap<int64_t, Memory> cached_;  // by size
  int64_t in_use_ = 0, reserved_ = 0, peak_ = 0, limit_ = 0;
};

}  // namespace opencl
