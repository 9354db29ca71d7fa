#pragma once
/// A schedule for people who look at it: what its commands are called, compute, read, write and
/// say.

#include <string>
#include <vector>

#include "hammock/compiler/schedule.h"
#include "hammock/lazy/backend_interface.h"

namespace hammock::compiler {

/// "mul_add_maximum": the nodes that it computes, the first few of many.
HAMMOCK_API std::string NameOfCommand(const Graph& graph, const Command& command);

/// One for each command, with every node of the graph that a command computes. `kind` is "kernel"
/// or "call": a backend says who runs its calls.
HAMMOCK_API std::vector<lazy::KernelInfo> DescribeCommands(const Graph& graph,
                                                           const Schedule& schedule);

}  // namespace hammock::compiler
