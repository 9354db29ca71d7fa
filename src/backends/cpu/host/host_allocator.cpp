#include "backends/cpu/host/host_allocator.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <thread>

#include "base/throw.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#endif

namespace hammock::cpu {
namespace {

/// Cached memory is kept without question up to this much.
constexpr int64_t kAlwaysKept = int64_t{64} << 20;

/// The free list that a thread tries first.
int ListOfThread(int lists) {
  static std::atomic<unsigned> threads{0};
  static thread_local unsigned number = threads.fetch_add(1, std::memory_order_relaxed);
  return static_cast<int>(number % static_cast<unsigned>(lists));
}

/// A mapping that begins at a multiple of a huge page; null if there is none.
void* Map(int64_t size) {
  constexpr int64_t kHuge = HostAllocator::kHugePage;
  size_t length = static_cast<size_t>(size + kHuge);
  void* mapped = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  char* begin = static_cast<char*>(mapped);
  int64_t before = -reinterpret_cast<intptr_t>(begin) & (kHuge - 1);
  if (before > 0) munmap(begin, before);
  munmap(begin + before + size, kHuge - before);
  madvise(begin + before, size, MADV_HUGEPAGE);  // a wish: small pages do as well
  return begin + before;
}

}  // namespace

HostAllocator::~HostAllocator() { FreeCached(); }

void* HostAllocator::TakeCached(int& size_class, int largest) {
  int first = ListOfThread(kLists);
  for (int i = 0; i < kLists; ++i) {
    FreeList& list = lists_[(first + i) % kLists];
    std::unique_lock lock(list.mutex, std::try_to_lock);
    if (!lock) continue;
    for (int c = size_class; c <= largest; ++c) {
      if (list.blocks[c].empty()) continue;
      void* block = list.blocks[c].back();
      list.blocks[c].pop_back();
      size_class = c;
      return block;
    }
  }
  return nullptr;
}

void* HostAllocator::TakeFromSystem(int64_t size) {
  void* block = size >= kHugePage ? Map(size) : std::aligned_alloc(kBlockAlignment, size);
  if (block) reserved_.fetch_add(size, std::memory_order_relaxed);
  return block;
}

void HostAllocator::GiveToSystem(void* block, int64_t size) {
  ASAN_UNPOISON_MEMORY_REGION(block, size);
  if (size >= kHugePage) {
    munmap(block, size);
  } else {
    std::free(block);
  }
  reserved_.fetch_sub(size, std::memory_order_relaxed);
}

/// Sizes that never come again must not pile up: cached blocks go when they would make the whole
/// larger than twice the highest use, or than the limit.
void HostAllocator::TrimBefore(int64_t size) {
  int64_t reserved = reserved_.load(std::memory_order_relaxed) + size;
  int64_t limit = account_.limit();
  bool over_limit = limit > 0 && reserved > limit;
  if (over_limit || reserved > 2 * account_.peak() + kAlwaysKept) FreeCached();
}

void* HostAllocator::Allocate(int64_t bytes, std::string_view what, int64_t others) {
  int size_class = SizeClassOf(bytes);
  return Take(bytes, size_class, size_class, what, others);
}

void* HostAllocator::Take(int64_t bytes, int& size_class, int largest, std::string_view what,
                          int64_t others) {
  account_.Add(bytes, others, what);
  void* block = TakeCached(size_class, largest);
  int64_t size = BytesOfClass(size_class);
  if (!block) {
    TrimBefore(size);
    block = TakeFromSystem(size);
    if (!block && FreeCached() > 0) block = TakeFromSystem(size);
  }
  if (!block) {
    account_.Remove(bytes);
    Throw<OutOfMemory>(ErrorCode::kOutOfMemory, "{}: the host cannot allocate {} bytes for {}",
                       what, bytes, account_.device());
  }
  ASAN_POISON_MEMORY_REGION(block, size);
  ASAN_UNPOISON_MEMORY_REGION(block, bytes);
  return block;
}

void HostAllocator::Free(void* block, int64_t bytes) {
  account_.Remove(bytes);
  Keep(block, SizeClassOf(bytes));
}

void HostAllocator::Keep(void* block, int size_class) {
  int64_t size = BytesOfClass(size_class);
  ASAN_POISON_MEMORY_REGION(block, size);
  int first = ListOfThread(kLists);
  for (int i = 0; i < kLists; ++i) {
    FreeList& list = lists_[(first + i) % kLists];
    std::unique_lock lock(list.mutex, std::try_to_lock);
    if (!lock) continue;
    list.blocks[size_class].push_back(block);
    return;
  }
  GiveToSystem(block, size);
}

HostAllocator::Arena::Arena(HostAllocator& memory, int64_t bytes, std::string_view what,
                            int64_t others)
    : memory_(memory), bytes_(bytes) {
  if (bytes == 0) return;
  class_ = SizeClassOf(bytes);
  block_ =
      memory.Take(bytes, class_, std::min(class_ + 2 * kSizeClassesPerDoubling, kSizeClasses - 1),
                  what, others);
}

HostAllocator::Arena::~Arena() {
  if (!block_) return;
  memory_.account_.Remove(bytes_);
  memory_.Keep(block_, class_);
}

HostTensor HostAllocator::New(const Shape& shape, std::string_view what, int64_t others) {
  int64_t bytes = shape.bytes();
  void* block = Allocate(bytes, what, others);
  return HostTensor(
      shape, std::shared_ptr<void>(block, [this, bytes](void* memory) { Free(memory, bytes); }));
}

HostTensor HostAllocator::Adopt(const HostTensor& tensor, std::string_view what, int64_t others) {
  int64_t bytes = tensor.bytes();
  account_.Add(bytes, others, what);
  auto release = [this, bytes, storage = tensor.storage()](void*) mutable {
    storage.reset();
    account_.Remove(bytes);
  };
  return HostTensor(tensor.shape(),
                    std::shared_ptr<void>(tensor.storage().get(), std::move(release)));
}

int64_t HostAllocator::FreeCached() {
  int64_t freed = 0;
  for (FreeList& list : lists_) {
    std::unique_lock lock(list.mutex, std::try_to_lock);
    // Other threads hold a list for a moment only, except across a fork.
    for (int turn = 0; !lock && turn < 100; ++turn) {
      std::this_thread::yield();
      (void)lock.try_lock();
    }
    if (!lock) continue;
    for (int c = 0; c < kSizeClasses; ++c) {
      for (void* block : list.blocks[c]) GiveToSystem(block, BytesOfClass(c));
      freed += static_cast<int64_t>(list.blocks[c].size()) * BytesOfClass(c);
      list.blocks[c].clear();
    }
  }
  return freed;
}

lazy::MemoryInfo HostAllocator::Info() const {
  return {.in_use = account_.in_use(),
          .reserved = reserved_.load(std::memory_order_relaxed),
          .peak = account_.peak(),
          .limit = account_.limit()};
}

}  // namespace hammock::cpu
