#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

namespace hammock {

/// A bounded queue whose tasks one thread runs in order. The thread starts with the first task. All
/// functions may be called from any thread, also by tasks.
///
/// With a `grace_period` the thread leaves each task that long to those who wait for it: they run
/// tasks themselves, one at a time and in order as before, which spares them a change of threads.
/// So does a `Push` into a full queue.
///
/// Tasks handle their own errors; one that escapes is logged and the next task runs. After `Stop`,
/// `Push` runs the task on the calling thread, in turn, so that nothing is lost while a process
/// exits. In the child of a fork the thread is gone: if it had been started, `Push` and `Drain`
/// throw DeviceError (kForked), and the destructor abandons what was waiting.
class WorkQueue {
 public:
  using Task = std::function<void()>;
  using TimePoint = std::chrono::steady_clock::time_point;

  /// `name` is for messages and debuggers.
  WorkQueue(std::string name, size_t capacity, std::chrono::microseconds grace_period = {});
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  /// Appends a task; waits while `capacity` tasks are waiting. A task that pushes never waits,
  /// since it would wait for itself.
  void Push(Task task);

  /// Waits until no task is waiting or running. In a task it returns at once.
  void Drain();

  /// With a grace period: runs tasks until `done`, or until there are none. In a task it returns at
  /// once.
  void HelpUntil(const std::function<bool()>& done);

  /// Runs all tasks that are waiting and ends the thread. Where that takes until `end` it returns
  /// false, and the thread goes on. May be called again.
  bool Stop(TimePoint end = TimePoint::max());

  /// Tasks that wait or run.
  size_t size() const;

  void SetCapacity(size_t capacity);

  /// Whether the calling thread is running one of this queue's tasks.
  bool InTask() const;

 private:
  struct State;

  static void Work(State& state);
  void RunHere(std::unique_lock<std::mutex>& lock, Task task);
  bool Forked() const;
  void ThrowIfForked() const;

  const std::string name_;
  std::unique_ptr<State> state_;
};

}  // namespace hammock
