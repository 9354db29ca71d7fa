#include "backends/reference/memory.h"

#include <algorithm>
#include <memory>
#include <new>

#include "base/throw.h"

namespace hammock::reference {

void MemoryPool::Reserve(int64_t bytes, std::string_view what) {
  int64_t total = in_use_.fetch_add(bytes, std::memory_order_relaxed) + bytes + derived();
  int64_t limit = this->limit();
  if (limit > 0 && total > limit) {
    in_use_.fetch_sub(bytes, std::memory_order_relaxed);
    Throw<OutOfMemory>(ErrorCode::kOutOfMemory,
                       "{}: {} bytes exceed the limit of {} bytes on {}, {} are in use", what,
                       bytes, limit, device_, total - bytes);
  }
  int64_t peak = this->peak();
  while (total > peak && !peak_.compare_exchange_weak(peak, total, std::memory_order_relaxed)) {
  }
}

HostTensor MemoryPool::Allocate(const Shape& shape, std::string_view what) {
  int64_t bytes = shape.bytes();
  Reserve(bytes, what);
  // At least one byte, so that a tensor without elements is defined too.
  void* memory = ::operator new(std::max<int64_t>(bytes, 1), std::nothrow);
  if (!memory) {
    in_use_.fetch_sub(bytes, std::memory_order_relaxed);
    Throw<OutOfMemory>(ErrorCode::kOutOfMemory, "{}: the host cannot allocate {} bytes for {}",
                       what, bytes, device_);
  }
  auto release = [this, bytes](void* p) {
    ::operator delete(p);
    in_use_.fetch_sub(bytes, std::memory_order_relaxed);
  };
  return HostTensor(shape, std::shared_ptr<void>(memory, release));
}

HostTensor MemoryPool::Adopt(const HostTensor& tensor, std::string_view what) {
  int64_t bytes = tensor.bytes();
  Reserve(bytes, what);
  auto release = [this, bytes, storage = tensor.storage()](void*) mutable {
    storage.reset();
    in_use_.fetch_sub(bytes, std::memory_order_relaxed);
  };
  return HostTensor(tensor.shape(),
                    std::shared_ptr<void>(tensor.storage().get(), std::move(release)));
}

}  // namespace hammock::reference
