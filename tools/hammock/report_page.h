#pragma once

#include <span>
#include <string_view>
#include <utility>

namespace hammock::tool {

/// Names and texts of the files in report/, scripts in the order in which they run. The page has
/// the marks /*STYLE*/, /*SCRIPT*/ and /*DATA*/.
std::span<const std::pair<std::string_view, std::string_view>> ReportFiles();

}  // namespace hammock::tool
