#include "hammock/config.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <fstream>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "base/config_table.h"
#include "base/log.h"
#include "base/nearest.h"
#include "base/never_destroyed.h"
#include "base/throw.h"
#include "base/trace_file.h"

namespace hammock::config {
namespace detail {

constinit OptionValue values[kKeyCount];

}  // namespace detail

namespace {

constinit std::atomic<uint64_t> generation{0};
/// Texts that are never freed; null: the default.
constinit std::atomic<const std::string*> origins[kKeyCount] = {};

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

std::string EnvironmentName(std::string_view name) {
  std::string text = "HAMMOCK_";
  for (char c : name) {
    text += c == '.' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return text;
}

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

const Row* Find(std::string_view name) {
  const auto& table = Table();
  auto row = std::find_if(table.begin(), table.end(), [&](const Row& r) { return r.name == name; });
  return row == table.end() ? nullptr : &*row;
}

std::string_view Nearest(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Row& row : Table()) names.push_back(row.name);
  return NearestName(name, names);
}

const Row& FindOrThrow(std::string_view name) {
  if (const Row* row = Find(name)) return *row;
  Throw(ErrorCode::kUnknownName, "config: no option '{}', did you mean '{}'?", name, Nearest(name));
}

// Strings are never freed, so that a reader needs no lock. There are as many as distinct values.
const std::string& Intern(std::string_view text) {
  static auto& mutex = NeverDestroyed<std::mutex>();
  static auto& texts = NeverDestroyed<std::set<std::string, std::less<>>>();
  std::lock_guard lock(mutex);
  auto found = texts.find(text);
  return found != texts.end() ? *found : *texts.emplace(text).first;
}

std::optional<bool> ParseBool(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  if (lower == "1" || lower == "true" || lower == "on" || lower == "yes") return true;
  if (lower == "0" || lower == "false" || lower == "off" || lower == "no") return false;
  return std::nullopt;
}

int64_t CheckedInt(const Row& row, int64_t value) {
  if (value >= row.min) return value;
  Throw(ErrorCode::kValue, "config: {} is {}, must be at least {}", row.name, value, row.min);
}

int64_t CheckedString(const Row& row, std::string_view value) {
  if (row.check) {
    if (auto expected = row.check(value)) {
      Throw(ErrorCode::kValue, "config: {} is '{}', must be {}", row.name, value, *expected);
    }
  }
  return reinterpret_cast<int64_t>(&Intern(value));
}

/// The stored form of a text.
int64_t Parse(const Row& row, std::string_view text) {
  switch (TypeOf(row.key)) {
    case Type::kBool: {
      if (auto value = ParseBool(text)) return *value;
      Throw<TypeError>(ErrorCode::kValue,
                       "config: {} is a bool, got '{}', expected true, false, on, off, 1 or 0",
                       row.name, text);
    }
    case Type::kInt: {
      int64_t value = 0;
      const char* end = text.data() + text.size();
      auto [rest, error] = std::from_chars(text.data(), end, value);
      if (error == std::errc() && rest == end) return CheckedInt(row, value);
      Throw<TypeError>(ErrorCode::kValue, "config: {} is an int, got '{}', expected digits",
                       row.name, text);
    }
    case Type::kString:
      return CheckedString(row, text);
  }
  return detail::kUnset;
}

std::string Format(Key key, int64_t value) {
  switch (TypeOf(key)) {
    case Type::kBool:
      return value ? "true" : "false";
    case Type::kInt:
      return std::to_string(value);
    case Type::kString:
      return *reinterpret_cast<const std::string*>(value);
  }
  return "";
}

void Store(Key key, int64_t value, const std::string* origin) {
  detail::Load(key, std::memory_order_relaxed);  // else the environment would overwrite it later
  detail::values[key].store(value, std::memory_order_release);
  origins[key].store(origin, std::memory_order_release);
  generation.fetch_add(1, std::memory_order_release);
  if (key == kTraceFile) tracing::FollowOption();
}

void Store(Key key, int64_t value) { Store(key, value, &Intern("call")); }

/// What is to be logged about variables of the environment that set nothing.
std::vector<std::string> CheckEnvironmentNames() {
  std::vector<std::string> warnings;
  for (char** entry = environ; entry && *entry; ++entry) {
    std::string_view variable = *entry;
    variable = variable.substr(0, variable.find('='));
    if (!variable.starts_with("HAMMOCK_")) continue;
    std::string name(variable.substr(8));
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return std::tolower(c); });
    auto named = [&](const Row& row) { return EnvironmentName(row.name) == variable; };
    if (std::any_of(Table().begin(), Table().end(), named)) continue;
    warnings.push_back(fmt::format("config: environment variable {} is no option, did you mean {}?",
                                   variable, EnvironmentName(Nearest(name))));
  }
  return warnings;
}

std::vector<std::string> ReadEnvironment() {
  std::vector<std::string> warnings = CheckEnvironmentNames();
  for (const Row& row : Table()) {
    int64_t value = Parse(row, row.default_value);
    std::string variable = EnvironmentName(row.name);
    if (const char* text = std::getenv(variable.c_str())) {
      try {
        value = Parse(row, text);
        origins[row.key].store(&Intern("environment " + variable), std::memory_order_release);
      } catch (const Error& error) {
        warnings.push_back(fmt::format("environment variable {}: {}; using {}", variable,
                                       error.message(), Format(row.key, value)));
      }
    }
    detail::values[row.key].store(value, std::memory_order_release);
  }
  return warnings;
}

}  // namespace

