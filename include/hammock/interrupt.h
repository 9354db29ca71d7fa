#pragma once
/// Waits that the host of another language may end, as Python does at Ctrl-C.

#include "hammock/export.h"

namespace hammock {

/// Threads call `check` now and then while they wait for results. What it throws ends the wait, not
/// the work: the values can be read again. Null, the default: waits end with the work alone.
HAMMOCK_API void SetWaitCheck(void (*check)());

}  // namespace hammock
