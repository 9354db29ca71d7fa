#pragma once
/// Callbacks of a host of another language: ending waits, as Python does at Ctrl-C, letting go of
/// its lock, and collecting garbage.

#include "hammock/export.h"

namespace hammock {

/// Threads call `check` now and then while they wait for results. What it throws ends the wait, not
/// the work: the values can be read again. Null, the default: waits end with the work alone.
HAMMOCK_API void SetWaitCheck(void (*check)());

/// The lock under which the host's code runs, such as Python's GIL.
struct HostLock {
  /// Lets go of the lock; null if the calling thread does not hold it.
  void* (*release)();
  /// Takes it again, with what `release` returned.
  void (*take_back)(void* released);
};

/// Threads do not hold the lock while they compile, run or await steps: another thread may need it
/// for a function of the host that such a step calls. `lock` lives as long as the process. Null,
/// the default: there is none.
HAMMOCK_API void SetHostLock(const HostLock* lock);

/// Waits until nothing is queued or runs, as long as exit() would: a host calls it before it ends,
/// since steps may call functions of it. False if something still runs.
HAMMOCK_API bool AwaitSteps();

/// `collect` frees tensors that the host's program cannot reach any more. It is called before an
/// error would name one of them. Null, the default: there are none.
HAMMOCK_API void SetCollector(void (*collect)());

}  // namespace hammock
