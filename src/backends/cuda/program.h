#pragma once
/// A graph made ready to run on a GPU: scheduled, its memory planned, its kernels compiled.

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/cuda/calls.h"
#include "backends/cuda/machine.h"
#include "backends/cuda/recordings.h"
#include "backends/cuda/step_order.h"
#include "compiler/donation_plan.h"
#include "compiler/memory_plan.h"
#include "compiler/program_outputs.h"
#include "compiler/schedule.h"
#include "compiler/sized_schedule.h"
#include "hammock/ir/graph.h"
#include "hammock/lazy/backend_interface.h"

namespace hammock::tracing {
struct RunningGraph;
}

namespace hammock::cuda {

class ProgramsBySize;

/// A graph of primitives as programs run it.
Graph RewriteForCuda(const Graph& graph);
compiler::Schedule ScheduleForCuda(const Graph& rewritten);

/// Immutable; several threads may run it at once, each with memory of its own.
class Program {
 public:
  static constexpr int64_t kSpreadBytes = 8 << 20;

  /// Of primitives that WhyNot has nothing against. Up to `spread_bytes`, values have memory of
  /// their own, so that recorded steps wait for no other reason than the values they need.
  Program(const Graph& graph, std::shared_ptr<Machine> machine,
          int64_t spread_bytes = kSpreadBytes);
  /// Of a graph that was rewritten and scheduled. Steps of which `alone` says so share no launch
  /// with others: the text of a shared one depends on the sizes of its parts.
  Program(compiler::ScheduledGraph scheduled, std::shared_ptr<Machine> machine,
          const std::vector<bool>& alone = {}, int64_t spread_bytes = kSpreadBytes);
  ~Program();

  /// Those at other sizes of the same graph, where it has dim parameters.
  std::shared_ptr<ProgramsBySize> by_size;

  const std::vector<compiler::OutputSource>& outputs() const { return outputs_; }
  const compiler::MemoryPlan& plan() const { return plan_; }
  const compiler::DonationPlan& donations() const { return donations_; }
  std::string LargestBuffers() const { return compiler::LargestBuffers(graph_, schedule_); }
  int64_t bytes() const;
  int kernels() const;
  /// Steps that may fail in a run: if there are any, CheckFaults has to be asked.
  int fault_count() const { return fault_count_; }

  /// `arena` has plan().arena_bytes. `faults` has fault_count() words that are 0, in memory that
  /// the host can read too. Outputs with another source are not used. With the option
  /// `cuda.dump_failures` every step is waited for, and a MachineLost says where it happened.
  void Run(std::span<const Address> inputs, std::span<const Address> outputs, Address arena,
           Address faults) const;
  /// The same as a part of another program's run.
  void RunInside(std::span<const Address> inputs, std::span<const Address> outputs, Address arena,
                 Address faults) const {
    RunSteps({BuffersOf(inputs, outputs, arena), arena, faults});
  }
  /// Throws what failed in the run that had these words and has ended, as lazy::ExecutionError
  /// with the node of the graph that was given.
  void CheckFaults(const uint64_t* faults) const;
  /// The same without throwing it.
  std::optional<Call::Fault> FindFault(const uint64_t* faults, NodeId* node = nullptr) const;

  /// For errors that a run as a whole is blamed for: what it consists of, and a line of it.
  std::string NamesOfSteps() const;
  std::string Where() const;

  std::vector<KernelSource> Sources() const;
  /// For people: the graph, its steps and memory, and with `cuda` or `ptx` its kernels as such
  /// text.
  std::string ToText(std::string_view what) const;
  /// The same in parts, by step.
  lazy::ComputationInfo Describe() const;

 private:
  struct PreparedStep;
  /// What a run uses.
  struct Memory {
    std::vector<Address> buffers;
    Address arena = 0;
    Address faults = 0;
  };

  void PrepareSteps();
  /// Puts small kernels side by side where memory allows, and plans the memory.
  void Arrange(const std::vector<bool>& alone);
  void SpreadMemory(int64_t most);
  void Reorder(const std::vector<int>& order);
  void FormGroups(const std::vector<std::vector<int>>& groups);
  std::vector<int64_t> ScratchOfSteps() const;
  /// Kernels of the group that begins with this step.
  std::vector<KernelSource> SourcesOf(size_t first) const;
  void LoadFunctions();
  std::vector<Address> BuffersOf(std::span<const Address> inputs, std::span<const Address> outputs,
                                 Address arena) const;
  void RunSteps(const Memory& memory) const;
  /// The same in parts: each group of steps.
  std::vector<Piece> PiecesOf(const std::vector<Address>& addresses, Memory memory) const;
  std::vector<TouchedMemory> TouchedByPieces(const Memory& memory) const;
  TouchedMemory TouchedBy(size_t i, const Memory& memory) const;
  /// Step `i` with those of its group, if it is the first; the next step.
  size_t RunGroup(size_t i, const Memory& memory) const;
  void RunAlone(size_t i, const Memory& memory) const;
  /// Does `work` of step `i`; says so in errors.
  void Guarded(size_t i, const std::function<void()>& work) const;
  Address ScratchOf(size_t i, const Memory& memory) const;
  Address FaultOf(size_t i, const Memory& memory) const;
  /// As RunSteps, and says which step lost the machine.
  void RunWatched(const Memory& memory) const;
  /// As RunSteps, and writes the times of steps to metrics, or into a trace.
  void RunTimed(const Memory& memory, const tracing::RunningGraph* traced) const;
  std::string NameOfStep(size_t i) const;
  std::string NameOfGroup(size_t first) const;
  void RunCall(size_t i, const Memory& memory) const;

  std::shared_ptr<Machine> machine_;
  Graph graph_;
  compiler::Schedule schedule_;
  compiler::MemoryPlan plan_;
  std::vector<PreparedStep> steps_;
  std::vector<int> group_last_;  // by step: the last of those that run beside it
  std::vector<compiler::OutputSource> outputs_;
  compiler::DonationPlan donations_;
  int fault_count_ = 0;
  std::vector<int64_t> scratch_;  // bytes, by step
  std::unique_ptr<Recordings> recordings_;
  std::unique_ptr<KnownOrders> orders_;
};

}  // namespace hammock::cuda
