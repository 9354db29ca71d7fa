#include "backends/reference/memory_pool.h"

#include <algorithm>
#include <memory>
#include <new>

#include "base/throw.h"

namespace hammock::reference {

HostTensor MemoryPool::Allocate(const Shape& shape, std::string_view what) {
  int64_t bytes = shape.bytes();
  account_.Add(bytes, derived(), what);
  // At least one byte, so that a tensor without elements is defined too.
  void* memory = ::operator new(std::max<int64_t>(bytes, 1), std::nothrow);
  if (!memory) {
    account_.Remove(bytes);
    Throw<OutOfMemory>(ErrorCode::kOutOfMemory, "{}: the host cannot allocate {} bytes for {}",
                       what, bytes, account_.device());
  }
  auto release = [this, bytes](void* p) {
    ::operator delete(p);
    account_.Remove(bytes);
  };
  return HostTensor(shape, std::shared_ptr<void>(memory, release));
}

HostTensor MemoryPool::Adopt(const HostTensor& tensor, std::string_view what) {
  int64_t bytes = tensor.bytes();
  account_.Add(bytes, derived(), what);
  auto release = [this, bytes, storage = tensor.storage()](void*) mutable {
    storage.reset();
    account_.Remove(bytes);
  };
  return HostTensor(tensor.shape(),
                    std::shared_ptr<void>(tensor.storage().get(), std::move(release)));
}

}  // namespace hammock::reference
