#include <ostream>

#include "fmt/format.h"
#include "hammock/module.h"

namespace hammock {
namespace {

int64_t CountParameters(const Module& module) {
  int64_t count = 0;
  for (const auto& [name, parameter] : module.named_parameters()) count += parameter.numel();
  return count;
}

std::string Tree(const Module& module, const std::string& indent) {
  int64_t count = CountParameters(module);
  const char* unit = indent.empty() ? " parameters" : "";
  std::string note = count > 0 ? fmt::format("  # {}{}", count, unit) : "";
  std::string text = module.class_name() + "(" + module.extra_repr();
  if (module.named_children().empty()) return text + ")" + note + "\n";
  text += note + "\n";
  for (const auto& [name, child] : module.named_children()) {
    text += fmt::format("{}  ({}): {}", indent, name, Tree(*child, indent + "  "));
  }
  return text + indent + ")\n";
}

}  // namespace

std::ostream& operator<<(std::ostream& os, const Module& module) { return os << Tree(module, ""); }

}  // namespace hammock
