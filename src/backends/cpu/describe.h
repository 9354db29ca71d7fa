#pragma once

#include <vector>

#include "hammock/lazy/backend_interface.h"

namespace hammock::cpu {

/// The processor, its vectors, threads, compiler and libraries.
std::vector<lazy::DeviceFact> DescribeHost();

}  // namespace hammock::cpu
