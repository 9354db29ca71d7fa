#pragma once

#include <span>
#include <string_view>
#include <utility>

namespace hammock::compiler {

/// The text of special_functions.inc, in one pair of its name and its text.
std::span<const std::pair<std::string_view, std::string_view>> SpecialFunctionFiles();

}  // namespace hammock::compiler
