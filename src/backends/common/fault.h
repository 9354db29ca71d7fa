#pragma once
/// Fault injection, for tests of backends that fail. The hook is called at every point below and
/// throws where the test wants a failure.
///
///   ScopedFault fault([](FaultPoint point, std::string_view detail) {
///     if (point == FaultPoint::kExecute && detail == "mul") throw DeviceError(...);
///   });

#include <atomic>
#include <functional>
#include <string_view>

#include "hammock/export.h"

namespace hammock {

/// The points at which the hook is called, and `detail` there.
enum class FaultPoint {
  kLower,     ///< the computation's name
  kCompile,   ///< the computation's name
  kAllocate,  ///< the op whose result it is, or "upload"
  kExecute,   ///< the op, before each node
  kUpload,    ///< the type, such as "f32[2,3]"
  kDownload,  ///< the type
};

using FaultHook = std::function<void(FaultPoint, std::string_view detail)>;

/// Process-wide; an empty function removes it. Thread-safe: a call in flight on another
/// thread keeps the hook that it found.
HAMMOCK_API void SetFaultHook(FaultHook hook);

namespace fault_internal {
extern std::atomic<bool> fault_hook_set;
void CallFaultHook(FaultPoint point, std::string_view detail);
}  // namespace fault_internal

inline bool FaultHookSet() {
  return fault_internal::fault_hook_set.load(std::memory_order_relaxed);
}

/// Calls the hook, if there is one.
inline void MaybeFail(FaultPoint point, std::string_view detail) {
  if (FaultHookSet()) [[unlikely]]
    fault_internal::CallFaultHook(point, detail);
}

/// Sets a hook for a scope.
class ScopedFault {
 public:
  explicit ScopedFault(FaultHook hook) { SetFaultHook(std::move(hook)); }
  ~ScopedFault() { SetFaultHook(nullptr); }
  ScopedFault(const ScopedFault&) = delete;
  ScopedFault& operator=(const ScopedFault&) = delete;
};

}  // namespace hammock
