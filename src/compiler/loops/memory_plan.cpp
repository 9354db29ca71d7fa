#include "hammock/compiler/memory_plan.h"

#include <algorithm>
#include <map>
#include <set>

#include "compiler/loops/overwritable.h"

namespace hammock::compiler {
namespace {

/// The arena as gaps between what is in use.
class Gaps {
 public:
  /// The smallest gap that holds `bytes`, else room at the end, whose free part is used too.
  int64_t Take(int64_t bytes) {
    if (auto best = by_size_.lower_bound({bytes, 0}); best != by_size_.end()) {
      auto [size, at] = *best;
      Remove(at, size);
      if (size > bytes) Add(at + bytes, size - bytes);
      return at;
    }
    int64_t at = end_;
    if (!gaps_.empty()) {
      auto [last, size] = *gaps_.rbegin();
      if (last + size == end_) {
        at = last;
        Remove(last, size);
      }
    }
    end_ = at + bytes;
    return at;
  }

  void Give(int64_t at, int64_t bytes) {
    auto next = gaps_.lower_bound(at);
    if (next != gaps_.begin()) {
      auto [before, size] = *std::prev(next);
      if (before + size == at) {
        Remove(before, size);
        at = before;
        bytes += size;
      }
    }
    if (next != gaps_.end() && next->first == at + bytes) {
      auto [after, size] = *next;
      Remove(after, size);
      bytes += size;
    }
    Add(at, bytes);
  }

  int64_t end() const { return end_; }

 private:
  void Add(int64_t at, int64_t bytes) {
    gaps_[at] = bytes;
    by_size_.insert({bytes, at});
  }
  void Remove(int64_t at, int64_t bytes) {
    gaps_.erase(at);
    by_size_.erase({bytes, at});
  }

  std::map<int64_t, int64_t> gaps_;                // bytes by offset
  std::set<std::pair<int64_t, int64_t>> by_size_;  // bytes, offset
  int64_t end_ = 0;
};

int64_t Aligned(int64_t bytes) {
  return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

/// The command after which a buffer is free: the last of the group that uses it last.
BufferMap<int> LastUses(const Schedule& schedule, const std::vector<int>& group_last) {
  BufferMap<int> last_use(schedule.buffers.size(), -1);
  for (size_t i = 0; i < schedule.commands.size(); ++i) {
    int last = group_last.empty() ? static_cast<int>(i) : group_last[i];
    for (BufferId buffer : schedule.commands[i].reads) last_use[buffer] = last;
    for (BufferId buffer : schedule.commands[i].writes) last_use[buffer] = last;
  }
  return last_use;
}

/// Whether no other command may run at the same time.
bool RunsAlone(size_t command, const std::vector<int>& group_last) {
  if (group_last.empty()) return true;
  const int number = static_cast<int>(command);
  return group_last[command] == number && (command == 0 || group_last[command - 1] < number);
}

/// Accesses of kernels are those of the schedule's own sizes: only there may results take the
/// memory of operands.
MemoryPlan Plan(const Schedule& schedule, const BufferMap<int64_t>& bytes,
                const std::vector<int64_t>& scratch, const std::vector<int>& group_last,
                bool own_sizes) {
  MemoryPlan plan;
  plan.offset.assign(schedule.buffers.size(), -1);
  plan.scratch_offset.assign(schedule.commands.size(), -1);
  BufferMap<int> last_use = LastUses(schedule, group_last);
  BufferMap<bool> outside(schedule.buffers.size());
  for (BufferId buffer : schedule.inputs) outside[buffer] = true;
  for (BufferId buffer : schedule.outputs) {
    if (!outside[buffer]) {
      plan.output_bytes += bytes[buffer];
    }
    outside[buffer] = true;
  }
  Gaps gaps;
  auto bytes_of = [&](BufferId buffer) { return Aligned(bytes[buffer]); };
  std::vector<BufferId> taken;  // by results of the command
  auto overwritten_by = [&](size_t i, BufferId result) {
    const Command& command = schedule.commands[i];
    if (command.is_call() || !RunsAlone(i, group_last)) return BufferId();
    for (BufferId read : OverwrittenBy(command, result)) {
      const bool dies = plan.offset[read] >= 0 && last_use[read] == static_cast<int>(i);
      const bool fits = bytes[read] == bytes[result] && bytes[read] > 0 &&
                        InfoOf(schedule.buffers[read].dtype()).bits ==
                            InfoOf(schedule.buffers[result].dtype()).bits;
      if (dies && fits && std::find(taken.begin(), taken.end(), read) == taken.end()) return read;
    }
    return BufferId();
  };
  std::vector<BufferId> used;                                 // buffers of the group
  std::vector<std::pair<int64_t, int64_t>> scratch_of_group;  // offset, bytes
  for (size_t i = 0; i < schedule.commands.size(); ++i) {
    const Command& command = schedule.commands[i];
    bool in_place = command.updates && plan.offset[command.updates] >= 0 &&
                    last_use[command.updates] == static_cast<int>(i) && !outside[command.writes[0]];
    if (in_place) {
      plan.offset[command.writes[0]] = plan.offset[command.updates];
    }
    for (BufferId buffer : command.writes) {
      int64_t& offset = plan.offset[buffer];
      if (outside[buffer] || offset >= 0) continue;
      const BufferId overwritten = own_sizes ? overwritten_by(i, buffer) : BufferId();
      if (overwritten) {
        offset = plan.offset[overwritten];
        taken.push_back(overwritten);
      } else {
        offset = gaps.Take(bytes_of(buffer));
      }
    }
    if (int64_t own = Aligned(scratch[i]); own > 0) {
      plan.scratch_offset[i] = gaps.Take(own);
      scratch_of_group.emplace_back(plan.scratch_offset[i], own);
    }
    used.insert(used.end(), command.reads.begin(), command.reads.end());
    used.insert(used.end(), command.writes.begin(), command.writes.end());
    if (in_place) taken.push_back(command.updates);
    for (BufferId buffer : taken) std::erase(used, buffer);  // a result has its memory now
    taken.clear();
    if (!group_last.empty() && group_last[i] != static_cast<int>(i)) continue;
    if (i + 1 == schedule.commands.size()) break;  // nothing takes what would be given back
    for (auto [at, own] : scratch_of_group) gaps.Give(at, own);
    std::sort(used.begin(), used.end());
    used.erase(std::unique(used.begin(), used.end()), used.end());
    for (BufferId buffer : used) {
      int64_t offset = plan.offset[buffer];
      if (offset >= 0 && last_use[buffer] == static_cast<int>(i) && bytes_of(buffer) > 0) {
        gaps.Give(offset, bytes_of(buffer));
      }
    }
    used.clear();
    scratch_of_group.clear();
  }
  plan.arena_bytes = gaps.end();
  return plan;
}

}  // namespace

MemoryPlan PlanMemory(const Schedule& schedule, const std::vector<int64_t>& scratch,
                      const std::vector<int>& group_last) {
  return Plan(schedule, BytesOf(schedule), scratch, group_last, /*own_sizes=*/true);
}

MemoryPlan PlanMemory(const Schedule& schedule, const BufferMap<int64_t>& bytes,
                      const std::vector<int64_t>& scratch, const std::vector<int>& group_last) {
  return Plan(schedule, bytes, scratch, group_last, /*own_sizes=*/false);
}

}  // namespace hammock::compiler
