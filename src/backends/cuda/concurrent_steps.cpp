#include "backends/cuda/concurrent_steps.h"

#include <algorithm>
#include <utility>

namespace hammock::cuda {

using compiler::Step;

namespace {

constexpr size_t kMostWaiting = 256;  // the operands of waiting steps stay in memory

/// By step: the buffers that it reads and may overwrite with its results.
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

/// Steps that wait to run concurrently, none of which reads a result of another.
class Waiting {
 public:
  explicit Waiting(const compiler::Schedule& schedule)
      : steps_(schedule.steps),
        writer_(schedule.buffers.size(), -1),
        readers_(schedule.buffers.size()) {}

  size_t size() const { return waiting_.size(); }
  void Add(int step) {
    waiting_.push_back(step);
    for (int buffer : At(step).writes) writer_[static_cast<size_t>(buffer)] = step;
    for (int buffer : At(step).reads) readers_[static_cast<size_t>(buffer)].push_back(step);
  }
  /// Takes the steps that write a buffer of `reads` or read one of `overwritten`.
  std::vector<int> TakeBefore(const std::vector<int>& reads, const std::vector<int>& overwritten) {
    std::vector<int> first;
    for (int buffer : reads) {
      int writer = writer_[static_cast<size_t>(buffer)];
      if (writer >= 0) first.push_back(writer);
    }
    for (int buffer : overwritten) {
      const std::vector<int>& readers = readers_[static_cast<size_t>(buffer)];
      first.insert(first.end(), readers.begin(), readers.end());
    }
    if (first.empty()) return first;
    std::sort(first.begin(), first.end());
    first.erase(std::unique(first.begin(), first.end()), first.end());
    for (int step : first) Forget(step);
    std::erase_if(waiting_,
                  [&](int step) { return std::binary_search(first.begin(), first.end(), step); });
    return first;
  }
  std::vector<int> TakeAll() {
    for (int step : waiting_) Forget(step);
    return std::exchange(waiting_, {});
  }

 private:
  const Step& At(int step) const { return steps_[static_cast<size_t>(step)]; }
  void Forget(int step) {
    for (int buffer : At(step).writes) writer_[static_cast<size_t>(buffer)] = -1;
    for (int buffer : At(step).reads) std::erase(readers_[static_cast<size_t>(buffer)], step);
  }

  const std::vector<Step>& steps_;
  std::vector<int> waiting_;               // in their order
  std::vector<int> writer_;                // by buffer: the waiting step that writes it; -1: none
  std::vector<std::vector<int>> readers_;  // by buffer: the waiting steps that read it
};

}  // namespace

std::vector<std::vector<int>> GroupSteps(const compiler::Schedule& schedule,
                                         const std::vector<bool>& waits) {
  const std::vector<Step>& steps = schedule.steps;
  std::vector<std::vector<int>> overwritten = OverwrittenBuffers(schedule);
  std::vector<std::vector<int>> groups;
  Waiting waiting(schedule);
  auto add = [&](std::vector<int> group) {
    if (!group.empty()) groups.push_back(std::move(group));
  };
  for (size_t i = 0; i < steps.size(); ++i) {
    add(waiting.TakeBefore(steps[i].reads, overwritten[i]));
    if (waiting.size() == kMostWaiting) add(waiting.TakeAll());
    if (waits[i]) {
      waiting.Add(static_cast<int>(i));
    } else {
      groups.push_back({static_cast<int>(i)});
    }
  }
  add(waiting.TakeAll());
  return groups;
}

}  // namespace hammock::cuda
