#include "base/pool.h"

#include <cstdlib>
#include <mutex>
#include <new>

namespace hammock::pool {

constinit thread_local ThreadLists lists = {};

namespace {

constexpr size_t kChunkBytes = size_t{1} << 18;
constexpr uint32_t kBatch = 4096;

// Chains of blocks that threads gave back. Never destroyed: threads may outlive static destructors.
struct Shared {
  std::mutex mutex;
  Block* head[kClasses] = {};
};
Shared& shared() {
  static Shared* instance = new Shared;
  return *instance;
}

void GiveBack(size_t size_class, uint32_t keep) {
  Block* first = nullptr;
  Block* last = nullptr;
  while (lists.count[size_class] > keep) {
    Block* block = lists.head[size_class];
    lists.head[size_class] = block->next;
    --lists.count[size_class];
    block->next = first;
    first = block;
    if (!last) last = block;
  }
  if (!first) return;
  std::lock_guard lock(shared().mutex);
  last->next = shared().head[size_class];
  shared().head[size_class] = first;
}

struct AtThreadEnd {
  ~AtThreadEnd() {
    lists.state = 2;
    for (size_t i = 0; i < kClasses; ++i) GiveBack(i, 0);
  }
};

void SetUp() {
  static thread_local AtThreadEnd at_end;
  (void)at_end;
  lists.state = 1;
}

// Up to a batch from the shared lists; null if they are empty.
void* TakeShared(size_t size_class) {
  std::lock_guard lock(shared().mutex);
  Block*& head = shared().head[size_class];
  Block* result = head;
  if (!result) return nullptr;
  head = result->next;
  for (uint32_t i = 0; lists.state == 1 && head && i < kBatch; ++i) {
    Block* block = head;
    head = block->next;
    block->next = lists.head[size_class];
    lists.head[size_class] = block;
    ++lists.count[size_class];
  }
  return result;
}

}  // namespace

void* AllocateSlow(size_t bytes) {
  size_t size_class = (bytes + kGranule - 1) / kGranule;
  if (!kPooled || size_class >= kClasses) return ::operator new(bytes);
  if (lists.state == 0) SetUp();
  if (void* block = TakeShared(size_class)) return block;
  size_t size = size_class * kGranule;
  if (lists.cursor == nullptr || lists.cursor + size > lists.end) {
    lists.cursor = static_cast<char*>(::operator new(kChunkBytes));
    lists.end = lists.cursor + kChunkBytes;
  }
  void* result = lists.cursor;
  lists.cursor += size;
  return result;
}

void FreeSlow(void* memory, size_t bytes) {
  size_t size_class = (bytes + kGranule - 1) / kGranule;
  if (!kPooled || size_class >= kClasses) {
    ::operator delete(memory);
    return;
  }
  Block* block = static_cast<Block*>(memory);
  if (lists.state == 0) SetUp();
  if (lists.state == 1) {
    if (lists.count[size_class] >= 8192) GiveBack(size_class, kBatch);
    block->next = lists.head[size_class];
    lists.head[size_class] = block;
    ++lists.count[size_class];
    return;
  }
  std::lock_guard lock(shared().mutex);
  block->next = shared().head[size_class];
  shared().head[size_class] = block;
}

}  // namespace hammock::pool
