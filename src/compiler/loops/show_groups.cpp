#include "compiler/loops/show_groups.h"

#include <fmt/format.h>

#include <string>

#include "compiler/passes/pass.h"

namespace hammock::compiler {

void ShowGroups(const Graph& graph, const Schedule& schedule, std::span<const int> group_last) {
  if (!ShowsPasses()) return;
  std::string groups;
  for (int i = 0; i < static_cast<int>(group_last.size()); i = group_last[i] + 1) {
    if (group_last[i] > i) groups += fmt::format("concurrent: {} to {}\n", i, group_last[i]);
  }
  if (!groups.empty()) ShowPass({"group_commands", graph, ToText(schedule, graph) + groups});
}

}  // namespace hammock::compiler
