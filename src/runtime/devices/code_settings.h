#pragma once
/// The part of a key that is not in the graph: settings that change what is compiled.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hammock {

/// A combination of settings.
struct CodeSettings {
  /// Options that affect code and do not have their default values, by name. A library that brings
  /// new options changes no key.
  std::vector<std::pair<std::string_view, std::string>> options;
  std::vector<std::string> devices;  ///< the replication list, where one was given

  auto operator<=>(const CodeSettings&) const = default;
};

/// The number of the present settings: equal for equal settings and no others, as long as the
/// process lives. One comparison where no option has changed and there is no replication list.
uint32_t CodeSettingsId(std::span<const std::string> devices = {});

/// The settings of a number that CodeSettingsId gave.
const CodeSettings& CodeSettingsOf(uint32_t id);

/// "wide_sums was `false` and is `true`": all that differs; empty where nothing does.
std::string DescribeChange(const CodeSettings& before, const CodeSettings& now);

/// The values of all options that affect code, for other processes: lines `name=length:value`.
std::string CodeOptionLines();

}  // namespace hammock
