#include "backends/cpu/step_groups.h"

#include <algorithm>

namespace hammock::cpu {

using compiler::Step;

namespace {

constexpr int64_t kSmallWork = 1 << 21;  // element instructions; several times what a tile has
constexpr int kMostSteps = 64;           // that live at once: their memory is freed together

bool Meet(const std::vector<int>& a, const std::vector<int>& b) {
  return std::any_of(a.begin(), a.end(),
                     [&](int buffer) { return std::find(b.begin(), b.end(), buffer) != b.end(); });
}

bool Depend(const Step& a, const Step& b) {
  return Meet(a.writes, b.reads) || Meet(a.writes, b.writes) || Meet(a.reads, b.writes);
}

}  // namespace

std::vector<int> GroupSteps(const compiler::Schedule& schedule, const std::vector<int64_t>& work) {
  const std::vector<Step>& steps = schedule.steps;
  auto is_small = [&](size_t i) {
    return !steps[i].is_call() && work[i] >= 0 && work[i] <= kSmallWork;
  };
  std::vector<int> last(steps.size());
  for (size_t first = 0; first < steps.size();) {
    size_t end = first + 1;
    auto joins = [&](size_t i) {
      return is_small(i) && std::none_of(steps.begin() + static_cast<ptrdiff_t>(first),
                                         steps.begin() + static_cast<ptrdiff_t>(i),
                                         [&](const Step& step) { return Depend(step, steps[i]); });
    };
    while (is_small(first) && end < steps.size() && end - first < kMostSteps && joins(end)) ++end;
    for (; first < end; ++first) last[first] = static_cast<int>(end) - 1;
  }
  return last;
}

}  // namespace hammock::cpu
