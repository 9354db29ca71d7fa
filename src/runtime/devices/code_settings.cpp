#include "runtime/devices/code_settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <atomic>
#include <map>
#include <mutex>
#include <set>

#include "base/never_destroyed.h"
#include "base/option_registry.h"
#include "hammock/config.h"

namespace hammock {
namespace {

/// Grows by every combination that is used, and forgets none.
struct Known {
  std::mutex mutex;
  std::map<CodeSettings, uint32_t> ids;
  std::vector<const CodeSettings*> by_id;
};

Known& GetKnown() {
  static auto& known = NeverDestroyed<Known>();
  return known;
}

/// With the mutex held.
uint32_t IdOf(Known& known, CodeSettings settings) {
  auto [entry, is_new] =
      known.ids.try_emplace(std::move(settings), static_cast<uint32_t>(known.by_id.size()));
  if (is_new) known.by_id.push_back(&entry->first);
  return entry->second;
}

CodeSettings PresentSettings() {
  CodeSettings settings;
  for (config::CodeOption& option : config::CodeOptions()) {
    if (!option.is_default) settings.options.emplace_back(option.name, std::move(option.value));
  }
  return settings;
}

std::string DefaultOf(std::string_view name) {
  for (const config::OptionInfo& option : config::Options()) {
    if (option.name == name) return option.default_value;
  }
  return "";
}

std::string ValueIn(const CodeSettings& settings, std::string_view name) {
  for (const auto& [option, value] : settings.options) {
    if (option == name) return value;
  }
  return DefaultOf(name);
}

std::string ListOf(const std::vector<std::string>& devices) {
  return devices.empty() ? "none" : fmt::format("{}", fmt::join(devices, " "));
}

}  // namespace

uint32_t CodeSettingsId(std::span<const std::string> devices) {
  static std::atomic<uint64_t> generation{UINT64_MAX};
  static std::atomic<uint32_t> id{0};
  const uint64_t now = config::Generation();
  if (devices.empty() && generation.load(std::memory_order_acquire) == now) {
    return id.load(std::memory_order_relaxed);
  }
  config::WarnOfUnclaimed();
  Known& known = GetKnown();
  std::lock_guard lock(known.mutex);
  CodeSettings settings = PresentSettings();
  if (!devices.empty()) {
    settings.devices.assign(devices.begin(), devices.end());
    return IdOf(known, std::move(settings));
  }
  uint32_t present = IdOf(known, std::move(settings));
  id.store(present, std::memory_order_relaxed);
  generation.store(now, std::memory_order_release);
  return present;
}

const CodeSettings& CodeSettingsOf(uint32_t id) {
  Known& known = GetKnown();
  std::lock_guard lock(known.mutex);
  return *known.by_id.at(id);
}

std::string DescribeChange(const CodeSettings& before, const CodeSettings& now) {
  std::set<std::string_view> names;
  for (const CodeSettings* settings : {&before, &now}) {
    for (const auto& [name, value] : settings->options) names.insert(name);
  }
  std::string text;
  auto add = [&](std::string_view name, const std::string& old_value, const std::string& value) {
    if (old_value == value) return;
    text +=
        fmt::format("{}{} was `{}` and is `{}`", text.empty() ? "" : ", ", name, old_value, value);
  };
  for (std::string_view name : names) add(name, ValueIn(before, name), ValueIn(now, name));
  add("the replication list", ListOf(before.devices), ListOf(now.devices));
  return text;
}

std::string CodeOptionLines() {
  std::string lines;
  for (const config::CodeOption& option : config::CodeOptions()) {
    lines += fmt::format("{}={}:{}\n", option.name, option.value.size(), option.value);
  }
  return lines;
}

}  // namespace hammock
