#pragma once

#include <span>
#include <string_view>

namespace hammock {

/// The candidate with the fewest insertions, deletions, replacements and swaps of neighbours away
/// from `name`, for "did you mean"; the first of several, empty when there is none.
std::string_view NearestName(std::string_view name, std::span<const std::string_view> candidates);

}  // namespace hammock
