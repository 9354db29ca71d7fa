#include "backends/cuda/fuse_random.h"

#include <algorithm>
#include <utility>

#include "compiler/fusion_facts.h"
#include "ops/primitives.h"

namespace hammock::cuda {

using compiler::Access;
using compiler::Instr;
using compiler::Kernel;
using compiler::Launch;
using compiler::Level;
using compiler::Schedule;
using compiler::Step;

namespace {

bool Contains(const std::vector<int>& list, int number) {
  return std::find(list.begin(), list.end(), number) != list.end();
}

/// Whether a step has every word of `buffer` as an element of a line.
bool CanDraw(const Step& step, int buffer) {
  if (step.is_call() || step.launch.kernel->lanes_along_rows) return false;
  const Kernel& kernel = *step.launch.kernel;
  return std::all_of(kernel.instrs.begin(), kernel.instrs.end(), [&](const Instr& instr) {
    if (instr.access < 0) return true;
    const compiler::AccessMap& map = step.launch.maps[static_cast<size_t>(instr.access)];
    return map.buffer != buffer || (instr.level == Level::kElement && map.column == 1);
  });
}

void Draw(Launch& launch, int words, int state) {
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
  for (size_t i = 0; i < schedule.steps.size();) {
    const NodeId node = schedule.steps[i].node;
    const int words = schedule.steps[i].is_call() ? schedule.steps[i].writes[0] : -1;
    bool fits = node >= 0 && graph[node].op == &ops::kRngBits &&
                !Contains(schedule.outputs, words) &&
                std::all_of(schedule.steps.begin(), schedule.steps.end(), [&](const Step& step) {
                  return !Contains(step.reads, words) || CanDraw(step, words);
                });
    if (!fits) {
      ++i;
      continue;
    }
    const int state = schedule.BufferOf(compiler::StorageOf(graph, graph[node].inputs[0]));
    bool named = false;  // by the first step that draws
    for (Step& step : schedule.steps) {
      if (!Contains(step.reads, words)) continue;
      Draw(step.launch, words, state);
      std::erase(step.reads, words);
      if (!Contains(step.reads, state)) step.reads.push_back(state);
      if (!std::exchange(named, true)) step.nodes.insert(step.nodes.begin(), node);
    }
    schedule.steps.erase(schedule.steps.begin() + static_cast<ptrdiff_t>(i));
  }
  return schedule;
}

}  // namespace hammock::cuda
