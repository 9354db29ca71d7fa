#include "backends/cuda/concurrent_commands.h"

#include <algorithm>
#include <utility>

namespace hammock::cuda {

using compiler::BufferId;
using compiler::BufferMap;
using compiler::Command;

namespace {

constexpr size_t kMostWaiting = 256;  // the operands of waiting commands stay in memory

/// By command: the buffers that it reads and may overwrite with its results.
std::vector<std::vector<BufferId>> OverwrittenBuffers(const compiler::Schedule& schedule) {
  BufferMap<bool> is_output(schedule.buffers.size());
  for (BufferId buffer : schedule.outputs) is_output[buffer] = true;
  BufferMap<int> last_reader(schedule.buffers.size(), -1);
  for (size_t i = 0; i < schedule.commands.size(); ++i) {
    for (BufferId buffer : schedule.commands[i].reads) {
      last_reader[buffer] = static_cast<int>(i);
    }
  }
  std::vector<std::vector<BufferId>> overwritten(schedule.commands.size());
  for (BufferId input : schedule.inputs) {
    int reader = last_reader[input];
    if (reader < 0) continue;
    const std::vector<BufferId>& writes = schedule.commands[reader].writes;
    int64_t bytes = schedule.buffers[input].bytes();
    bool fits = std::any_of(writes.begin(), writes.end(), [&](BufferId buffer) {
      return is_output[buffer] && schedule.buffers[buffer].bytes() == bytes;
    });
    if (fits) overwritten[reader].push_back(input);
  }
  for (size_t i = 0; i < schedule.commands.size(); ++i) {
    if (schedule.commands[i].updates) overwritten[i].push_back(schedule.commands[i].updates);
  }
  return overwritten;
}

/// Commands that wait to run concurrently, none of which reads a result of another.
class Waiting {
 public:
  explicit Waiting(const compiler::Schedule& schedule)
      : commands_(schedule.commands),
        writer_(schedule.buffers.size(), -1),
        readers_(schedule.buffers.size()) {}

  size_t size() const { return waiting_.size(); }
  void Add(int command) {
    waiting_.push_back(command);
    for (BufferId buffer : At(command).writes) writer_[buffer] = command;
    for (BufferId buffer : At(command).reads) readers_[buffer].push_back(command);
  }
  /// Takes the commands that write a buffer of `reads` or read one of `overwritten`.
  std::vector<int> TakeBefore(const std::vector<BufferId>& reads,
                              const std::vector<BufferId>& overwritten) {
    std::vector<int> first;
    for (BufferId buffer : reads) {
      int writer = writer_[buffer];
      if (writer >= 0) first.push_back(writer);
    }
    for (BufferId buffer : overwritten) {
      const std::vector<int>& readers = readers_[buffer];
      first.insert(first.end(), readers.begin(), readers.end());
    }
    if (first.empty()) return first;
    std::sort(first.begin(), first.end());
    first.erase(std::unique(first.begin(), first.end()), first.end());
    for (int command : first) Forget(command);
    std::erase_if(waiting_, [&](int command) {
      return std::binary_search(first.begin(), first.end(), command);
    });
    return first;
  }
  std::vector<int> TakeAll() {
    for (int command : waiting_) Forget(command);
    return std::exchange(waiting_, {});
  }

 private:
  const Command& At(int command) const { return commands_[command]; }
  void Forget(int command) {
    for (BufferId buffer : At(command).writes) writer_[buffer] = -1;
    for (BufferId buffer : At(command).reads) std::erase(readers_[buffer], command);
  }

  const std::vector<Command>& commands_;
  std::vector<int> waiting_;             // in their order
  BufferMap<int> writer_;                // the waiting command that writes it; -1: none
  BufferMap<std::vector<int>> readers_;  // the waiting commands that read it
};

}  // namespace

std::vector<std::vector<int>> GroupCommands(const compiler::Schedule& schedule,
                                            const std::vector<bool>& waits) {
  const std::vector<Command>& commands = schedule.commands;
  std::vector<std::vector<BufferId>> overwritten = OverwrittenBuffers(schedule);
  std::vector<std::vector<int>> groups;
  Waiting waiting(schedule);
  auto add = [&](std::vector<int> group) {
    if (!group.empty()) groups.push_back(std::move(group));
  };
  for (size_t i = 0; i < commands.size(); ++i) {
    add(waiting.TakeBefore(commands[i].reads, overwritten[i]));
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
