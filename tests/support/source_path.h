#pragma once
/// Files of the repository that tests read.

#include <string>

namespace hammock::testing {

/// The absolute path of a file or folder of the repository; "" is its root.
std::string SourcePath(const std::string& path);

}  // namespace hammock::testing
