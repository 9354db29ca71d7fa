#include "plugins/watchdog.h"

#include <condition_variable>
#include <cstdint>
#include <thread>

#include "base/fork.h"

namespace hammock::plugins {

struct Watchdog::Worker {
  const uint64_t forks = ForkCount();  // its thread lives in no child of a later fork
  std::mutex mutex;
  std::condition_variable changed;
  std::function<void()> call;  // empty: it is done

  /// For ever: a thread that hangs in a call cannot be ended.
  static void Work(const std::shared_ptr<Worker>& self) {
    std::unique_lock lock(self->mutex);
    for (;;) {
      self->changed.wait(lock, [&] { return self->call != nullptr; });
      lock.unlock();
      self->call();
      lock.lock();
      self->call = nullptr;
      self->changed.notify_all();
    }
  }
};

bool Watchdog::Run(std::function<void()> call, std::chrono::milliseconds most) {
  std::shared_ptr<Worker> worker;
  {
    std::lock_guard lock(mutex_);
    while (!worker && !idle_.empty()) {
      worker = std::move(idle_.back());
      idle_.pop_back();
      if (worker->forks != ForkCount()) worker = nullptr;  // kept by what its thread left behind
    }
  }
  if (!worker) {
    worker = std::make_shared<Worker>();
    std::thread(Worker::Work, worker).detach();
  }
  std::unique_lock lock(worker->mutex);
  worker->call = std::move(call);
  worker->changed.notify_all();
  if (!worker->changed.wait_for(lock, most, [&] { return worker->call == nullptr; })) return false;
  lock.unlock();
  std::lock_guard idle(mutex_);
  idle_.push_back(std::move(worker));
  return true;
}

}  // namespace hammock::plugins
