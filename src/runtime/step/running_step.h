#pragma once

#include "hammock/location.h"

namespace hammock {

/// Where the last output of the step that this thread is running was recorded; 0: not known. A
/// compiled graph knows no other lines than those where it was first recorded.
extern constinit thread_local LocationId running_step_location;

}  // namespace hammock
