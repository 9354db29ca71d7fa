#pragma once
/// A case as C++, for people who look into a finding.

#include <string>

#include "case.h"

namespace hammock::golden {

/// Statements that read the inputs from the suite in `dir` and call the op on a device, indented.
std::string CodeOf(const Case& c, const std::string& dir, const std::string& device);

}  // namespace hammock::golden
