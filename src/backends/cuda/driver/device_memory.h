#pragma once
/// DeviceMemory: blocks of a machine's memory. Freed blocks are kept for the next request of their
/// size class, which gets the one with the lowest address: steps that repeat get the same addresses
/// again, in whatever order they gave their blocks back, and so find their CUDA graphs. Work of one
/// stream happens in order, so later work may use a block of its stream at once. Other streams, and
/// copies that are concurrent with the work, need a block whose uses are over; a block is held
/// until the event after its last use was recorded, so the number of that event says when.

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "backends/common/memory_account.h"
#include "backends/cuda/driver/machine.h"
#include "backends/cuda/driver/stream_uses.h"
#include "hammock/callback.h"
#include "hammock/lazy/backend_device.h"

namespace hammock::cuda {

class DeviceMemory;

/// Gives its memory back when the last holder is gone. It stores one value, unless it is shared; a
/// later value may overwrite it while data still refers to the earlier one, see Note [Guarded
/// kernels].
class Block {
 public:
  Block(DeviceMemory& memory, Address address, int64_t bytes, int stream)
      : address(address), bytes(bytes), uses(stream), memory_(&memory) {}
  /// Memory of someone else, which is never written; `release` runs instead of giving it back.
  Block(Address address, int64_t bytes, int stream, Callback<void()> release)
      : address(address), bytes(bytes), uses(stream), shared_(true), release_(std::move(release)) {}
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  const Address address;
  const int64_t bytes;  ///< that were asked for
  StreamUses uses;

  /// Several values share the memory, or a concurrent copy reads it: it must not be written while
  /// it has more than one holder.
  void Share() { shared_.store(true, std::memory_order_relaxed); }
  /// The holder of the last of these values writes there: it is the only one again.
  void EndSharing() { shared_.store(false, std::memory_order_relaxed); }
  bool is_shared() const { return shared_.load(std::memory_order_relaxed); }
  bool is_borrowed() const { return !memory_; }

 private:
  std::atomic<bool> shared_{false};
  DeviceMemory* memory_ = nullptr;
  Callback<void()> release_;
};
using BlockPtr = std::shared_ptr<Block>;

/// The use that a block is taken for.
enum class BlockUse {
  kInOrder,     ///< work of the calling thread's stream, which comes after its earlier work
  kConcurrent,  ///< concurrent copies: all earlier uses of the block must be over
};

/// Thread-safe; must outlive its blocks.
class DeviceMemory {
 public:
  /// The device's name is for messages and lives as long as this.
  DeviceMemory(std::shared_ptr<Machine> machine, const char* device);

  /// OutOfMemory if the bytes exceed the limit or the machine has no more; `what` says what they
  /// are for, `others` are bytes counted elsewhere that the limit includes.
  BlockPtr Take(int64_t bytes, std::string_view what, int64_t others,
                BlockUse use = BlockUse::kInOrder);
  /// Gives cached blocks back to the machine; returns how many bytes.
  int64_t FreeCached();
  void SetLimit(int64_t bytes) { account_.SetLimit(bytes); }
  lazy::MemoryInfo Info() const;

 private:
  friend class Block;
  /// By the stream that they come from, and by address.
  using Streams = std::array<std::map<Address, StreamUses>, kMostStreams>;
  static int64_t SizeOf(int64_t bytes);
  Address TakeCached(int64_t size, BlockUse use, int stream);
  void Give(const Block& block);

  const std::shared_ptr<Machine> machine_;
  MemoryAccount account_;
  mutable std::mutex mutex_;
  std::map<int64_t, Streams> cached_;  // by size
  int64_t reserved_ = 0;
};

}  // namespace hammock::cuda
