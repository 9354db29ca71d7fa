#pragma once

#include <span>

#include "hammock/compiler/schedule.h"

namespace hammock::compiler {

/// Shows as `group_commands` which commands of a schedule a backend runs concurrently; nothing
/// where each is alone. `group_last`: by command, the last one of its group.
void ShowGroups(const Graph& graph, const Schedule& schedule, std::span<const int> group_last);

}  // namespace hammock::compiler
