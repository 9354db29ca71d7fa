#pragma once

#include "hammock/lazy/backend_data.h"

namespace hammock {

/// Waits for a value that the user wants, in a span of its own; see SetWaitCheck.
void WaitForResult(lazy::BackendData& data);

}  // namespace hammock
