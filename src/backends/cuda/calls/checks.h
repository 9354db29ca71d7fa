#pragma once
/// Checks: what is to be done on a device when runs and copies have ended.

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "backends/cuda/driver/thread_streams.h"
#include "base/work_queue.h"

namespace hammock::cuda {

/// A queue for each stream, so that nobody waits for runs of others. Whoever waits for a check does
/// it, and those before it. Thread-safe.
class Checks {
 public:
  /// Streams, a bit each.
  using Mask = uint32_t;
  static Mask MaskOf(int stream) { return Mask{1} << stream; }

  explicit Checks(const std::string& device);

  void Push(int stream, WorkQueue::Task task) { QueueOf(stream).Push(std::move(task)); }
  /// Does what waits there until `done`, or until there is nothing.
  void HelpUntil(Mask streams, const std::function<bool()>& done);
  /// Waits until nothing is to be done.
  void Drain();

 private:
  WorkQueue& QueueOf(int stream) { return *queues_[static_cast<size_t>(stream)]; }

  std::array<std::unique_ptr<WorkQueue>, kMostStreams> queues_;
};

}  // namespace hammock::cuda
