#include "backends/cuda/side_by_side.h"

#include <algorithm>
#include <utility>

namespace hammock::cuda {

using compiler::Step;

namespace {

constexpr size_t kMostWaiting = 256;  // what they read stays in memory

bool Contains(const std::vector<int>& list, int number) {
  return std::find(list.begin(), list.end(), number) != list.end();
}

bool Meet(const std::vector<int>& a, const std::vector<int>& b) {
  return std::any_of(a.begin(), a.end(), [&](int buffer) { return Contains(b, buffer); });
}

/// By step: what it reads and its results may be written over.
std::vector<std::vector<int>> OverwrittenBuffers(const compiler::Schedule& schedule,
                                                 const std::vector<std::vector<int>>& replaceable) {
  std::vector<std::vector<int>> overwritten(schedule.steps.size());
  std::vector<std::vector<int>> inputs_of(schedule.buffers.size());
  for (size_t output = 0; output < replaceable.size(); ++output) {
    for (int input : replaceable[output]) {
      inputs_of[static_cast<size_t>(schedule.outputs[output])].push_back(
          schedule.inputs[static_cast<size_t>(input)]);
    }
  }
  for (size_t i = 0; i < schedule.steps.size(); ++i) {
    const Step& step = schedule.steps[i];
    if (step.updates >= 0) overwritten[i].push_back(step.updates);
    for (int buffer : step.writes) {
      for (int input : inputs_of[static_cast<size_t>(buffer)]) {
        if (Contains(step.reads, input)) overwritten[i].push_back(input);
      }
    }
  }
  return overwritten;
}

}  // namespace

std::vector<std::vector<int>> GroupSteps(const compiler::Schedule& schedule,
                                         const std::vector<bool>& waits,
                                         const std::vector<std::vector<int>>& replaceable) {
  const std::vector<Step>& steps = schedule.steps;
  std::vector<std::vector<int>> overwritten = OverwrittenBuffers(schedule, replaceable);
  std::vector<std::vector<int>> groups;
  std::vector<int> waiting;  // independent of each other
  for (size_t i = 0; i < steps.size(); ++i) {
    auto comes_first = [&](int w) {
      const Step& earlier = steps[static_cast<size_t>(w)];
      return Meet(earlier.writes, steps[i].reads) || Meet(earlier.reads, overwritten[i]);
    };
    auto rest = std::stable_partition(waiting.begin(), waiting.end(), comes_first);
    if (rest != waiting.begin()) groups.emplace_back(waiting.begin(), rest);
    waiting.erase(waiting.begin(), rest);
    if (waiting.size() == kMostWaiting) groups.push_back(std::exchange(waiting, {}));
    if (waits[i]) {
      waiting.push_back(static_cast<int>(i));
    } else {
      groups.push_back({static_cast<int>(i)});
    }
  }
  if (!waiting.empty()) groups.push_back(waiting);
  return groups;
}

}  // namespace hammock::cuda
