#pragma once
/// A device of Hammock as a delegate.

#include <string>

#include "jit/delegate_registry.h"

namespace hammock::jit {

/// A delegate that runs methods on a device, whole: what the device refuses is an error.
Delegate DeviceDelegateOf(const std::string& name, const std::string& device);

}  // namespace hammock::jit
