#include "base/pool.h"

#include <cstdlib>
#include <mutex>
#include <new>
#include <utility>

#include "base/never_destroyed.h"

namespace hammock::pool {

constinit thread_local ThreadLists lists = {};

namespace {

constexpr size_t kChunkBytes = size_t{1} << 18;
constexpr size_t kAtATime = 8;  // new blocks: looking for freed ones takes a lock

// Batches that threads gave back. Never destroyed: threads may outlive static destructors.
struct Shared {
  std::mutex mutex;
  Block* batches[kClasses] = {};

  void Push(size_t size_class, Block* batch, uint32_t count) {
    if (!batch) return;
    batch->count = count;
    std::lock_guard lock(mutex);
    batch->next_batch = batches[size_class];
    batches[size_class] = batch;
  }
  Block* Pop(size_t size_class) {
    std::lock_guard lock(mutex);
    Block* batch = batches[size_class];
    if (batch) batches[size_class] = batch->next_batch;
    return batch;
  }
};
Shared& shared() {
  static auto& instance = NeverDestroyed<Shared>();
  return instance;
}

struct AtThreadEnd {
  ~AtThreadEnd() {
    lists.state = 2;
    for (size_t i = 0; i < kClasses; ++i) {
      shared().Push(i, std::exchange(lists.head[i], nullptr), std::exchange(lists.count[i], 0));
      shared().Push(i, std::exchange(lists.spare[i], nullptr), kBatch);
    }
  }
};

void SetUp() {
  static thread_local AtThreadEnd at_end;
  (void)at_end;
  lists.state = 1;
}

// The first block of a batch that was freed before, or null. The thread keeps the others.
void* TakeFreed(size_t size_class) {
  Block* batch = std::exchange(lists.spare[size_class], nullptr);
  uint32_t count = kBatch;
  if (!batch) {
    batch = shared().Pop(size_class);
    if (!batch) return nullptr;
    count = batch->count;
  }
  if (lists.state == 1) {
    lists.head[size_class] = batch->next;
    lists.count[size_class] = count - 1;
  } else {
    shared().Push(size_class, batch->next, count - 1);
  }
  return batch;
}

}  // namespace

void* AllocateSlow(size_t bytes) {
  size_t size_class = (bytes + kGranule - 1) / kGranule;
  if (!kPooled || size_class >= kClasses) return ::operator new(bytes);
  if (lists.state == 0) SetUp();
  if (void* block = TakeFreed(size_class)) return block;
  size_t size = size_class * kGranule;
  auto carve = [&] { return std::exchange(lists.cursor, lists.cursor + size); };
  if (lists.cursor == nullptr || lists.cursor + kAtATime * size > lists.end) {
    lists.cursor = static_cast<char*>(::operator new(kChunkBytes));
    lists.end = lists.cursor + kChunkBytes;
  }
  for (size_t i = 1; lists.state == 1 && i < kAtATime; ++i) {
    lists.head[size_class] = new (carve()) Block{lists.head[size_class], nullptr, 0};
    ++lists.count[size_class];
  }
  return carve();
}

void FreeSlow(void* memory, size_t bytes) {
  size_t size_class = (bytes + kGranule - 1) / kGranule;
  if (!kPooled || size_class >= kClasses) {
    ::operator delete(memory);
    return;
  }
  Block* block = static_cast<Block*>(memory);
  if (lists.state == 0) SetUp();
  if (lists.state != 1) {
    block->next = nullptr;
    shared().Push(size_class, block, 1);
    return;
  }
  if (lists.count[size_class] == kBatch) {
    shared().Push(size_class, lists.spare[size_class], kBatch);
    lists.spare[size_class] = std::exchange(lists.head[size_class], nullptr);
    lists.count[size_class] = 0;
  }
  block->next = lists.head[size_class];
  lists.head[size_class] = block;
  ++lists.count[size_class];
}

}  // namespace hammock::pool
