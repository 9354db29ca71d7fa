#pragma once
/// The null backend: one device, "null", that compiles everything and runs nothing. Results have
/// the right types and read as zeros. It shows the cost of tracing, scheduling and caching alone.

#include "hammock/export.h"

namespace hammock::lazy {
class BackendImplInterface;
}

namespace hammock {

/// The one instance; never destroyed. Registering it is the caller's business.
HAMMOCK_API lazy::BackendImplInterface* NullBackend();

}  // namespace hammock
