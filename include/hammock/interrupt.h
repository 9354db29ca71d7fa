#pragma once
/// Callbacks of a host of another language: ending waits, as Python does at Ctrl-C, and collecting
/// garbage.

#include "hammock/export.h"

namespace hammock {

/// Threads call `check` now and then while they wait for results. What it throws ends the wait, not
/// the work: the values can be read again. Null, the default: waits end with the work alone.
HAMMOCK_API void SetWaitCheck(void (*check)());

/// `collect` frees tensors that the host's program cannot reach any more. It is called before an
/// error would name one of them. Null, the default: there are none.
HAMMOCK_API void SetCollector(void (*collect)());

}  // namespace hammock