int64_t detail::Initialize(Key key) {
  static constinit std::once_flag once;
  std::vector<std::string> warnings;
  bool first = false;
  std::call_once(once, [&] {
    warnings = ReadEnvironment();
    first = true;
  });
  // Only now: the log asks for its level.
  for (const std::string& warning : warnings) Log(LogLevel::kWarn, "{}", warning);
  if (first) tracing::FollowOption();
  return values[key].load(std::memory_order_acquire);
}

void detail::SetBool(Key key, bool value) { Store(key, value); }

void detail::SetInt(Key key, int64_t value) { Store(key, CheckedInt(Table()[key], value)); }

void detail::SetString(Key key, std::string_view value) {
  Store(key, CheckedString(Table()[key], value));
}

void Set(std::string_view name, std::string_view value, Location at) {
  LocationScope scope(at);
  const Row& row = FindOrThrow(name);
  Store(row.key, Parse(row, value));
}

std::string GetText(std::string_view name, Location at) {
  LocationScope scope(at);
  const Row& row = FindOrThrow(name);
  return Format(row.key, detail::Load(row.key, std::memory_order_acquire));
}

std::string OriginOf(std::string_view name, Location at) {
  LocationScope scope(at);
  const Row& row = FindOrThrow(name);
  detail::Load(row.key, std::memory_order_acquire);
  const std::string* origin = origins[row.key].load(std::memory_order_acquire);
  return origin ? *origin : "default";
}

void LoadFile(const std::string& path, Location at) {
  LocationScope scope(at);
  std::ifstream file(path);
  if (!file) Throw(ErrorCode::kValue, "config: cannot read file '{}'", path);
  struct Setting {
    Key key;
    int64_t value;
    const std::string* origin;
  };
  std::vector<Setting> settings;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    std::string_view text = Trim(std::string_view(line).substr(0, line.find('#')));
    if (text.empty()) continue;
    try {
      size_t equals = text.find('=');
      if (equals == std::string_view::npos) {
        Throw(ErrorCode::kParse, "config: expected `name = value`, got '{}'", text);
      }
      const Row& row = FindOrThrow(Trim(text.substr(0, equals)));
      settings.push_back({row.key, Parse(row, Trim(text.substr(equals + 1))),
                          &Intern(fmt::format("file {}:{}", path, number))});
    } catch (Error& error) {
      error.SetWhere(fmt::format("{}:{}", path, number));
      throw;
    }
  }
  for (const Setting& setting : settings) Store(setting.key, setting.value, setting.origin);
}

uint64_t Generation() { return generation.load(std::memory_order_acquire); }

std::vector<OptionInfo> Options() {
  std::vector<OptionInfo> options;
  for (const Row& row : Table()) {
    options.push_back({row.key, TypeOf(row.key), row.name, std::string(row.default_value), row.doc,
                       row.upstream});
  }
  std::sort(options.begin(), options.end(),
            [](const OptionInfo& a, const OptionInfo& b) { return a.name < b.name; });
  return options;
}

std::string Describe() {
  std::string text;
  for (const OptionInfo& option : Options()) {
    std::string value = GetText(option.name);
    std::string defaults = value == option.default_value
                               ? "default"
                               : fmt::format("default '{}'", option.default_value);
    fmt::format_to(std::back_inserter(text), "{:<24} {:<7} '{}' ({})\n    {}\n", option.name,
                   TypeName(option.type), value, defaults, option.doc);
  }
  return text;
}

std::string DescribeMarkdown() {
  std::string text =
      "# Options\n"
      "Generated from the table in `src/base/config_table.cpp`; a test keeps it fresh.\n\n"
      "Set an option by call (`config::Set(\"eager\", \"true\")`), by environment "
      "(`HAMMOCK_EAGER=true`, a dot is `_`, read once\nbefore the first use), or by file "
      "(`config::LoadFile(path)`, lines `name = value`, `#` comments). The latest wins; a change "
      "takes\neffect at once. A name that does not exist is an error that names the nearest one, "
      "in "
      "the environment a warning.\n\n"
      "| option | type | default | meaning | upstream name |\n|---|---|---|---|---|\n";
  auto out = std::back_inserter(text);
  for (const OptionInfo& option : Options()) {
    const Row& row = Table()[option.key];
    std::string defaults = !row.default_doc.empty()    ? std::string(row.default_doc)
                           : row.default_value.empty() ? "empty"
                                                       : fmt::format("`{}`", row.default_value);
    fmt::format_to(out, "| `{}` | {} | {} | {} | {} |\n", row.name, TypeName(option.type), defaults,
                   row.doc, row.upstream);
  }
  text += "\n## Upstream flags without a counterpart\n| upstream name | why |\n|---|---|\n";
  for (const Dropped& flag : DroppedUpstreamFlags()) {
    fmt::format_to(out, "| {} | {} |\n", flag.upstream, flag.reason);
  }
  return text;
}

Override::Override(std::string_view name, std::string_view value, Location at) {
  LocationScope scope(at);
  const Row& row = FindOrThrow(name);
  int64_t parsed = Parse(row, value);
  key_ = row.key;
  old_value_ = detail::Load(key_, std::memory_order_acquire);
  old_origin_ = origins[key_].load(std::memory_order_acquire);
  Store(key_, parsed);
}

Override::~Override() { Store(key_, old_value_, old_origin_); }

}  // namespace hammock::config
