#include "backends/cuda/late_writes.h"

#include <algorithm>

namespace hammock::cuda {

std::vector<int> WriteLate(const compiler::Schedule& schedule, int fault) {
  std::vector<bool> is_output(schedule.buffers.size());
  for (int buffer : schedule.outputs) is_output[static_cast<size_t>(buffer)] = true;
  std::vector<bool> is_read(schedule.buffers.size());  // by a step that stays
  std::vector<int> order, late;
  for (int i = fault; i >= 0; --i) {  // who reads a result comes behind who writes it
    const compiler::Step& step = schedule.steps[static_cast<size_t>(i)];
    auto any = [&](const std::vector<bool>& of) {
      return std::any_of(step.writes.begin(), step.writes.end(),
                         [&](int buffer) { return of[static_cast<size_t>(buffer)]; });
    };
    if (!step.is_call() && any(is_output) && !any(is_read)) {
      late.push_back(i);
      continue;
    }
    for (int buffer : step.reads) is_read[static_cast<size_t>(buffer)] = true;
    order.push_back(i);
  }
  if (late.empty()) return {};
  std::reverse(order.begin(), order.end());
  order.insert(order.end(), late.rbegin(), late.rend());
  for (size_t i = order.size(); i < schedule.steps.size(); ++i)
    order.push_back(static_cast<int>(i));
  return order;
}

}  // namespace hammock::cuda
