#pragma once
/// CallMonitor: notices calls of plug-ins that do not return.
///
/// Note [Hanging calls]: a call that hangs cannot be interrupted. Its waiters can only be raised if
/// another thread makes it, which costs some microseconds (watchdog.h). So calls that a step makes
/// (`execute`, `upload`, `download`, `release`, `hurry`, `memory_info`) are made by the thread
/// itself while they are quick, and by a thread of the Watchdog else; all others always by the
/// Watchdog. A quick function that hangs all the same is noticed by the monitor: the device is lost
/// for everybody, and only the thread inside of the call stays there.
///
/// Quick calls are not timed: a call leaves a mark in a slot of its thread, and the monitor looks
/// at the slots once in a while. Every 32nd call is timed to see whether the function still is
/// quick.

#include <atomic>
#include <chrono>
#include <cstdint>

namespace hammock::plugins {

class PluginBackend;

/// A function of a plug-in, and how long its calls take. Thread-safe.
class Pace {
 public:
  Pace(const PluginBackend& plugin, const char* function) : plugin(plugin), function(function) {}
  const PluginBackend& plugin;
  const char* const function;

  enum class Way { kHere, kHereTimed, kElsewhere };

  Way Next() {
    const uint32_t number = calls_.load(std::memory_order_relaxed);
    calls_.store(number + 1, std::memory_order_relaxed);  // one that is lost does not matter
    if (!quick_.load(std::memory_order_relaxed)) return Way::kElsewhere;
    return number % 32 == 0 ? Way::kHereTimed : Way::kHere;
  }
  void Note(std::chrono::nanoseconds duration) {
    quick_.store(duration < kQuick, std::memory_order_relaxed);
  }
  void NoteSlow() { quick_.store(false, std::memory_order_relaxed); }

 private:
  static constexpr std::chrono::microseconds kQuick{50};
  std::atomic<uint32_t> calls_{0};
  std::atomic<bool> quick_{false};  // not known yet
};

namespace monitor {

/// The call that a thread is in; read by the monitor. Never freed: threads that end leave theirs to
/// others. Calls of destructors at the end of a thread are not watched.
struct ThreadCalls {
  std::atomic<Pace*> running{nullptr};
  std::atomic<uint64_t> number{0};  // of calls, nested ones too
  // Of the monitor.
  uint64_t seen = 0;
  std::chrono::steady_clock::time_point since;
};
inline constinit thread_local ThreadCalls* this_thread = nullptr;
ThreadCalls& AddThread();

/// While one lives, the thread is in a call.
class InCall {
 public:
  explicit InCall(Pace& pace)
      : own_(this_thread ? *this_thread : AddThread()),
        outer_(own_.running.load(std::memory_order_relaxed)) {
    Set(&pace);
  }
  ~InCall() { Set(outer_); }
  InCall(const InCall&) = delete;
  InCall& operator=(const InCall&) = delete;

 private:
  void Set(Pace* pace) {
    // Whoever sees the call sees the number of the one before it too.
    own_.running.store(pace, std::memory_order_release);
    own_.number.store(own_.number.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }

  ThreadCalls& own_;
  Pace* const outer_;
};

/// Has the monitor look at the plug-in's calls and pending results from now on. It lives for ever.
void Watch(const PluginBackend& plugin);
/// Starts the monitor in the child of a fork, where its thread does not live on.
void KeepRunning();

}  // namespace monitor
}  // namespace hammock::plugins
