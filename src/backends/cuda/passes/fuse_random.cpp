#include "backends/cuda/passes/fuse_random.h"

#include <algorithm>
#include <vector>

#include "compiler/facts/fusion_facts.h"
#include "ir/primitives.h"

namespace hammock::cuda {

using compiler::Access;
using compiler::BufferId;
using compiler::BufferMap;
using compiler::Command;
using compiler::Instr;
using compiler::Kernel;
using compiler::Launch;
using compiler::Level;
using compiler::Schedule;

namespace {

bool Contains(const std::vector<BufferId>& list, BufferId buffer) {
  return std::find(list.begin(), list.end(), buffer) != list.end();
}

/// Whether a command reads every word of `buffer` as an element of a line.
bool CanDraw(const Command& command, BufferId buffer) {
  if (command.is_call() || command.launch.kernel->lanes_along_rows) return false;
  const Kernel& kernel = *command.launch.kernel;
  return std::all_of(kernel.instrs.begin(), kernel.instrs.end(), [&](const Instr& instr) {
    if (instr.access < 0) return true;
    const compiler::AccessMap& map = command.launch.maps[instr.access];
    return map.buffer != buffer || (instr.level == Level::kElement && map.column == 1);
  });
}

void Draw(Launch& launch, BufferId words, BufferId state) {
  auto kernel = std::make_shared<Kernel>(*launch.kernel);
  for (size_t i = 0; i < kernel->accesses.size(); ++i) {
    if (launch.maps[i].buffer != words) continue;
    kernel->accesses[i].kind = Access::Kind::kRandom;
    launch.maps[i].buffer = state;
  }
  launch.kernel = std::move(kernel);
}

}  // namespace

Schedule FuseRandom(const Graph& graph, Schedule schedule) {
  auto is_words = [&](const Command& command) {
    return command.is_call() && graph[command.node].op == &ops::kRngBits;
  };
  if (std::none_of(schedule.commands.begin(), schedule.commands.end(), is_words)) return schedule;
  BufferMap<std::vector<size_t>> readers(schedule.buffers.size());
  for (size_t i = 0; i < schedule.commands.size(); ++i) {
    for (BufferId buffer : schedule.commands[i].reads) readers[buffer].push_back(i);
  }
  BufferMap<bool> is_output(schedule.buffers.size());
  for (BufferId buffer : schedule.outputs) is_output[buffer] = true;
  std::vector<bool> drawn(schedule.commands.size());
  for (size_t i = 0; i < schedule.commands.size(); ++i) {
    if (!is_words(schedule.commands[i])) continue;
    const NodeId node = schedule.commands[i].node;
    const BufferId words = schedule.commands[i].writes[0];
    const std::vector<size_t>& drawing = readers[words];
    drawn[i] = !is_output[words] && std::all_of(drawing.begin(), drawing.end(), [&](size_t r) {
      return CanDraw(schedule.commands[r], words);
    });
    if (!drawn[i]) continue;
    const BufferId state = schedule.BufferOf(compiler::StorageOf(graph, graph[node].inputs[0]));
    for (size_t r : drawing) {
      Command& command = schedule.commands[r];
      Draw(command.launch, words, state);
      std::erase(command.reads, words);
      if (!Contains(command.reads, state)) command.reads.push_back(state);
    }
    // The first command that draws has the node of the random words among its own.
    if (!drawing.empty()) {
      std::vector<NodeId>& nodes = schedule.commands[drawing[0]].nodes;
      nodes.insert(nodes.begin(), node);
    }
  }
  size_t next = 0;
  std::erase_if(schedule.commands, [&](const Command&) { return drawn[next++]; });
  return schedule;
}

}  // namespace hammock::cuda
