#include "base/work_queue.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <thread>
#include <utility>

#include "base/fork.h"
#include "base/log.h"
#include "base/process_exit.h"
#include "base/throw.h"

namespace hammock {
namespace {

constexpr uint64_t kNotStarted = UINT64_MAX;

/// The state of the queue whose task this thread is running.
constinit thread_local const void* running_queue = nullptr;

void RunLogged(const std::string& name, const WorkQueue::Task& task) {
  try {
    task();
  } catch (const std::exception& error) {
    Log(LogLevel::kError, "{}: a task failed: {}", name, error.what());
  } catch (...) {
    Log(LogLevel::kError, "{}: a task failed with an unknown error", name);
  }
}

}  // namespace

// Apart from the queue, so that the child of a fork can leave it behind: its mutex may be locked
// and its thread does not exist.
struct WorkQueue::State {
  State(std::string name_in, size_t capacity_in, std::chrono::microseconds grace_period_in)
      : name(std::move(name_in)), grace_period(grace_period_in), capacity(capacity_in) {}

  bool Idle() const { return tasks.empty() && !running; }
  bool helped() const { return grace_period.count() > 0; }

  /// Runs the first task without the lock.
  void RunFirst(std::unique_lock<std::mutex>& lock) {
    Task task = std::move(tasks.front());
    tasks.pop_front();
    ++taken;
    running = true;
    space.notify_one();
    lock.unlock();
    const void* outer = std::exchange(running_queue, this);
    RunLogged(name, task);
    task = nullptr;  // what it holds is released before it counts as done
    running_queue = outer;
    lock.lock();
    running = false;
    ++finished;
    ended.notify_all();
  }

  /// Waits until `done`; runs tasks meanwhile if that is how it is done here. False if it is not
  /// done by `end`.
  template <class Done>
  bool WaitUntil(std::unique_lock<std::mutex>& lock, const Done& done,
                 TimePoint end = TimePoint::max()) {
    while (!done()) {
      if (helped() && !running && !tasks.empty()) {
        RunFirst(lock);
      } else if (end == TimePoint::max()) {
        ended.wait(lock);
      } else if (ended.wait_until(lock, end) == std::cv_status::timeout) {
        return done();
      }
    }
    return true;
  }

  /// The thread's wait for the next tasks. It then runs one, and goes on up to the one with the
  /// number that is returned.
  uint64_t WaitForWork(std::unique_lock<std::mutex>& lock) {
    auto some = [&] { return !tasks.empty() || stopping; };
    if (!helped()) {
      work.wait(lock, some);
      return 0;
    }
    while (true) {
      const uint64_t due = pushed;
      work.wait_for(lock, grace_period, [&] { return stopping; });
      if (stopping || (taken < due && !running)) return due;
      // While tasks come it looks now and then, so that nobody has to wake it.
      if (pushed != due || !tasks.empty()) continue;
      asleep = true;
      work.wait(lock, some);
      asleep = false;
    }
  }

