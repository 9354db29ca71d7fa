#pragma once

#include <string>

#include "runtime/executor.h"

namespace hammock {

/// Why `traced` is not in the cache. `where` is the line that syncs; empty: not known.
CompileMiss ExplainMiss(StepExecutor& executor, DeviceEntry& device, const Hash128& hash,
                        const Graph& traced, const std::string& where);

}  // namespace hammock
