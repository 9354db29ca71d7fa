#pragma once
/// Where the buffers of a schedule lie: inputs and outputs have memory of their own, all others
/// share one arena in which those that live at different times overlap, and results of kernels take
/// the memory of operands that die with them.

#include <cstdint>
#include <vector>

#include "hammock/compiler/schedule.h"

namespace hammock::compiler {

inline constexpr int64_t kBufferAlignment = 64;

struct MemoryPlan {
  BufferMap<int64_t> offset;            ///< in the arena; -1: not there
  std::vector<int64_t> scratch_offset;  ///< by command: in the arena; -1: needs none
  int64_t arena_bytes = 0;
  int64_t output_bytes = 0;
  /// Bytes that a run takes besides its inputs.
  int64_t peak_bytes() const { return arena_bytes + output_bytes; }
};

template <class Io>
void Fields(Io& io, MemoryPlan& plan) {
  io(plan.offset, plan.scratch_offset, plan.arena_bytes, plan.output_bytes);
}

/// `scratch` is what each command needs for itself while it runs. `group_last`: for each command
/// the last of those that may run at the same time; empty where each runs alone.
HAMMOCK_API MemoryPlan PlanMemory(const Schedule& schedule, const std::vector<int64_t>& scratch,
                                  const std::vector<int>& group_last = {});
/// The same at other sizes than the schedule's own, at which the buffers have these bytes. No
/// result takes the memory of an operand: accesses of kernels are known at the schedule's own sizes
/// only.
HAMMOCK_API MemoryPlan PlanMemory(const Schedule& schedule, const BufferMap<int64_t>& bytes,
                                  const std::vector<int64_t>& scratch,
                                  const std::vector<int>& group_last);

}  // namespace hammock::compiler
