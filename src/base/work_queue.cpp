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
  explicit State(std::string name_in, size_t capacity_in)
      : name(std::move(name_in)), capacity(capacity_in) {}

  bool Idle() const { return tasks.empty() && !running; }

  /// Runs the first task without the lock.
  void RunFirst(std::unique_lock<std::mutex>& lock) {
    Task task = std::move(tasks.front());
    tasks.pop_front();
    running = true;
    space.notify_one();
    lock.unlock();
    const void* outer = std::exchange(running_queue, this);
    RunLogged(name, task);
    task = nullptr;  // what it holds is released before it counts as done
    running_queue = outer;
    lock.lock();
    running = false;
    if (tasks.empty()) idle.notify_all();
  }

  const std::string name;
  std::atomic<uint64_t> started_at_fork{kNotStarted};
  mutable std::mutex mutex;
  std::condition_variable work;   // a task was added, or the queue stops
  std::condition_variable space;  // a task was taken, or the queue stops
  std::condition_variable idle;   // nothing waits or runs
  std::deque<Task> tasks;
  size_t capacity;
  bool running = false;
  bool stopping = false;
  std::thread thread;
};

WorkQueue::WorkQueue(std::string name, size_t capacity)
    : name_(std::move(name)),
      state_(std::make_unique<State>(name_, std::max<size_t>(capacity, 1))) {
  ForkCount();  // from now on forks are counted
}

WorkQueue::~WorkQueue() {
  Stop();
  // In the child of a fork the lock and the thread are not ours; in a task the thread is this one,
  // which is leaving by exit().
  if (Forked() || InTask()) (void)state_.release();
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
    s.space.wait(lock, [&] { return s.tasks.size() < s.capacity || s.stopping; });
    if (s.stopping) return RunHere(lock, std::move(task));
  }
  if (!s.thread.joinable() && !s.stopping) {
    s.thread = std::thread([&s] { Work(s); });
    s.started_at_fork.store(ForkCount(), std::memory_order_relaxed);
  }
  s.tasks.push_back(std::move(task));
  s.work.notify_one();
}

void WorkQueue::RunHere(std::unique_lock<std::mutex>& lock, Task task) {
  State& s = *state_;
  s.idle.wait(lock, [&] { return s.Idle(); });
  s.tasks.push_back(std::move(task));
  while (!s.tasks.empty()) s.RunFirst(lock);  // the task may have added some
}

void WorkQueue::Work(State& s) {
  pthread_setname_np(pthread_self(), s.name.substr(0, 15).c_str());
  std::unique_lock lock(s.mutex);
  while (true) {
    s.work.wait(lock, [&] { return !s.tasks.empty() || s.stopping; });
    // Where another thread is running a task, in `RunHere`, it goes on with the others too.
    if (s.tasks.empty() || s.running) return;
    s.RunFirst(lock);
  }
}

void WorkQueue::Drain() {
  ThrowIfForked();
  if (InTask()) return;
  std::unique_lock lock(state_->mutex);
  state_->idle.wait(lock, [&] { return state_->Idle(); });
}

void WorkQueue::Stop() {
  if (Forked()) return;
  State& s = *state_;
  std::thread thread;
  {
    std::unique_lock lock(s.mutex);
    s.stopping = true;
    s.work.notify_all();
    s.space.notify_all();
    // A task that stops its queue, as in a call of exit(), cannot wait for itself.
    if (InTask()) return;
    s.idle.wait(lock, [&] { return s.Idle(); });
    thread = std::move(s.thread);
  }
  if (thread.joinable()) thread.join();
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
