#include "backends/cuda/passes/late_writes.h"

#include <algorithm>

namespace hammock::cuda {

using compiler::BufferId;
using compiler::BufferMap;

namespace {

class Buffers {
 public:
  explicit Buffers(const compiler::Schedule& schedule)
      : schedule_(schedule),
        is_input_(schedule.buffers.size()),
        is_output_(schedule.buffers.size()) {
    for (BufferId buffer : schedule.inputs) is_input_[buffer] = true;
    for (BufferId buffer : schedule.outputs) is_output_[buffer] = true;
  }

  /// Whether a kernel updates an input, as far as sizes tell.
  bool MayUpdate(const compiler::Command& command) const {
    for (BufferId to : command.writes) {
      if (!is_output_[to]) continue;
      for (BufferId from : command.reads) {
        if (is_input_[from] && BytesOf(from) == BytesOf(to)) return true;
      }
    }
    return false;
  }

 private:
  int64_t BytesOf(BufferId buffer) const { return schedule_.buffers[buffer].bytes(); }

  const compiler::Schedule& schedule_;
  BufferMap<bool> is_input_, is_output_;
};

}  // namespace

std::vector<int> WriteLate(const compiler::Schedule& schedule, int fault) {
  const Buffers buffers(schedule);
  BufferMap<bool> is_read(schedule.buffers.size());  // by a command that stays
  std::vector<int> order, late;
  for (int i = fault; i >= 0; --i) {  // readers of a result come behind its writer
    const compiler::Command& command = schedule.commands[i];
    const bool is_needed = std::any_of(command.writes.begin(), command.writes.end(),
                                       [&](BufferId buffer) { return is_read[buffer]; });
    if (!command.is_call() && !is_needed && buffers.MayUpdate(command)) {
      late.push_back(i);
      continue;
    }
    for (BufferId buffer : command.reads) is_read[buffer] = true;
    order.push_back(i);
  }
  if (late.empty()) return {};
  std::reverse(order.begin(), order.end());
  order.insert(order.end(), late.rbegin(), late.rend());
  for (size_t i = order.size(); i < schedule.commands.size(); ++i)
    order.push_back(static_cast<int>(i));
  return order;
}

}  // namespace hammock::cuda
