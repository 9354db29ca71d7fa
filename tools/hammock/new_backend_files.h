#pragma once

#include <span>
#include <string_view>
#include <utility>

namespace hammock::tool {

/// Names and texts of the files in new_backend/, in which @NAME@ stands for the name.
std::span<const std::pair<std::string_view, std::string_view>> NewBackendFiles();

}  // namespace hammock::tool
