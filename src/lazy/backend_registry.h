#pragma once
/// Registered backends and the table of their devices.

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/work_queue.h"
#include "hammock/device.h"
#include "hammock/lazy/backend_interface.h"

namespace hammock {

struct ThreadContext;

/// One device and its execution queue. Entries are never removed, so ids stay valid; an
/// unregistered backend's are inactive.
struct DeviceEntry {
  DeviceId id = kNoDevice;
  std::string type;  // "cuda"
  lazy::BackendImplInterface* backend = nullptr;
  lazy::BackendDevice device;
  std::atomic<bool> active{true};

  // Execution. A synchronous backend runs one computation at a time per device: whoever holds
  // `running`.
  std::mutex running;
  // Steps are submitted in the order in which they were claimed, so that no step waits for one that
  // comes behind it.
  uint64_t claimed = 0;  // guarded by the graph mutex
  std::atomic<uint64_t> submitted{0};
  std::unique_ptr<WorkQueue> queue;
  std::atomic<int> in_flight{0};  // steps of an asynchronous backend that are not finished
  std::atomic<int> queued{0};

  // Recently used lifted scalars by hash of their value, guarded by the graph mutex. Read-only
  // data.
  struct CachedScalar {
    Scalar value;
    BackendDataPtr data;
  };
  std::vector<CachedScalar> scalars;

  // Errors that nobody has seen yet, oldest first; a barrier raises each once, or the next step of
  // the thread that recorded what failed.
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

/// The backends that come with the library, in order of preference; see src/backends/table.cpp.
std::vector<lazy::BackendImplInterface*> InTreeBackends();

/// Those that could come with the library and do not work here, with the reason; see the same file.
std::vector<lazy::AbsentBackend> AbsentInTreeBackends();

/// Runs a graph of primitives on host tensors, for passes that fold; see src/backends/table.cpp.
std::vector<HostTensor> EvaluateOnHost(const Graph& graph, std::span<const HostTensor> inputs);

/// Called by UnregisterBackend, by the executor's part: drains queues, drops cache entries, checks
/// live data.
void RetireDevices(const std::vector<DeviceEntry*>& devices, const std::string& name, bool force);

}  // namespace hammock
