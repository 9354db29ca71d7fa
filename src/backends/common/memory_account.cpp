#include "backends/common/memory_account.h"

#include "base/throw.h"

namespace hammock {

void MemoryAccount::Add(int64_t bytes, int64_t others, std::string_view what) {
  int64_t total = in_use_.fetch_add(bytes, std::memory_order_relaxed) + bytes + others;
  int64_t limit = this->limit();
  if (limit > 0 && total > limit) {
    Remove(bytes);
    Throw<OutOfMemory>(ErrorCode::kOutOfMemory,
                       "{}: {} bytes exceed the limit of {} bytes on {}, {} are in use", what,
                       bytes, limit, device_, total - bytes);
  }
  int64_t peak = this->peak();
  while (total > peak && !peak_.compare_exchange_weak(peak, total, std::memory_order_relaxed)) {
  }
}

}  // namespace hammock
