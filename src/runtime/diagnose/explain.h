#pragma once

#include <string>

#include "runtime/step/executor.h"

namespace hammock {

/// Why `traced` is not in the cache. `settings` is a CodeSettingsId, `where` the line that syncs;
/// empty: not known.
CompileMiss ExplainMiss(StepExecutor& executor, DeviceEntry& device, const Hash128& hash,
                        uint32_t settings, const Graph& traced, const std::string& where);

}  // namespace hammock
