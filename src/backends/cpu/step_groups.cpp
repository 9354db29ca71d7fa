#include "backends/cpu/step_groups.h"

#include <algorithm>

namespace hammock::cpu {

using compiler::Step;

namespace {

constexpr int64_t kSmallWork = 1 << 21;  // element instructions; several times what a tile has
constexpr size_t kMostSteps = 64;        // that live at once: their memory is freed together

/// The buffers that the steps of the current group read and write.
class Group {
 public:
  explicit Group(size_t buffers) : read_in_(buffers, -1), written_in_(buffers, -1) {}

  void Clear() { ++number_; }
  void Add(const Step& step) {
    for (int buffer : step.reads) read_in_[static_cast<size_t>(buffer)] = number_;
    for (int buffer : step.writes) written_in_[static_cast<size_t>(buffer)] = number_;
  }
  /// Whether a step and one of the group have to run one after another.
  bool DependsOn(const Step& step) const {
    auto any = [&](const std::vector<int>& buffers, const std::vector<int>& in) {
      return std::any_of(buffers.begin(), buffers.end(),
                         [&](int buffer) { return in[static_cast<size_t>(buffer)] == number_; });
    };
    return any(step.reads, written_in_) || any(step.writes, written_in_) ||
           any(step.writes, read_in_);
  }

 private:
  int number_ = 0;
  std::vector<int> read_in_, written_in_;  // by buffer: the number of the last group that did
};

}  // namespace

std::vector<int> GroupSteps(const compiler::Schedule& schedule, const std::vector<int64_t>& work) {
  const std::vector<Step>& steps = schedule.steps;
  auto is_small = [&](size_t i) {
    return !steps[i].is_call() && work[i] >= 0 && work[i] <= kSmallWork;
  };
  std::vector<int> last(steps.size());
  Group group(schedule.buffers.size());
  for (size_t first = 0; first < steps.size();) {
    size_t end = first;
    group.Clear();
    auto joins = [&] {
      return end < steps.size() && end - first < kMostSteps && is_small(end) &&
             !group.DependsOn(steps[end]);
    };
    do {
      group.Add(steps[end++]);
    } while (is_small(first) && joins());
    for (; first < end; ++first) last[first] = static_cast<int>(end) - 1;
  }
  return last;
}

}  // namespace hammock::cpu
