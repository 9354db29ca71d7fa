#include "base/process_exit.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdint>
#include <utility>

namespace hammock::process_exit {
namespace {

constinit std::atomic<void (*)()> stages[static_cast<size_t>(Stage::kCount)] = {};
constinit std::atomic<int64_t> began_at{0};  // ticks of the clock; 0: not yet
constinit std::atomic<bool> ended{false};
constinit thread_local bool ends_process = false;
constinit std::atomic<int> status{0};
constinit std::atomic<bool> cancel{false};

// Of all threads, and of this one.
constinit std::atomic<uint32_t> all_runs{0};
constinit std::atomic<uint32_t> runs_before_exit{0};
constinit thread_local uint32_t own_runs = 0;
constinit thread_local uint32_t own_runs_before_exit = 0;
constinit thread_local const Run* current_run = nullptr;

// Bits, from the lowest: calls that run, threads in `Writing`, two flags, calls ever begun.
constexpr uint64_t kOneCall = (uint64_t{1} << 32) + 1;
constexpr uint64_t kOneWriter = uint64_t{1} << 16;
constexpr uint64_t kCalls = kOneWriter - 1, kWriters = 0x3fff * kOneWriter;
constexpr uint64_t kClosing = uint64_t{1} << 30;  // for whoever has not written in place
constexpr uint64_t kClosed = uint64_t{1} << 31;   // for all
constinit std::atomic<uint64_t> library_calls{uint64_t{1} << 32};
constinit thread_local uint64_t own_library_calls = 0;
constinit thread_local int own_writers = 0;  // nested ones too

TimePoint AfterBegin(std::chrono::milliseconds delay) {
  int64_t begin = began_at.load(std::memory_order_acquire);
  if (begin == 0) return TimePoint::max();
  return TimePoint(TimePoint::duration(begin)) + delay;
}

/// Calls that have begun are waited for without a limit: they end soon, most of them cancelled, and
/// crash if the library is gone. Runs that write in place need more of them.
void CloseLibraries() {
  library_calls.fetch_or(kClosing);
  if (own_writers > 0) library_calls.fetch_sub(kOneWriter);  // this thread writes no more
  PollUntil(Limit() + kWriting, [] { return (library_calls.load() & kWriters) == 0; });
  library_calls.fetch_or(kClosed);
  PollUntil(TimePoint::max(), [] { return (library_calls.load() & kCalls) == own_library_calls; });
}

void AtExit(int code, void*) {
  ends_process = true;
  status.store(code);
  int64_t none = 0;
  int64_t now = std::chrono::steady_clock::now().time_since_epoch().count();
  if (!began_at.compare_exchange_strong(none, now)) {
    // Another thread may have called exit() too: what comes next must not overtake the handler.
    PollUntil(Limit(), [] { return ended.load(); });
    return;
  }
  for (auto& stage : stages) {
    if (auto end = stage.load(std::memory_order_acquire)) end();
  }
  CloseLibraries();
  ended.store(true);
}

/// In the child of a fork only the calling thread exists.
void AfterFork() {
  all_runs.store(own_runs);
  runs_before_exit.store(own_runs_before_exit);
  const uint64_t writers = own_writers > 0 ? kOneWriter : 0;
  library_calls.store((uint64_t{1} << 32) + writers + own_library_calls);
}

/// Ends the process at once, its output whole.
[[noreturn]] void EndNow() {
  fcloseall();
  _exit(status.load());
}

struct AtThreadEnd {
  ~AtThreadEnd() { on_exit(AtExit, nullptr); }
};

/// The thread that loads the library is the main one in most programs, and may never use it.
[[maybe_unused]] const bool watching = [] {
  WatchThread();
  pthread_atfork(nullptr, nullptr, AfterFork);
  return true;
}();

/// All handlers and destructors of static objects have run; the next thing to go are libraries. A
/// run that could not be stopped must not see that.
[[gnu::destructor]] void LeaveRuns() {
  if (all_runs.load() != own_runs) EndNow();
}

}  // namespace

void Register(Stage stage, void (*end)()) {
  stages[static_cast<size_t>(stage)].store(end, std::memory_order_release);
  ComeFirst();
}

// The C library keeps every registration, so it is not repeated where nothing was called since.
void ComeFirst() {
  static constinit std::atomic<uint32_t> first_at{0};
  auto calls = static_cast<uint32_t>(library_calls.load() >> 32);
  if (first_at.exchange(calls) != calls) on_exit(AtExit, nullptr);
}

void WatchThread() {
  static thread_local AtThreadEnd at_end;
  (void)at_end;
}

bool Begun() { return began_at.load(std::memory_order_acquire) != 0; }
TimePoint GraceEnd() { return AfterBegin(kGrace); }
TimePoint Limit() { return AfterBegin(kLimit); }
void CancelRuns() { cancel.store(true); }

Cancelled::Cancelled()
    : ErrorKind(ErrorCode::kExecute, "the computation was stopped because the process ends") {}

void AwaitEndIfCancelled(const Error& error) {
  // Destructors of static objects may wait for this thread, so not for ever.
  constexpr std::chrono::seconds kGracePeriod{10};
  if (ends_process || !Begun() || !dynamic_cast<const Cancelled*>(&error)) return;
  PollUntil(Limit() + kGracePeriod, [] { return false; });
}

Run::Run(bool before_exit) : outer_(current_run), before_exit_(before_exit) {
  all_runs.fetch_add(1);
  ++own_runs;
  if (before_exit_) runs_before_exit.fetch_add(1);
  own_runs_before_exit += before_exit_;
  current_run = this;
}

Run::~Run() {
  current_run = outer_;
  own_runs_before_exit -= before_exit_;
  if (before_exit_) runs_before_exit.fetch_sub(1);
  --own_runs;
  all_runs.fetch_sub(1);
}

const std::atomic<bool>* Run::CancelFlag() {
  return current_run && current_run->before_exit_ ? &cancel : nullptr;
}

bool Run::IsCancelled() {
  const std::atomic<bool>* flag = CancelFlag();
  return flag && flag->load(std::memory_order_relaxed);
}

bool Run::WaitForOthers(TimePoint end) {
  return PollUntil(end, [] { return runs_before_exit.load() == own_runs_before_exit; });
}

namespace {

/// Libraries make static objects whenever they are first used for something, and a thread that
/// never used tensors may call exit() right then. While a process is young this thread sees to it
/// that the handler was registered after them.
void GuardFirstCalls() {
  std::thread([] {
    constexpr std::chrono::microseconds kPause{200};
    constexpr std::chrono::seconds kYoung{2};
    uint64_t seen = 0;
    for (int i = 0; i < kYoung / kPause && !Begun(); ++i) {
      uint64_t calls = library_calls.load();
      if (std::exchange(seen, calls) != calls || (calls & kCalls) != 0) {
        on_exit(AtExit, nullptr);
      }
      std::this_thread::sleep_for(kPause);
    }
  }).detach();
}

}  // namespace

Writing::Writing() {
  if (own_writers++ > 0) return;
  uint64_t before = library_calls.load();
  do {
    if (before & kClosing) [[unlikely]] {
      --own_writers;
      throw Cancelled();
    }
  } while (!library_calls.compare_exchange_weak(before, before + kOneWriter));
}

Writing::~Writing() {
  if (--own_writers == 0) library_calls.fetch_sub(kOneWriter);
}

LibraryCall::LibraryCall() {
  const uint64_t before = library_calls.fetch_add(kOneCall);
  if (before >> 32 == 1) GuardFirstCalls();
  ++own_library_calls;
  if (!(before & (kClosing | kClosed))) [[likely]]
    return;
  const bool is_needed = (before & kWriters) != 0;
  if (is_needed && !(before & kClosed)) return;
  --own_library_calls;
  library_calls.fetch_sub(1);
  // An overwritten value could not be put back.
  if (is_needed && !ends_process) EndNow();
  throw Cancelled();
}

LibraryCall::~LibraryCall() {
  --own_library_calls;
  library_calls.fetch_sub(1);
}

bool LibraryCall::Closed() { return library_calls.load() & (kClosing | kClosed); }

}  // namespace hammock::process_exit
