#include "runtime/step/closures.h"

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "base/fork.h"
#include "base/location_scope.h"
#include "base/log.h"
#include "base/of_thread.h"
#include "base/process_exit.h"
#include "base/throw.h"
#include "base/work_queue.h"
#include "hammock/config.h"
#include "hammock/executor.h"

namespace hammock {

namespace {

using Closure = std::function<void()>;

struct Waiting {
  std::deque<Closure> sync;
  std::deque<Closure> async;
};

/// The thread of asynchronous closures, and the first error that none of the steps has raised.
class AsyncClosures {
 public:
  static AsyncClosures& Get() {
    static AsyncClosures* instance = [] {
      process_exit::Register(process_exit::Stage::kClosures, [] { Get().Finish(); });
      return new AsyncClosures;
    }();
    return *instance;
  }

  void Push(Closure closure) {
    queue_.SetCapacity(static_cast<size_t>(config::Get<config::kMaxAsyncQueue>()));
    const bool before_exit = !process_exit::Begun();
    queue_.Push([this, before_exit, closure = std::move(closure)] { Run(closure, before_exit); });
  }

  void Drain() { queue_.Drain(); }

  void RaiseError() {
    std::shared_ptr<const Error> error;
    {
      std::lock_guard lock(mutex_);
      error = std::exchange(error_, nullptr);
    }
    if (error) error->Raise();
  }

 private:
  void Run(const Closure& closure, bool before_exit) {
    if (before_exit && std::chrono::steady_clock::now() > process_exit::GraceEnd()) return;
    try {
      closure();
    } catch (const Error& error) {
      Keep(error.code(), error.message(), error.where());
    } catch (const std::exception& error) {
      Keep(ErrorCode::kValue, error.what());
    } catch (...) {
      Keep(ErrorCode::kValue, "unknown exception");
    }
  }

  void Keep(ErrorCode code, const std::string& message, const std::string& where = "") {
    std::lock_guard lock(mutex_);
    if (error_) return;
    ValueError error(
        code, "step closure: cannot run asynchronous closure due to previously raised exception: " +
                  message);
    error.SetWhere(where);
    error_ = error.Clone();
  }

  void Finish() {
    if (forks_ != ForkCount()) return;  // neither the thread nor the mutex is this process's
    if (!queue_.Stop(process_exit::GraceEnd())) {
      Log(LogLevel::kWarn,
          "at exit, {} step closure(s) had not ended after {} ms and were left out", queue_.size(),
          process_exit::kGrace.count());
    }
    std::lock_guard lock(mutex_);
    if (error_) Log(LogLevel::kWarn, "at exit, never raised: {}", error_->what());
  }

  const uint64_t forks_ = ForkCount();
  WorkQueue queue_{"step closures", 100};
  std::mutex mutex_;
  std::shared_ptr<const Error> error_;
};

std::atomic<bool> async_used{false};

}  // namespace

void add_step_closure(std::function<void()> fn, bool run_async, Location at) {
  LocationScope scope(at);
  if (!fn) Throw(ErrorCode::kValue, "add_step_closure: the function is empty");
  Waiting& waiting = OfThread<Waiting>();
  (run_async ? waiting.async : waiting.sync).push_back(std::move(fn));
}

void PushAsyncClosure(std::function<void()> fn) {
  async_used.store(true, std::memory_order_release);
  AsyncClosures::Get().Push(std::move(fn));
}

void RunStepClosures() {
  if (async_used.load(std::memory_order_acquire)) AsyncClosures::Get().RaiseError();
  Waiting& waiting = OfThread<Waiting>();
  if (waiting.sync.empty() && waiting.async.empty()) return;
  while (!waiting.async.empty()) {
    Closure closure = std::move(waiting.async.front());
    waiting.async.pop_front();
    PushAsyncClosure(std::move(closure));
  }
  // A closure that a closure adds waits for the next step.
  std::deque<Closure> running = std::exchange(waiting.sync, {});
  try {
    while (!running.empty()) {
      Closure closure = std::move(running.front());
      running.pop_front();
      CallUser(closure);
    }
  } catch (...) {
    for (Closure& closure : waiting.sync) running.push_back(std::move(closure));
    waiting.sync = std::move(running);
    throw;
  }
}

void DrainStepClosures() {
  if (async_used.load(std::memory_order_acquire)) AsyncClosures::Get().Drain();
}

}  // namespace hammock
