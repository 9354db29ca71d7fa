#pragma once
/// The end of a process by exit() or by a return from main, as the library handles it.
///
/// Note [Exit]: exit() destroys the thread_local objects of its thread, then calls exit handlers,
/// those registered last first. Static objects of libraries, oneDNN's among them, are destroyed by
/// such handlers while other threads may still run steps. So the library has one handler, and
/// registers it again whenever a thread that used the library loses its thread_local objects: if
/// that is due to exit(), the handler runs before all others. In the first seconds of a process a
/// thread registers it too. It gives queued and running work kGrace to finish, then cancels what
/// can be cancelled without loss, and after kLimit at the latest lets the other handlers go on;
/// runs that have overwritten something, and can be neither completed without oneDNN nor undone,
/// have kWriting more. From then on nothing calls oneDNN. Everything else still works, on the
/// thread that asks for it, so that destructors of static objects, and threads that these wait for,
/// may use tensors.

#include <atomic>
#include <chrono>
#include <thread>

#include "hammock/error.h"

namespace hammock::process_exit {

using TimePoint = std::chrono::steady_clock::time_point;
inline constexpr std::chrono::milliseconds kGrace{1500};
inline constexpr std::chrono::milliseconds kLimit{2000};
inline constexpr std::chrono::milliseconds kWriting{30000};

/// The parts of the library that have something to end, in their order.
enum class Stage { kKernelCompiles, kClosures, kSteps, kSavedSteps, kProfile, kCount };
/// Has `end` called at exit.
void Register(Stage stage, void (*end)());
/// Makes the handler the first one to run. Called when a thread ends, and when a library that
/// registers handlers of its own was used for something new.
void ComeFirst();

/// Makes the handler the first one to run if the calling thread, which may run users' code, calls
/// exit().
void WatchThread();

/// Whether the handler has begun.
bool Begun();
/// When work is cancelled, and when nobody waits for it any more; never, before the handler begins.
TimePoint GraceEnd();
TimePoint Limit();
/// Cancels what began before the exit.
void CancelRuns();

/// Waits until `done()` or `end`, whichever is first; whether it is done.
template <class F>
bool PollUntil(TimePoint end, F done) {
  while (!done()) {
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return true;
}

/// A run has stopped because the process ends. What it was to compute is pending again.
class Cancelled : public ErrorKind<Cancelled, DeviceError> {
 public:
  Cancelled();
};

/// Called where `error` is about to be raised to a user. A thread other than the one that ends the
/// process waits for the end if its work was cancelled: it has nothing to catch.
void AwaitEndIfCancelled(const Error& error);

/// A computation that runs on this thread.
class Run {
 public:
  /// Exit cancels runs that were asked for before it, not those that destructors and other threads
  /// ask for later.
  explicit Run(bool before_exit = !Begun());
  ~Run();
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  /// Becomes true when the innermost run of this thread is to stop; null where none ever will.
  static const std::atomic<bool>* CancelFlag();
  static bool IsCancelled();
  /// Waits for other threads' runs from before the exit; false if some have not ended by `end`.
  static bool WaitForOthers(TimePoint end);

 private:
  const Run* const outer_;
  const bool before_exit_;
};

/// A part of a run that overwrites what it would need to begin anew: libraries stay open for it.
/// Its constructor throws Cancelled where they are closed, or are about to be. If it takes longer
/// than kWriting at exit, its next library call ends the process.
class Writing {
 public:
  Writing();
  ~Writing();
  Writing(const Writing&) = delete;
  Writing& operator=(const Writing&) = delete;
};

/// A call into a library whose static objects are destroyed at exit. Its constructor throws
/// Cancelled where that may have happened.
class LibraryCall {
 public:
  LibraryCall();
  ~LibraryCall();
  LibraryCall(const LibraryCall&) = delete;
  LibraryCall& operator=(const LibraryCall&) = delete;

  /// Whether no more calls are allowed, but for runs that write in place.
  static bool Closed();
};

}  // namespace hammock::process_exit
