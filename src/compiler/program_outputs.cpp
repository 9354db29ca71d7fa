#include "compiler/program_outputs.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/fusion_facts.h"

namespace hammock::compiler {
namespace {

size_t Index(int i) { return static_cast<size_t>(i); }

bool Contains(const std::vector<int>& list, int number) {
  return std::find(list.begin(), list.end(), number) != list.end();
}

/// Whether a kernel reads every element of `input` before it writes the same place of `output`.
bool ReadsBeforeWriting(const Launch& launch, int input, int output) {
  const AccessMap* store = nullptr;
  int store_stage = 0;
  for (const Instr& instr : launch.kernel->instrs) {
    if (instr.kind != Instr::Kind::kStore || launch.maps[Index(instr.access)].buffer != output) {
      continue;
    }
    if (store) return false;
    store = &launch.maps[Index(instr.access)];
    store_stage = instr.stage;
    if (launch.kernel->accesses[Index(instr.access)].streams) return false;
  }
  if (!store) return false;
  for (const Instr& instr : launch.kernel->instrs) {
    if (instr.kind != Instr::Kind::kLoad) continue;
    const AccessMap& load = launch.maps[Index(instr.access)];
    if (load.buffer != input) continue;
    bool random = launch.kernel->accesses[Index(instr.access)].kind == Access::Kind::kRandom;
    bool same = !random && load.offset == store->offset && load.outer == store->outer &&
                load.row == store->row && load.column == store->column;
    if (!same || instr.stage > store_stage) return false;
  }
  return true;
}

/// Whether a step that reads an input may write an output in its place.
bool MayWriteInto(const Graph& graph, const Schedule& schedule, const Step& step, int input,
                  int output) {
  if (step.updates == input) return true;
  if (!step.launch.kernel || !ReadsBeforeWriting(step.launch, input, output)) return false;
  if (!step.is_call()) return true;
  // A product reads its operands until the end.
  const std::vector<GraphValue>& operands = graph[step.node].inputs;
  return std::none_of(operands.begin(), operands.end(), [&](GraphValue operand) {
    return schedule.BufferOf(StorageOf(graph, operand)) == input;
  });
}

bool MayReplace(const Graph& graph, const Schedule& schedule, const std::vector<int>& group_last,
                int output, int input) {
  if (Contains(schedule.outputs, input)) return false;
  if (InfoOf(schedule.buffers[Index(output)].dtype()).bits !=
      InfoOf(schedule.buffers[Index(input)].dtype()).bits) {
    return false;
  }
  // Those that run beside the step that writes count as later ones.
  size_t first_beside = schedule.steps.size();
  for (size_t i = schedule.steps.size(); i-- > 0;) {
    if (Contains(schedule.steps[i].writes, output)) first_beside = i;
  }
  while (first_beside > 0 && first_beside < schedule.steps.size() &&
         group_last[first_beside - 1] == group_last[first_beside]) {
    --first_beside;
  }
  bool written = false;
  for (size_t i = 0; i < schedule.steps.size(); ++i) {
    const Step& step = schedule.steps[i];
    bool writes = Contains(step.writes, output);
    bool reads = Contains(step.reads, input);
    if ((written || (i >= first_beside && !writes)) && reads) return false;
    if (writes && reads && !MayWriteInto(graph, schedule, step, input, output)) return false;
    written |= writes;
    bool fails_first = writes && step.updates == input;
    if (written && step.is_call() && graph[step.node].op->can_fail && !fails_first) return false;
  }
  return true;
}

}  // namespace

Graph WithOrigins(const Graph& graph) {
  Graph copy = graph;
  for (NodeId id = 0; id < copy.size(); ++id) copy.mutable_node(id).origin = id;
  return copy;
}

std::vector<OutputSource> FindOutputSources(const Schedule& schedule) {
  std::vector<OutputSource> outputs;
  for (size_t i = 0; i < schedule.outputs.size(); ++i) {
    OutputSource output;
    auto input = std::find(schedule.inputs.begin(), schedule.inputs.end(), schedule.outputs[i]);
    if (input != schedule.inputs.end()) {
      output.input = static_cast<int>(input - schedule.inputs.begin());
    }
    auto same = std::find(schedule.outputs.begin(), schedule.outputs.end(), schedule.outputs[i]);
    size_t first = static_cast<size_t>(same - schedule.outputs.begin());
    if (first < i) output.same = static_cast<int>(first);
    outputs.push_back(output);
  }
  return outputs;
}

std::vector<std::vector<int>> FindReplaceable(const Graph& graph, const Schedule& schedule,
                                              const std::vector<int>& group_last) {
  std::vector<OutputSource> outputs = FindOutputSources(schedule);
  std::vector<std::vector<int>> replaceable(outputs.size());
  for (size_t o = 0; o < outputs.size(); ++o) {
    if (outputs[o].input >= 0 || outputs[o].same >= 0) continue;
    for (size_t i = 0; i < schedule.inputs.size(); ++i) {
      int64_t bytes = schedule.buffers[Index(schedule.inputs[i])].bytes();
      if (bytes != schedule.buffers[Index(schedule.outputs[o])].bytes() || bytes == 0) continue;
      if (MayReplace(graph, schedule, group_last, schedule.outputs[o], schedule.inputs[i])) {
        replaceable[o].push_back(static_cast<int>(i));
      }
    }
  }
  return replaceable;
}

std::string LargestBuffers(const Graph& graph, const Schedule& schedule) {
  constexpr size_t kShown = 3;
  std::vector<size_t> written;
  for (const Step& step : schedule.steps) {
    for (int buffer : step.writes) written.push_back(Index(buffer));
  }
  auto larger = [&](size_t a, size_t b) {
    return schedule.buffers[a].bytes() > schedule.buffers[b].bytes();
  };
  std::stable_sort(written.begin(), written.end(), larger);
  std::string text;
  for (size_t k = 0; k < std::min(written.size(), kShown); ++k) {
    auto after = std::upper_bound(schedule.first.begin(), schedule.first.end(),
                                  static_cast<int>(written[k]));
    const GraphNode& node = graph[static_cast<NodeId>(after - schedule.first.begin()) - 1];
    std::string where = LocationText(node.location);
    text += fmt::format("{}{} of {} ({} bytes){}{}", k == 0 ? "" : ", ",
                        schedule.buffers[written[k]].to_string(), node.op->name(),
                        schedule.buffers[written[k]].bytes(), where.empty() ? "" : " at ", where);
  }
  return text;
}

}  // namespace hammock::compiler
