#include "hammock/config.h"

#include <fmt/format.h>

#include <fstream>

#include "base/option_registry.h"
#include "base/option_value.h"
#include "base/throw.h"

namespace hammock::config {
namespace {

using detail::AnyOption;

int64_t ValueIn(AnyOption& option) {
  int64_t value = option.value.load(std::memory_order_acquire);
  return value == detail::kUnset ? detail::Initialize(option) : value;
}

const std::string& ByCall() { return Intern("call"); }

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

/// A setting that was found to be right.
class Setting {
 public:
  Setting(std::string_view name, std::string_view text, const std::string& origin)
      : origin_(&origin), option_(FindOption(name)) {
    if (!option_ && !MayBeKept(name)) option_ = &GetOption(name);
    if (option_) {
      value_ = Parse(*option_, text);
    } else {
      name_ = name;
      text_ = text;
    }
  }

  void Apply() const {
    if (option_) {
      Store(*option_, value_, origin_);
    } else {
      Keep(name_, text_, *origin_);
    }
  }

 private:
  const std::string* origin_;
  AnyOption* option_;  // null: of an owner that is not loaded
  int64_t value_ = 0;
  std::string name_, text_;
};

/// `name = value`.
Setting ParseLine(std::string_view line, const std::string& where) {
  size_t equals = line.find('=');
  if (equals == std::string_view::npos) {
    Throw(ErrorCode::kParse, "config: expected `name = value`, got '{}'", line);
  }
  return {Trim(line.substr(0, equals)), Trim(line.substr(equals + 1)), Intern("file " + where)};
}

}  // namespace

void detail::SetNumber(AnyOption& option, int64_t value) {
  Store(option, Checked(option, value), &ByCall());
}

void detail::SetText(AnyOption& option, std::string_view value) {
  Store(option, Parse(option, value), &ByCall());
}

void Set(std::string_view name, std::string_view value, Location at) {
  LocationScope scope(at);
  Setting(name, value, ByCall()).Apply();
}

std::string GetText(std::string_view name, Location at) {
  LocationScope scope(at);
  AnyOption& option = GetOption(name);
  return Format(option, ValueIn(option));
}

std::string OriginOf(std::string_view name, Location at) {
  LocationScope scope(at);
  AnyOption& option = GetOption(name);
  ValueIn(option);
  const std::string* origin = option.origin.load(std::memory_order_acquire);
  return origin ? *origin : "default";
}

void LoadFile(const std::string& path, Location at) {
  LocationScope scope(at);
  std::ifstream file(path);
  if (!file) Throw(ErrorCode::kValue, "config: cannot read file '{}'", path);
  std::vector<Setting> settings;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    std::string_view text = Trim(std::string_view(line).substr(0, line.find('#')));
    if (text.empty()) continue;
    std::string where = fmt::format("{}:{}", path, number);
    try {
      settings.push_back(ParseLine(text, where));
    } catch (Error& error) {
      error.SetWhere(where);
      throw;
    }
  }
  for (const Setting& setting : settings) setting.Apply();
}

Override::Override(std::string_view name, std::string_view value, Location at) {
  LocationScope scope(at);
  option_ = &GetOption(name);
  int64_t parsed = Parse(*option_, value);
  old_value_ = ValueIn(*option_);
  old_origin_ = option_->origin.load(std::memory_order_acquire);
  Store(*option_, parsed, &ByCall());
}

Override::~Override() { Store(*option_, old_value_, old_origin_); }

}  // namespace hammock::config