  const std::string name;
  const std::chrono::microseconds grace_period;
  std::atomic<uint64_t> started_at_fork{kNotStarted};
  mutable std::mutex mutex;
  std::condition_variable work;   // a task was added, or the queue stops
  std::condition_variable space;  // a task was taken, or the queue stops
  std::condition_variable ended;  // a task has ended
  std::deque<Task> tasks;
  size_t capacity;
  uint64_t pushed = 0;  // tasks, ever, but for those that were pushed when the queue had stopped
  uint64_t taken = 0, finished = 0;  // all tasks
  bool asleep = false;               // the thread, until it is told of a task
  bool running = false;
  bool stopping = false;
  bool is_left = false;  // by its queue, which a task has destroyed: the thread deletes it
  std::thread thread;
};

WorkQueue::WorkQueue(std::string name, size_t capacity, std::chrono::microseconds grace_period)
    : name_(std::move(name)),
      state_(std::make_unique<State>(name_, std::max<size_t>(capacity, 1), grace_period)) {
  ForkCount();  // from now on forks are counted
}

WorkQueue::~WorkQueue() {
  Stop();
  // In the child of a fork the lock and the thread are not ours.
  if (Forked()) (void)state_.release();
  if (!state_ || !InTask()) return;
  // A task has held the last reference to the queue's owner, or is leaving by exit().
  State& s = *state_.release();
  std::lock_guard lock(s.mutex);
  if (s.thread.get_id() != std::this_thread::get_id()) return;
  s.is_left = true;
  s.thread.detach();
}

bool WorkQueue::Forked() const {
  uint64_t started = state_->started_at_fork.load(std::memory_order_relaxed);
  return started != kNotStarted && started != ForkCount();
}

void WorkQueue::ThrowIfForked() const {
  if (!Forked()) return;
  Throw<DeviceError>(ErrorCode::kForked,
                     "{}: its thread did not survive the fork; start the runtime after forking",
                     name_);
}

bool WorkQueue::InTask() const { return running_queue == state_.get(); }

void WorkQueue::Push(Task task) {
  ThrowIfForked();
  State& s = *state_;
  std::unique_lock lock(s.mutex);
  if (!InTask()) {
    auto has_space = [&] { return s.tasks.size() < s.capacity || s.stopping; };
    if (s.helped()) {
      s.WaitUntil(lock, has_space);
    } else {
      s.space.wait(lock, has_space);
    }
    if (s.stopping) return RunHere(lock, std::move(task));
  }
  if (!s.thread.joinable() && !s.stopping) {
    s.thread = std::thread([&s] { Work(s); });
    s.started_at_fork.store(ForkCount(), std::memory_order_relaxed);
  }
  s.tasks.push_back(std::move(task));
  ++s.pushed;
  if (!s.helped() || s.asleep) s.work.notify_one();
}

void WorkQueue::RunHere(std::unique_lock<std::mutex>& lock, Task task) {
  State& s = *state_;
  s.WaitUntil(lock, [&] { return s.Idle(); });
  s.tasks.push_back(std::move(task));
  while (!s.tasks.empty()) s.RunFirst(lock);  // the task may have added some
}

void WorkQueue::Work(State& s) {
  pthread_setname_np(pthread_self(), s.name.substr(0, 15).c_str());
  process_exit::WatchThread();
  std::unique_lock lock(s.mutex);
  while (true) {
    const uint64_t due = s.WaitForWork(lock);
    // Where another thread is running a task while the queue stops, it goes on with the others too.
    if (s.tasks.empty() || s.running) break;
    do {
      s.RunFirst(lock);
    } while (s.taken < due && !s.running && !s.tasks.empty());
  }
  lock.unlock();
  if (s.is_left) delete &s;
}

void WorkQueue::Drain() {
  ThrowIfForked();
  if (InTask()) return;
  std::unique_lock lock(state_->mutex);
  state_->WaitUntil(lock, [&] { return state_->Idle(); });
}

void WorkQueue::HelpUntil(const std::function<bool()>& done) {
  ThrowIfForked();
  if (InTask()) return;
  std::unique_lock lock(state_->mutex);
  state_->WaitUntil(lock, [&] { return state_->Idle() || done(); });
}

bool WorkQueue::Stop(TimePoint end) {
  if (Forked()) return true;
  State& s = *state_;
  std::thread thread;
  {
    std::unique_lock lock(s.mutex);
    s.stopping = true;
    s.work.notify_all();
    s.space.notify_all();
    // A task that stops its queue, as in a call of exit(), cannot wait for itself.
    if (InTask()) return true;
    // Others may push for ever: what they push now is theirs to run.
    if (!s.WaitUntil(
            lock, [&] { return s.finished >= s.pushed; }, end))
      return false;
    thread = std::move(s.thread);
  }
  if (thread.joinable()) thread.join();
  return true;
}

size_t WorkQueue::size() const {
  if (Forked()) return 0;
  std::lock_guard lock(state_->mutex);
  return state_->tasks.size() + (state_->running ? 1 : 0);
}

void WorkQueue::SetCapacity(size_t capacity) {
  if (Forked()) return;
  std::lock_guard lock(state_->mutex);
  state_->capacity = std::max<size_t>(capacity, 1);
  state_->space.notify_all();
}

}  // namespace hammock
