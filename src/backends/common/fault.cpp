#include "backends/common/fault.h"

#include <memory>
#include <mutex>

#include "base/never_destroyed.h"

namespace hammock {
namespace fault_internal {
std::atomic<bool> fault_hook_set{false};
}  // namespace fault_internal

namespace {

struct Holder {
  std::mutex mutex;
  std::shared_ptr<const FaultHook> hook;
};

Holder& GetHolder() {
  static auto& holder = NeverDestroyed<Holder>();
  return holder;
}

}  // namespace

void SetFaultHook(FaultHook hook) {
  Holder& holder = GetHolder();
  std::lock_guard lock(holder.mutex);
  fault_internal::fault_hook_set.store(static_cast<bool>(hook), std::memory_order_relaxed);
  holder.hook = hook ? std::make_shared<const FaultHook>(std::move(hook)) : nullptr;
}

void fault_internal::CallFaultHook(FaultPoint point, std::string_view detail) {
  std::shared_ptr<const FaultHook> hook;
  {
    std::lock_guard lock(GetHolder().mutex);
    hook = GetHolder().hook;
  }
  if (hook) (*hook)(point, detail);
}

}  // namespace hammock
