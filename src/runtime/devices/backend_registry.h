#pragma once
/// Registered backends and the table of their devices.

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "hammock/device.h"
#include "hammock/lazy/backend_interface.h"
#include "runtime/devices/lane.h"

namespace hammock {

struct Step;
struct ThreadContext;

/// One device and its execution queue. Entries are never removed, so ids stay valid; an
/// unregistered backend's are inactive.
struct DeviceEntry {
  DeviceId id = kNoDevice;
  std::string type;  // "cuda"
  lazy::BackendImplInterface* backend = nullptr;
  lazy::BackendDevice device;
  std::atomic<bool> active{true};

  // Execution; see Note [Lanes] in lane.h.
  Lane lane;  // of all threads, where they have none of their own
  ThreadLanes thread_lanes;
  Turns ordered;                  // of steps with ordered effects
  RunningMemory memory;           // of a synchronous backend
  std::atomic<int> in_flight{0};  // steps of an asynchronous backend that are not finished
  std::vector<Step*> flights;     // those that it has started, guarded by the graph mutex
  int settling = 0;               // that have succeeded and are letting go; guarded likewise

  // Recently used lifted scalars by hash of their value, guarded by the graph mutex. Read-only
  // data.
  struct CachedScalar {
    Scalar value;
    BackendDataPtr data;
  };
  std::vector<CachedScalar> scalars;

  // Errors that nobody has seen yet, oldest first; a barrier or the next step of the thread that
  // recorded what failed raises each once.
  struct UnseenError {
    std::shared_ptr<const Error> error;
    const ThreadContext* owner;
  };
  std::mutex error_mutex;
  std::vector<UnseenError> unseen_errors;

  std::string name() const { return type + ":" + std::to_string(device.ordinal()); }
  DeviceEntry(DeviceId id, std::string type, lazy::BackendImplInterface* backend,
              lazy::BackendDevice device);
};

/// InternalError for an id that was never given out.
DeviceEntry& EntryOf(DeviceId id);
std::vector<DeviceEntry*> AllDevices();

/// Called by UnregisterBackend, by the executor's part: drains queues, drops cache entries, checks
/// live data.
void RetireDevices(const std::vector<DeviceEntry*>& devices, const std::string& name, bool force);

}  // namespace hammock
