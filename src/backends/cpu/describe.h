#pragma once

#include <vector>

#include "hammock/lazy/backend_interface.h"

namespace hammock::cpu {

/// The processor and what works on it: vectors, threads, compiler, libraries.
std::vector<lazy::DeviceFact> DescribeHost();

}  // namespace hammock::cpu
