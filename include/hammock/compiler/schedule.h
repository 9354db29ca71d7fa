#pragma once
/// From a graph of primitives to commands that run one after another: kernels, each made of as many
/// nodes as fit, and calls of single nodes that no kernel can hold.
///
/// A node is a root if a loop nest of its own computes it once: it is needed in memory, it is a
/// reduction, or computing it again for every user would cost more than keeping it. All others are
/// inlined where they are used. A root that no other command needs never reaches memory.

#include <string>
#include <vector>

#include "hammock/compiler/kernel.h"
#include "hammock/ir/pass.h"

namespace hammock::compiler {

/// A kernel, a call of one node, or both: the call of a contraction (a matmul or convolution) that
/// runs the kernel on each part of its result (attach_epilogues.h).
struct Command {
  Launch launch;      ///< of a kernel
  NodeId node;        ///< of a call
  int row_loops = 0;  ///< of both: how many of launch.outer are over rows of the call's result
  std::vector<NodeId> nodes;    ///< what it computes
  std::vector<BufferId> reads;  ///< each once
  std::vector<BufferId> writes;
  /// Of a call that changes a part of what it reads: that buffer, whose memory the result may take
  /// if nothing reads it later. What can fail does so before the first write.
  BufferId updates;

  bool is_call() const { return static_cast<bool>(node); }
};

template <class Io>
void Fields(Io& io, Command& command) {
  io(command.launch, command.node, command.row_loops, command.nodes, command.reads, command.writes,
     command.updates);
}

/// The element type and count of a buffer. Large graphs have many: sizes stay in the graph.
class BufferType {
 public:
  BufferType() = default;
  BufferType(const Shape& type) : BufferType(type.dtype(), type.numel()) {}  // NOLINT: converts
  BufferType(DType dtype, int64_t numel) : numel_(numel), dtype_(dtype) {}

  DType dtype() const { return dtype_; }
  int64_t numel() const { return numel_; }
  int64_t bytes() const { return hammock::BytesOf(dtype_, numel_); }

  template <class Io>
  friend void Fields(Io& io, BufferType& type) {
    io(type.numel_, type.dtype_);
  }

 private:
  int64_t numel_ = 0;
  DType dtype_ = DType::kF32;
};

/// Every value of the graph has a buffer, of which only those that are in memory are used, in
/// row-major order.
struct Schedule {
  BufferMap<BufferType> buffers;
  NodeMap<BufferId> first;  ///< of its first value
  std::vector<Command> commands;
  std::vector<BufferId> inputs;
  std::vector<BufferId> outputs;  ///< the type may differ from the output's, its bytes do not
  /// By the value's own buffer: the one that has the value. The same for most, that of an operand
  /// for what only passes on its bytes.
  BufferMap<BufferId> buffer_of;

  BufferId OwnBufferOf(GraphValue value) const { return first[value.node] + value.index; }
  BufferId BufferOf(GraphValue value) const { return buffer_of[OwnBufferOf(value)]; }
};

template <class Io>
void Fields(Io& io, Schedule& schedule) {
  io(schedule.buffers, schedule.first, schedule.commands, schedule.inputs, schedule.outputs,
     schedule.buffer_of);
}

/// The passes that a graph needs before it is scheduled: arg_max and arg_min become reductions, and
/// every reduction one over a single dim. With `memory_budget`, cheap values are computed again
/// instead of kept.
HAMMOCK_API std::vector<Pass> SchedulePasses();

/// Whether a node becomes a part of kernels. All others are calls, which a backend runs by code of
/// its own. Of a reduction: after SchedulePasses.
HAMMOCK_API bool IsInKernels(const Graph& graph, NodeId node);

/// `aligned_outputs`: results begin at multiples of 64 bytes, so that they may be written past the
/// caches. `epilogues`: calls of contractions may run kernels on parts of their results.
/// `rows_apart`: work on the results of long reductions and on inputs of their size becomes kernels
/// of its own.
HAMMOCK_API Schedule MakeSchedule(const Graph& graph, bool aligned_outputs = true,
                                  bool epilogues = true, bool rows_apart = false);

HAMMOCK_API BufferMap<int64_t> BytesOf(const Schedule& schedule);

HAMMOCK_API std::string ToText(const Schedule& schedule, const Graph& graph);

/// Shows a schedule as the results of passes are shown: with `print_passes` and by `hammock dump`.
/// For the one that a program is made of, under the name `schedule`, and after each rewrite of it.
HAMMOCK_API void ShowSchedule(const char* name, const Graph& graph, const Schedule& schedule);

}  // namespace hammock::compiler
