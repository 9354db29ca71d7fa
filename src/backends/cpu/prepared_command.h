#pragma once
/// PreparedCommand: one command of a program, ready to run at certain sizes.

#include <memory>
#include <optional>
#include <vector>

#include "backends/cpu/calls/calls.h"
#include "backends/cpu/kernel_command.h"
#include "hammock/compiler/schedule.h"

namespace hammock::cpu {

/// Immutable; programs at several sizes may share one.
struct PreparedCommand {
  /// The parts of a command that differ from the schedule because the sizes are others.
  struct Sized {
    std::unique_ptr<const compiler::Launch> launch;  ///< null: the schedule's
    std::unique_ptr<const Graph> call;  ///< its last node is called; null: the schedule's node
  };

  /// Command `index` of a schedule of `graph`. Both are borrowed, but for what `sized` has of its
  /// own. `code` is that of its kernel, if it has one.
  PreparedCommand(const Graph& graph, const compiler::Schedule& schedule, size_t index, Sized sized,
                  std::shared_ptr<KernelCode> code);

  int64_t scratch_bytes(int workers) const {
    return call ? call->scratch_bytes() : kernel->scratch_bytes() * workers;
  }
  int64_t bytes() const;  ///< held by this and by programs inside
  /// Its kernels, and those of programs inside.
  void AddKernels(std::vector<std::shared_ptr<KernelCode>>& kernels) const;
  /// The programs inside, and those inside of these.
  void AddBodies(std::vector<const Program*>& bodies) const;
  /// Runs a call on buffers of the schedule. Errors name the node of the graph as given.
  void RunCall(compiler::BufferSpan<char*> buffers, char* scratch) const;
  void CheckCall(compiler::BufferSpan<char*> buffers) const;

  std::unique_ptr<const compiler::Launch> own_launch;
  std::unique_ptr<const Graph> own_graph;
  std::optional<KernelCommand> kernel;
  std::unique_ptr<Call> call;            ///< where there is no kernel
  std::shared_ptr<KernelCode> epilogue;  ///< of a call that runs a kernel on parts of its result
  std::vector<compiler::BufferId> operands;  ///< of the call
  std::vector<compiler::BufferId> results;
  Call::PackedWeightSpec packed_weight;  ///< of an input of the program, or of a cast of one
  int packed_input = -1;             ///< that input; packed, it is the buffer PackedBuffer(index)
  DType packed_dtype = DType::kF32;  ///< of the operand

  // For errors: of the graph as given.
  NodeId node;
  LocationId location = 0;

  /// Packed weights are buffers behind those of the schedule, one for each command.
  static compiler::BufferId PackedBuffer(const compiler::Schedule& schedule, size_t command) {
    return compiler::BufferId(schedule.buffers.size() + command);
  }

 private:
  void PrepareCall(const Graph& graph, const compiler::Schedule& schedule, size_t index,
                   const compiler::Launch& launch, std::shared_ptr<KernelCode> code);
  [[noreturn]] void RethrowAtNode() const;
};

}  // namespace hammock::cpu
