#include "hammock/compiler/describe_schedule.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/loops/cost.h"
#include "compiler/passes/graph_editor.h"
#include "compiler/passes/node_table.h"
#include "hammock/compiler/memory_plan.h"
#include "ir/primitives.h"

namespace hammock::compiler {

namespace {

int64_t FlopsOfLaunch(const Launch& launch) {
  int64_t rows = launch.rows;
  for (int64_t size : launch.outer) rows *= size;
  int64_t flops = 0;
  for (const Instr& instr : launch.kernel->instrs) {
    const bool reduces = instr.kind == Instr::Kind::kReduce;
    if (!reduces && instr.kind != Instr::Kind::kScalar) continue;
    const int64_t each = reduces ? 1 : InfoOf(instr.fn).cost;
    flops += each * (reduces || instr.level == Level::kElement ? rows * launch.columns : rows);
  }
  return flops;
}

/// Of its buffers, unless it is a call whose record knows better.
int64_t BytesOfCommand(const Graph& graph, const Schedule& schedule, const Command& command) {
  if (command.is_call() && !command.launch.kernel && graph[command.node].op->bytes) {
    return BytesOf(graph, command.node);
  }
  int64_t bytes = 0;
  for (BufferId buffer : command.reads) bytes += schedule.buffers[buffer].bytes();
  for (BufferId buffer : command.writes) bytes += schedule.buffers[buffer].bytes();
  return bytes;
}

/// The command that computes each node, or -1. Inlined nodes are computed where they are used;
/// those that several commands use count as the first one's.
NodeMap<int> CommandOfNodes(const Graph& graph, const Schedule& schedule) {
  NodeMap<int> commands(graph.size(), -1);
  NodeMap<bool> computed(graph.size());  // by a command of its own
  for (size_t i = 0; i < schedule.commands.size(); ++i) {
    for (NodeId id : schedule.commands[i].nodes) {
      commands[id] = static_cast<int>(i);
      computed[id] = true;
    }
  }
  for (NodeId id : graph.ids().reversed()) {
    if (commands[id] < 0) continue;
    for (GraphValue input : graph[id].inputs) {
      if (!input.node || graph[input.node].op == &ops::kInput) continue;
      int& command = commands[input.node];
      if (computed[input.node]) continue;
      command = command < 0 ? commands[id] : std::min(command, commands[id]);
    }
  }
  return commands;
}

int64_t PlannedPeak(const Graph& graph) {
  const Schedule schedule = MakeSchedule(graph);
  return PlanMemory(schedule, std::vector<int64_t>(schedule.commands.size())).peak_bytes();
}

}  // namespace

std::string NameOfCommand(const Graph& graph, const Command& command) {
  constexpr size_t kNamed = 4;
  std::string name;
  for (size_t k = 0; k < std::min(command.nodes.size(), kNamed); ++k) {
    name += (k == 0 ? "" : "_") + graph[command.nodes[k]].op->info().name;
  }
  if (command.nodes.size() <= kNamed) return name;
  return fmt::format("{}_and_{}_more", name, command.nodes.size() - kNamed);
}

std::vector<lazy::KernelInfo> DescribeCommands(const Graph& graph, const Schedule& schedule) {
  std::vector<lazy::KernelInfo> kernels;
  for (const Command& command : schedule.commands) {
    lazy::KernelInfo kernel;
    kernel.name = NameOfCommand(graph, command);
    kernel.kind = command.is_call() ? "call" : "kernel";
    if (command.is_call()) {
      kernel.text = fmt::format("call {}\n", graph[command.node].op->name());
      kernel.flops = FlopsOf(graph, command.node);
    }
    if (command.launch.kernel) {
      kernel.text += ToText(command.launch);
      kernel.flops += FlopsOfLaunch(command.launch);
    }
    kernel.bytes = BytesOfCommand(graph, schedule, command);
    kernels.push_back(std::move(kernel));
  }
  NodeMap<int> commands = CommandOfNodes(graph, schedule);
  for (NodeId id : graph.ids()) {
    if (commands[id] >= 0) kernels[commands[id]].nodes.push_back(id);
  }
  return kernels;
}

Recomputation FindRecomputation(const Graph& graph) {
  Recomputation found;
  GraphEditor editor(graph);
  NodeTable known(graph.size());
  NodeMap<bool> behind(graph.size());  // a barrier
  for (NodeId id : graph.ids()) {
    GraphNode node = editor.Take(id);
    behind[id] = std::ranges::any_of(
        graph[id].inputs, [&](GraphValue input) { return input.node && behind[input.node]; });
    if (node.op == &ops::kBarrier) {
      behind[id] = true;
      editor.Replace(id, node.inputs[0]);
      continue;
    }
    const NodeId equal =
        CanBeShared(node) ? known.FindOrAdd(editor.graph(), node) : NodeId(editor.graph().size());
    if (behind[id] && editor.graph().Contains(equal)) {
      found.nodes.push_back(id);
      found.flops += FlopsOf(graph, id);
      editor.ReplaceBy(id, equal);
    } else {
      editor.Keep(id, std::move(node));
    }
  }
  if (!found.nodes.empty()) found.saved_bytes = PlannedPeak(editor.Finish()) - PlannedPeak(graph);
  return found;
}

std::string Recomputation::to_string() const {
  return fmt::format("nodes computed again: {}, for {} flops; the planned peak is {} bytes lower",
                     nodes.size(), flops, saved_bytes);
}

}  // namespace hammock::compiler
