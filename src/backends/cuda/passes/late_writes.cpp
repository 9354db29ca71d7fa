#include "backends/cuda/passes/late_writes.h"

#include <algorithm>

namespace hammock::cuda {

namespace {

class Buffers {
 public:
  explicit Buffers(const compiler::Schedule& schedule)
      : schedule_(schedule),
        is_input_(schedule.buffers.size()),
        is_output_(schedule.buffers.size()) {
    for (int buffer : schedule.inputs) is_input_[static_cast<size_t>(buffer)] = true;
    for (int buffer : schedule.outputs) is_output_[static_cast<size_t>(buffer)] = true;
  }

  /// Whether a kernel updates an input, as far as sizes tell.
  bool MayUpdate(const compiler::Command& command) const {
    for (int to : command.writes) {
      if (!is_output_[static_cast<size_t>(to)]) continue;
      for (int from : command.reads) {
        if (is_input_[static_cast<size_t>(from)] && BytesOf(from) == BytesOf(to)) return true;
      }
    }
    return false;
  }

 private:
  int64_t BytesOf(int buffer) const {
    return schedule_.buffers[static_cast<size_t>(buffer)].bytes();
  }

  const compiler::Schedule& schedule_;
  std::vector<bool> is_input_, is_output_;
};

}  // namespace

std::vector<int> WriteLate(const compiler::Schedule& schedule, int fault) {
  const Buffers buffers(schedule);
  std::vector<bool> is_read(schedule.buffers.size());  // by a command that stays
  std::vector<int> order, late;
  for (int i = fault; i >= 0; --i) {  // readers of a result come behind its writer
    const compiler::Command& command = schedule.commands[static_cast<size_t>(i)];
    const bool is_needed =
        std::any_of(command.writes.begin(), command.writes.end(),
                    [&](int buffer) { return is_read[static_cast<size_t>(buffer)]; });
    if (!command.is_call() && !is_needed && buffers.MayUpdate(command)) {
      late.push_back(i);
      continue;
    }
    for (int buffer : command.reads) is_read[static_cast<size_t>(buffer)] = true;
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
