#pragma once
/// Values of options as text and as an option stores them.

#include <cstdint>
#include <string>
#include <string_view>

#include "hammock/option.h"

namespace hammock::config {

/// A text that is never freed, so that a reader needs no lock. There are as many as distinct
/// values.
const std::string& Intern(std::string_view text);

/// The stored form of a text. TypeError where it is of another type, ValueError where the option
/// does not take it.
int64_t Parse(const detail::AnyOption& option, std::string_view text);
/// Likewise for bools and integers.
int64_t Checked(const detail::AnyOption& option, int64_t value);

/// A stored value as text that `Parse` accepts.
std::string Format(const detail::AnyOption& option, int64_t value);
std::string DefaultText(const detail::AnyOption& option);

std::string_view TypeName(Type type);

}  // namespace hammock::config
