#include "backends/cpu/command_groups.h"

#include <algorithm>

namespace hammock::cpu {

using compiler::BufferId;
using compiler::BufferMap;
using compiler::Command;

namespace {

constexpr int64_t kSmallWork = 1 << 21;  // element instructions; several times what a tile has
constexpr size_t kMostCommands = 64;     // that live at once: their memory is freed together

/// The buffers that the commands of the current group read and write.
class Group {
 public:
  explicit Group(size_t buffers) : read_in_(buffers, -1), written_in_(buffers, -1) {}

  void Clear() { ++number_; }
  void Add(const Command& command) {
    for (BufferId buffer : command.reads) read_in_[buffer] = number_;
    for (BufferId buffer : command.writes) written_in_[buffer] = number_;
  }
  /// Whether a command and one of the group have to run one after another.
  bool DependsOn(const Command& command) const {
    auto any = [&](const std::vector<BufferId>& buffers, const BufferMap<int>& in) {
      return std::any_of(buffers.begin(), buffers.end(),
                         [&](BufferId buffer) { return in[buffer] == number_; });
    };
    return any(command.reads, written_in_) || any(command.writes, written_in_) ||
           any(command.writes, read_in_);
  }

 private:
  int number_ = 0;
  BufferMap<int> read_in_, written_in_;  // the number of the last group that did
};

}  // namespace

std::vector<int> GroupCommands(const compiler::Schedule& schedule,
                               const std::vector<int64_t>& work) {
  const std::vector<Command>& commands = schedule.commands;
  auto is_small = [&](size_t i) {
    return !commands[i].is_call() && work[i] >= 0 && work[i] <= kSmallWork;
  };
  std::vector<int> last(commands.size());
  Group group(schedule.buffers.size());
  for (size_t first = 0; first < commands.size();) {
    size_t end = first;
    group.Clear();
    auto joins = [&] {
      return end < commands.size() && end - first < kMostCommands && is_small(end) &&
             !group.DependsOn(commands[end]);
    };
    do {
      group.Add(commands[end++]);
    } while (is_small(first) && joins());
    for (; first < end; ++first) last[first] = static_cast<int>(end) - 1;
  }
  return last;
}

}  // namespace hammock::cpu
