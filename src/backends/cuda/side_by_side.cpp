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
std::vector<std::vector<int>> OverwrittenBuffers(const compiler::Schedule& schedule) {
  std::vector<bool> is_output(schedule.buffers.size());
  for (int buffer : schedule.outputs) is_output[static_cast<size_t>(buffer)] = true;
  std::vector<int> last_reader(schedule.buffers.size(), -1);
  for (size_t i = 0; i < schedule.steps.size(); ++i) {
    for (int buffer : schedule.steps[i].reads) {
      last_reader[static_cast<size_t>(buffer)] = static_cast<int>(i);
    }
  }
  std::vector<std::vector<int>> overwritten(schedule.steps.size());
  for (int input : schedule.inputs) {
    int reader = last_reader[static_cast<size_t>(input)];
    if (reader < 0) continue;
    const std::vector<int>& writes = schedule.steps[static_cast<size_t>(reader)].writes;
    int64_t bytes = schedule.buffers[static_cast<size_t>(input)].bytes();
    bool fits = std::any_of(writes.begin(), writes.end(), [&](int buffer) {
      return is_output[static_cast<size_t>(buffer)] &&
             schedule.buffers[static_cast<size_t>(buffer)].bytes() == bytes;
    });
    if (fits) overwritten[static_cast<size_t>(reader)].push_back(input);
  }
  for (size_t i = 0; i < schedule.steps.size(); ++i) {
    if (schedule.steps[i].updates >= 0) overwritten[i].push_back(schedule.steps[i].updates);
  }
  return overwritten;
}

}  // namespace

std::vector<std::vector<int>> GroupSteps(const compiler::Schedule& schedule,
                                         const std::vector<bool>& waits) {
  const std::vector<Step>& steps = schedule.steps;
  std::vector<std::vector<int>> overwritten = OverwrittenBuffers(schedule);
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
