#pragma once

#include <span>

#include "backends/cuda/calls/call_kit.h"

namespace hammock::cuda {

std::span<const CallEntry> CollectiveCalls();

}  // namespace hammock::cuda
