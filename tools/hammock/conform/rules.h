#pragma once
/// The rules that `hammock conform` checks, one by one.

#include <span>
#include <string>

namespace hammock::tool {

enum class ConformLevel { kBronze, kSilver, kGold };

/// The plug-in that is checked, and the suite that it is checked with.
struct Subject {
  std::string plugin;  ///< the library
  std::string golden;  ///< folder of a golden suite; empty: the installed sample
};

/// A check opens the plug-in itself and returns what is wrong; empty: nothing. It runs in a process
/// of its own. What it throws is a finding too, but for SkippedRule.
struct ConformRule {
  const char* name;
  const char* area;
  ConformLevel level;
  const char* doc;
  std::string (*check)(const Subject& subject);
};

/// The plug-in does not offer what the rule is about.
struct SkippedRule {
  std::string why;
};

std::span<const ConformRule> ConformRules();

/// Times on the device and on `cpu`, for people: a line each.
std::string Measurements(const Subject& subject);

}  // namespace hammock::tool
