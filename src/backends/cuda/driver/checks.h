#pragma once
/// Checks: work of the host that waits for runs and copies of a device to end.

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "backends/cuda/driver/thread_streams.h"
#include "base/work_queue.h"

namespace hammock::cuda {

/// A queue for each stream, so that nobody waits for runs of other streams. A thread that waits for
/// a check does it and the checks before it. Thread-safe.
class Checks {
 public:
  /// Streams, a bit each.
  using Mask = uint32_t;
  static Mask MaskOf(int stream) { return Mask{1} << stream; }

  explicit Checks(const std::string& device);

  void Push(int stream, WorkQueue::Task task) { QueueOf(stream).Push(std::move(task)); }
  /// Does the waiting checks until `done`, or until there are none.
  void HelpUntil(Mask streams, const std::function<bool()>& done);
  /// Waits until all checks are done.
  void Drain();

 private:
  WorkQueue& QueueOf(int stream) { return *queues_[stream]; }

  std::array<std::unique_ptr<WorkQueue>, kMostStreams> queues_;
};

}  // namespace hammock::cuda
