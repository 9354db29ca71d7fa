#pragma once

#include "hammock/location.h"

namespace hammock {

/// The location of the outermost public call in progress on this thread, or 0.
extern constinit thread_local LocationId tls_location;

}  // namespace hammock
