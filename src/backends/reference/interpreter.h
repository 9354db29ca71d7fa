#pragma once
/// The interpreter: runs a Graph of primitives on host tensors. Slow, simple and complete; the
/// reference for tests of all other backends, and their fallback.
///
/// Floats are computed in double and rounded to the dtype at each op; reductions and matmuls
/// accumulate in double. Integers are computed in 64 bits and wrap to their width.

#include <memory>
#include <span>
#include <vector>

#include "hammock/host_tensor.h"
#include "hammock/ir/graph.h"

namespace hammock::reference {

/// Hooks of a run. The defaults allocate plainly and observe nothing.
class Hooks {
 public:
  virtual ~Hooks();
  /// Called before each node, also of loop and branch bodies; may throw.
  virtual void BeforeNode(const GraphNode& node);
  /// Memory for a result of `op`.
  virtual HostTensor Allocate(const Shape& shape, const OpDef& op);
};

/// A graph prepared for running: kernels looked up, values assigned to slots that are reused after
/// their last use. Immutable; several threads may run it. Borrows the graph.
class Program {
 public:
  /// Throws NotSupported that names the first node without a kernel.
  explicit Program(const Graph& graph);
  ~Program();
  Program(Program&&) noexcept;

  const Graph& graph() const { return *graph_; }
  int64_t bytes() const;  ///< that this object holds

  /// One tensor per output. An error raised by a node is thrown as lazy::ExecutionError with that
  /// node's id (of this graph, also when the fault lies in a nested one), OutOfMemory as it is.
  std::vector<HostTensor> Run(std::span<const HostTensor> inputs, Hooks& hooks) const;

 private:
  struct Command;
  class Planner;
  void RunCommand(const Command& command, std::vector<HostTensor>& slots, Hooks& hooks) const;

  const Graph* graph_;
  std::vector<Command> commands_;
  std::vector<int32_t> operands_;  // slots of all commands' operands, -1 for absent ones
  std::vector<int32_t> results_;   // slots of all commands' results
  std::vector<int32_t> releases_;  // slots that are free after each command
  std::vector<int32_t> input_slots_;
  std::vector<int32_t> output_slots_;
  std::vector<Program> nested_;  // of all commands' graph attributes
  int32_t slot_count_ = 0;
};

/// Prepares and runs once.
std::vector<HostTensor> Interpret(const Graph& graph, std::span<const HostTensor> inputs,
                                  Hooks* hooks = nullptr);

/// Whether the interpreter runs nodes of this op.
bool HasKernel(const OpDef& op);

}  // namespace hammock::reference
