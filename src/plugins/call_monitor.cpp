#include "plugins/call_monitor.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/fork.h"
#include "base/never_destroyed.h"
#include "plugins/plugin_calls.h"

namespace hammock::plugins::monitor {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kNotStarted = UINT64_MAX;

struct State {
  std::atomic<uint64_t> started_at_fork{kNotStarted};
  std::mutex mutex;
  std::vector<std::unique_ptr<ThreadCalls>> threads;
  std::vector<ThreadCalls*> free;  // of threads that have ended
  std::vector<const PluginBackend*> plugins;
};

State& GetState() {
  static auto& state = NeverDestroyed<State>();
  return state;
}

/// Of threads that are ending, whose own is that of another thread by then.
constinit ThreadCalls unwatched;

/// The function in which a thread hangs; null: it does not. A call that is still the one that was
/// seen before is slow.
const Pace* HangingIn(ThreadCalls& thread, Clock::time_point now, std::chrono::milliseconds most) {
  const uint64_t number = thread.number.load(std::memory_order_acquire);
  Pace* running = thread.running.load(std::memory_order_acquire);
  if (thread.number.load(std::memory_order_relaxed) != number || !running) return nullptr;
  if (thread.seen != number) {
    thread.seen = number;
    thread.since = now;
    return nullptr;
  }
  running->NoteSlow();
  return now - thread.since > most ? running : nullptr;
}

void Look(State& state) {
  const auto now = Clock::now();
  const std::chrono::milliseconds most = Timeout();
  if (most.count() == 0) return;
  std::vector<const Pace*> hanging;
  std::vector<const PluginBackend*> plugins;
  {
    std::lock_guard lock(state.mutex);
    for (const auto& thread : state.threads) {
      if (const Pace* function = HangingIn(*thread, now, most)) hanging.push_back(function);
    }
    plugins = state.plugins;
  }
  // Waiters are told without the lock: what they do then may call plug-ins.
  for (const Pace* pace : hanging) pace->plugin.Lose(pace->function, most.count());
  for (const PluginBackend* plugin : plugins) plugin->LoseIfResultsAreLate(now, most);
}

/// For ever, concurrent with all other threads.
void Run(State& state) {
  using std::chrono::milliseconds;
  for (;;) {
    Look(state);
    const milliseconds timeout = Timeout();
    const milliseconds pause = std::clamp(timeout / 4, milliseconds(10), milliseconds(250));
    std::this_thread::sleep_for(timeout.count() > 0 ? pause : milliseconds(250));
  }
}

/// With the mutex locked.
void Start(State& state) {
  if (state.started_at_fork == ForkCount()) return;
  // Calls of threads that a fork has left behind do not hang here.
  for (const auto& thread : state.threads) {
    if (thread.get() != this_thread) thread->running = nullptr;
  }
  std::thread([&state] { Run(state); }).detach();
  state.started_at_fork = ForkCount();
}

}  // namespace

ThreadCalls& AddThread() {
  struct AtEnd {
    ~AtEnd() {
      State& state = GetState();
      std::lock_guard lock(state.mutex);
      state.free.push_back(std::exchange(this_thread, &unwatched));
    }
  };
  static thread_local AtEnd at_end;
  State& state = GetState();
  std::lock_guard lock(state.mutex);
  if (state.free.empty()) {
    this_thread = state.threads.emplace_back(std::make_unique<ThreadCalls>()).get();
  } else {
    this_thread = state.free.back();
    state.free.pop_back();
  }
  return *this_thread;
}

void Watch(const PluginBackend& plugin) {
  State& state = GetState();
  std::lock_guard lock(state.mutex);
  Start(state);
  state.plugins.push_back(&plugin);
}

void KeepRunning() {
  State& state = GetState();
  if (state.started_at_fork.load(std::memory_order_relaxed) == ForkCount()) return;
  std::lock_guard lock(state.mutex);
  Start(state);
}

}  // namespace hammock::plugins::monitor
