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

/// The nodes that a graph computes twice, behind barriers, so that their values need not be kept:
/// by the option `memory_budget`, and by checkpoints.
struct HAMMOCK_API Recomputation {
  std::vector<NodeId> nodes;
  int64_t flops = 0;        ///< of these
  int64_t saved_bytes = 0;  ///< of the planned peak

  /// "nodes computed again: 32, for 4096 flops; the planned peak is 65536 bytes lower"
  std::string to_string() const;
};
/// Of a graph that can be scheduled: after SchedulePasses, or a backend's own.
HAMMOCK_API Recomputation FindRecomputation(const Graph& graph);

}  // namespace hammock::compiler
