#include "base/option_value.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <mutex>
#include <optional>
#include <set>

#include "base/never_destroyed.h"
#include "base/throw.h"

namespace hammock::config {
namespace {

using detail::AnyOption;

std::optional<bool> ParseBool(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  if (lower == "1" || lower == "true" || lower == "on" || lower == "yes") return true;
  if (lower == "0" || lower == "false" || lower == "off" || lower == "no") return false;
  return std::nullopt;
}

bool IsAmong(std::string_view choices, std::string_view value) {
  for (;;) {
    size_t end = choices.find(", ");
    if (choices.substr(0, end) == value) return true;
    if (end == std::string_view::npos) return false;
    choices.remove_prefix(end + 2);
  }
}

/// A description of the values that are allowed, where the option does not take this one.
std::optional<std::string> Expected(const AnyOption& option, std::string_view value) {
  if (!option.choices.empty() && !IsAmong(option.choices, value)) {
    return "one of " + std::string(option.choices);
  }
  return option.check ? option.check(value) : std::nullopt;
}

int64_t ParseString(const AnyOption& option, std::string_view value) {
  if (auto expected = Expected(option, value)) {
    Throw(ErrorCode::kValue, "config: {} is '{}', must be {}", option.name, value, *expected);
  }
  return reinterpret_cast<int64_t>(&Intern(value));
}

int64_t ParseInt(const AnyOption& option, std::string_view text) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc() && rest == end) return Checked(option, value);
  Throw<TypeError>(ErrorCode::kValue, "config: {} is an int, got '{}', expected digits",
                   option.name, text);
}

}  // namespace

const std::string& Intern(std::string_view text) {
  static auto& mutex = NeverDestroyed<std::mutex>();
  static auto& texts = NeverDestroyed<std::set<std::string, std::less<>>>();
  std::lock_guard lock(mutex);
  auto found = texts.find(text);
  return found != texts.end() ? *found : *texts.emplace(text).first;
}

int64_t Parse(const AnyOption& option, std::string_view text) {
  switch (option.type) {
    case Type::kBool: {
      if (auto value = ParseBool(text)) return *value;
      Throw<TypeError>(ErrorCode::kValue,
                       "config: {} is a bool, got '{}', expected true, false, on, off, 1 or 0",
                       option.name, text);
    }
    case Type::kInt:
      return ParseInt(option, text);
    case Type::kString:
      return ParseString(option, text);
  }
  return detail::kUnset;
}

int64_t Checked(const AnyOption& option, int64_t value) {
  if (option.type == Type::kBool) return value;
  int64_t min = std::max(option.min, detail::kUnset + 1);
  if (value >= min) return value;
  Throw(ErrorCode::kValue, "config: {} is {}, must be at least {}", option.name, value, min);
}

std::string Format(const AnyOption& option, int64_t value) {
  switch (option.type) {
    case Type::kBool:
      return value ? "true" : "false";
    case Type::kInt:
      return std::to_string(value);
    case Type::kString:
      return *reinterpret_cast<const std::string*>(value);
  }
  return "";
}

std::string DefaultText(const AnyOption& option) {
  if (option.type == Type::kString) return std::string(option.default_text);
  return Format(option, option.default_number);
}

std::string_view TypeName(Type type) {
  switch (type) {
    case Type::kBool:
      return "bool";
    case Type::kInt:
      return "int";
    case Type::kString:
      return "string";
  }
  return "";
}

}  // namespace hammock::config
