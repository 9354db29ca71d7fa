#pragma once
/// The reference backend: one device, "reference", on which the interpreter runs every primitive.
/// Synchronous. Other backends are tested against it and fall back to it.

#include "hammock/export.h"

namespace hammock::lazy {
class BackendImplInterface;
}

namespace hammock {

/// The one instance; never destroyed. Registering it is the caller's business.
HAMMOCK_API lazy::BackendImplInterface* ReferenceBackend();

}  // namespace hammock
