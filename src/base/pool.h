#pragma once
/// Memory for the small objects of tracing: per-thread free lists by size class. What one thread
/// frees in excess goes to a shared list in whole batches, so that producer and consumer threads do
/// not grow it and hand a batch over without touching its blocks. Sanitised builds use the system
/// allocator, so that misuse is seen.

#include <cstddef>
#include <cstdint>

namespace hammock::pool {

inline constexpr size_t kGranule = 32;
inline constexpr size_t kClasses = 20;  // up to 608 bytes
inline constexpr uint32_t kBatch = 128;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kPooled = false;
#else
inline constexpr bool kPooled = true;
#endif

struct Block {
  Block* next;
  // Of the first one of a batch in the shared list.
  Block* next_batch;
  uint32_t count;
};
static_assert(sizeof(Block) <= kGranule);

struct ThreadLists {
  Block* head[kClasses];
  uint32_t count[kClasses];  // of `head`
  Block* spare[kClasses];    // a whole batch, or null
  char* cursor;
  char* end;
  uint8_t state;  // 0: not set up, 1: in use, 2: the thread is ending
};
extern constinit thread_local ThreadLists lists;

void* AllocateSlow(size_t bytes);
void FreeSlow(void* block, size_t bytes);

inline void* Allocate(size_t bytes) {
  size_t size_class = (bytes + kGranule - 1) / kGranule;
  if (kPooled && size_class < kClasses) {
    if (Block* block = lists.head[size_class]) {
      lists.head[size_class] = block->next;
      --lists.count[size_class];
      return block;
    }
  }
  return AllocateSlow(bytes);
}

/// `bytes` as given to Allocate.
inline void Free(void* memory, size_t bytes) {
  size_t size_class = (bytes + kGranule - 1) / kGranule;
  if (kPooled && size_class < kClasses && lists.state == 1 && lists.count[size_class] < kBatch) {
    Block* block = static_cast<Block*>(memory);
    block->next = lists.head[size_class];
    lists.head[size_class] = block;
    ++lists.count[size_class];
    return;
  }
  FreeSlow(memory, bytes);
}

}  // namespace hammock::pool

namespace hammock {

/// The pool as an allocator, for std::allocate_shared.
template <class T>
struct PoolAllocator {
  using value_type = T;
  PoolAllocator() = default;
  template <class U>
  PoolAllocator(const PoolAllocator<U>&) {}  // NOLINT: allocators convert
  T* allocate(size_t count) { return static_cast<T*>(pool::Allocate(count * sizeof(T))); }
  void deallocate(T* memory, size_t count) { pool::Free(memory, count * sizeof(T)); }
  template <class U>
  bool operator==(const PoolAllocator<U>&) const {
    return true;
  }
};

}  // namespace hammock
