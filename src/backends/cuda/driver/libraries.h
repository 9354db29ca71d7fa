#pragma once
/// A report, for people, on the driver and the libraries that the CUDA backend can use.

#include <string>
#include <vector>

#include "hammock/lazy/backend_interface.h"

namespace hammock::cuda {

/// One fact for the driver, NVRTC, cuBLASLt, cuDNN, cuFFT and NCCL: version and file, or why it is
/// missing. Opens all of them.
std::vector<lazy::DeviceFact> DescribeLibraries();
/// The versions that programs depend on, of what is opened in any case: driver and cuBLASLt.
const std::string& LibraryVersions();

}  // namespace hammock::cuda
