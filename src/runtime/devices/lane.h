#pragma once
/// Where the steps of a device run, and what keeps those that run at once within its memory.
///
/// Note [Lanes]: a lane runs steps one after another, in the order in which they were claimed. A
/// synchronous backend that runs several computations at once has a lane for each thread that uses
/// the device, so that steps of different threads wait only for their arguments; other backends
/// have one lane. Steps are claimed under the graph mutex and depend only on steps that were
/// claimed before them, in whatever lane: of all steps that are not done the first one can always
/// run, so lanes never wait for each other in a circle.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/work_queue.h"

namespace hammock {

struct DeviceEntry;

/// A number that threads wait for: each goes on when those with lower numbers are done.
class Turns {
 public:
  uint64_t Take() { return next_++; }  ///< with the graph mutex held

  /// The turn with that number; passes it on at the end of the scope.
  class Turn {
   public:
    Turn(Turns& turns, uint64_t number);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    Turns& turns_;
    const uint64_t number_;
  };

 private:
  uint64_t next_ = 0;  // guarded by the graph mutex
  std::atomic<uint64_t> now_{0};
};

/// Never destroyed.
struct Lane {
  explicit Lane(const std::string& name);

  std::mutex running;  // held by whoever runs one of its steps
  Turns submitting;    // steps are submitted in the order in which they were claimed
  std::atomic<int> queued{0};
  WorkQueue queue;

  /// Waits until nothing is queued or runs.
  void Drain();
};

/// The lanes of a device that threads have for themselves. Thread-safe.
class ThreadLanes {
 public:
  /// The calling thread's. When it ends another thread may take the lane over.
  Lane& Mine(const DeviceEntry& device);
  std::vector<Lane*> All();

 private:
  friend struct LanesOfThread;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Lane>> all_;
  std::vector<Lane*> free_;
};

/// The memory that the computations running on a device may take.
class RunningMemory {
 public:
  /// One of those computations. The constructor waits, in the order of arrival, until `bytes` fit
  /// in addition to the others, or there are none: within the limit, else within the memory that
  /// the device says it has, else within what the host has available, if they are not little. Where
  /// there is a limit, 0 bytes, which are not known, fit only alone.
  /// A computation inside of another is not counted: it would wait for itself. Nor is one of an
  /// asynchronous device, which takes and reuses memory in its own order.
  class Use {
   public:
    Use(DeviceEntry& device, int64_t bytes, bool inside);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    /// Waits until no others run, and keeps it so; false if none ran concurrently.
    bool BecomeAlone();

   private:
    DeviceEntry& device_;
    int64_t bytes_;
    const bool counted_;
    bool beside_others_ = false;  // when it began
    uint64_t number_ = 0;         // among those that were let in
  };

 private:
  static constexpr int64_t kAll = int64_t{1} << 62;

  void Enter(std::unique_lock<std::mutex>& lock, const DeviceEntry& device, int64_t bytes);
  void Leave(int64_t bytes);
  bool Fits(const DeviceEntry& device, int64_t bytes) const;

  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t arrived_ = 0, let_in_ = 0;
  int running_ = 0;
  int64_t bytes_ = 0;
};

/// Where the calling thread's steps of a device run.
Lane& LaneOf(DeviceEntry& device);
/// All lanes of a device.
std::vector<Lane*> LanesOf(DeviceEntry& device);

}  // namespace hammock
