#pragma once
/// HostAllocator: memory for the CPU backend's buffers. Freed blocks are kept for the next request
/// of their size class, because fresh pages cost more than most kernels.
///
/// Blocks are aligned to 64 bytes. From 2 MiB on they are mapped by themselves, aligned to 2 MiB
/// and offered to the kernel as huge pages.

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <vector>

#include "backends/common/memory_account.h"
#include "backends/common/size_class.h"
#include "hammock/host_tensor.h"
#include "hammock/lazy/backend_device.h"

namespace hammock::cpu {

/// Thread-safe; must outlive every block and tensor that it made. Threads rarely contend: free
/// blocks are in several lists, and a thread that finds one locked takes the next. So a list that
/// another thread held during a fork is not used in the child, and nothing waits for it.
class HostAllocator {
 public:
  static constexpr int64_t kHugePage = int64_t{1} << 21;

  /// The device's name is for messages.
  explicit HostAllocator(const char* device) : account_(device) {}
  ~HostAllocator();
  HostAllocator(const HostAllocator&) = delete;
  HostAllocator& operator=(const HostAllocator&) = delete;

  /// Uninitialised bytes. OutOfMemory if they exceed the limit or the host has no more; `what` says
  /// what they are for. `others` are bytes counted elsewhere that the limit includes.
  void* Allocate(int64_t bytes, std::string_view what, int64_t others = 0);
  /// `bytes` as given to Allocate.
  void Free(void* block, int64_t bytes);

  /// Memory for one run, given back at its end. It may be a cached block up to four times as large,
  /// so that runs of ever new sizes share memory instead of touching new pages.
  class Arena {
   public:
    Arena(HostAllocator& memory, int64_t bytes, std::string_view what, int64_t others = 0);
    ~Arena();
    Arena(const Arena&) = delete;
    Arena& operator=(const Arena&) = delete;
    char* data() const { return static_cast<char*>(block_); }  ///< null for no bytes

   private:
    HostAllocator& memory_;
    const int64_t bytes_;
    int class_ = 0;
    void* block_ = nullptr;
  };

  /// A tensor that gives its memory back when the last user is gone.
  HostTensor New(const Shape& shape, std::string_view what, int64_t others = 0);
  /// The caller's bytes, shared and counted while the result lives.
  HostTensor Adopt(const HostTensor& tensor, std::string_view what, int64_t others = 0);

  /// Gives all cached blocks back to the system; returns how many bytes.
  int64_t FreeCached();

  void SetLimit(int64_t bytes) { account_.SetLimit(bytes); }
  /// `derived` is part of `others`, as the caller counts them.
  lazy::MemoryInfo Info() const;

 private:
  static constexpr int kLists = 8;

  struct alignas(64) FreeList {
    std::mutex mutex;
    std::vector<void*> blocks[kSizeClasses];
  };

  /// A block of `size_class`, which becomes its class, or of a larger one up to `largest`.
  void* Take(int64_t bytes, int& size_class, int largest, std::string_view what, int64_t others);
  void* TakeCached(int& size_class, int largest);
  void Keep(void* block, int size_class);
  void* TakeFromSystem(int64_t size);
  void GiveToSystem(void* block, int64_t size);
  void TrimBefore(int64_t size);

  MemoryAccount account_;
  std::atomic<int64_t> reserved_{0};
  FreeList lists_[kLists];
};

}  // namespace hammock::cpu
