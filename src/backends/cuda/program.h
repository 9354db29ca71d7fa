#pragma once
/// Program: a graph compiled for a GPU, with a schedule, a memory plan and compiled kernels.
///
/// Note [Guarded kernels]: a run is launched before it is known whether its ops, or the runs whose
/// results it uses, have failed, and yet it writes into the memory of donated inputs. Every run
/// that may fail therefore has a word in device memory, which is not 0 if it has failed. A small
/// kernel sets it, behind the last op that can fail: from the words in which ops note faults, and
/// from the words of earlier runs that may have failed. Kernels that write outputs come behind that
/// kernel, read the word first and do nothing if it is set; so donated memory keeps its old value
/// exactly if the run failed, and failures pass from run to run without the host. Only outputs of
/// such kernels, and of calls that read the word too, take donated memory then: the writes of
/// libraries cannot be held back.
/// Runs that cannot fail and use no result that may have failed use variants of the same kernels
/// that read no word.

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/common/target_programs.h"
#include "backends/cuda/calls/calls.h"
#include "backends/cuda/command_order.h"
#include "backends/cuda/driver/cuda_graph_cache.h"
#include "backends/cuda/driver/machine.h"
#include "backends/cuda/driver/varying_numbers.h"
#include "backends/cuda/shared_parts.h"
#include "compiler/sizes/sized_schedule.h"
#include "hammock/compiler/donation_plan.h"
#include "hammock/compiler/memory_plan.h"
#include "hammock/compiler/program_outputs.h"
#include "hammock/compiler/schedule.h"
#include "hammock/ir/graph.h"
#include "hammock/lazy/backend_interface.h"

namespace hammock::cuda {

struct Target;

/// The words by which a run reports and learns of failures; see Note [Guarded kernels].
struct RunFaults {
  Address faults = 0;  ///< fault_count() words that are 0, in memory that the host can read too
  /// In device memory: the run's own word, which it sets, or that of the only run that it depends
  /// on. 0: nothing is held back.
  Address failed = 0;
  std::span<const Address> earlier = {};  ///< words of runs that may have failed; at most kMost
  static constexpr size_t kMost = 8;
};

struct Arrangement;
struct PreparedCommand;
struct SliceStart;

/// Immutable; several threads may run it at once, each with memory of its own.
class Program {
 public:
  static constexpr int64_t kSpreadBytes = 8 << 20;

  /// The graph has primitives that WhyNot accepts. Up to `spread_bytes`, values have memory of
  /// their own, so that commands in a CUDA graph wait only for the values that they read.
  Program(const Graph& graph, std::shared_ptr<Machine> machine,
          int64_t spread_bytes = kSpreadBytes);
  /// A schedule for many sizes at some of them; null where there is one for its own sizes only.
  struct AtSizes {
    std::shared_ptr<const compiler::SizedSchedule> schedule;
    compiler::SizedSchedule::Basis basis;
    std::shared_ptr<SharedParts> shared;

    bool Varies(int command) const { return schedule && schedule->varies(command); }
  };
  /// The graph was rewritten and scheduled. Commands that vary share no launch with others, because
  /// the text of a joint kernel depends on the sizes of its parts. The starts of slices of a `body`
  /// are not known when a run begins.
  Program(compiler::ScheduledGraph scheduled, std::shared_ptr<Machine> machine, AtSizes at = {},
          int64_t spread_bytes = kSpreadBytes, bool body = false);
  Program(const SavedProgram& saved, std::shared_ptr<Machine> machine, bool body = false);
  ~Program();

  /// Null if the order was chosen for these sizes: another one would have taken too much memory.
  std::shared_ptr<const Arrangement> arrangement() const {
    return is_typical_ ? arrangement_ : nullptr;
  }
  /// The program at other sizes, with the arrangement of one that was made before; null if its
  /// order takes too much memory there, or its calls differ in more than sizes.
  static std::shared_ptr<Program> Arranged(std::shared_ptr<const Arrangement> arrangement,
                                           std::shared_ptr<Machine> machine, AtSizes at);

  /// Whether it is an instance of a program for many sizes.
  bool is_sized() const { return at_.schedule != nullptr; }
  SavedProgram Save() const;   ///< of one that is not sized
  const Graph& graph() const;  ///< after the passes; its sizes may differ
  /// The programs inside, and those inside of these.
  void AddBodies(std::vector<const Program*>& bodies) const;

  /// The programs at other sizes of the same graph, if it has dim parameters.
  std::shared_ptr<ProgramsBySize<Target>> by_size;

  const std::vector<compiler::OutputSource>& outputs() const;
  const compiler::MemoryPlan& plan() const { return plan_; }
  /// The plan for guarded runs, or for others; see Note [Guarded kernels].
  const compiler::DonationPlan& donations(bool guarded) const;
  VaryingNumbers& numbers() const { return *numbers_; }
  std::string LargestBuffers() const;
  int64_t bytes() const;
  int kernels() const;
  /// The number of words in which a run notes faults. If there are any, CheckFaults must be called.
  int fault_count() const;
  /// Whether a run sends to other ranks what it computes.
  bool has_collectives() const;

  const std::vector<SliceStart>& starts() const;
  /// Throws the error of a slice that cannot begin at `value`, as CheckFaults does.
  void CheckStart(const SliceStart& start, int64_t value) const;

  /// All starts were checked. `arena` has plan().arena_bytes. Outputs with another source are not
  /// used. With the option `cuda.dump_failures` every command is waited for, and a MachineLost says
  /// where it happened.
  void Run(std::span<const Address> inputs, std::span<const Address> outputs, Address arena,
           const RunFaults& faults, const lazy::RunProfile* profile = nullptr) const;
  /// Runs as a part of another program's run, which owns the fault words.
  void RunInside(std::span<const Address> inputs, std::span<const Address> outputs, Address arena,
                 Address faults) const {
    LoadVariant(/*guarded=*/false);
    RunCommands({BuffersOf(inputs, outputs, arena), arena, {.faults = faults}});
  }
  /// Throws the error of a run that has ended, from its fault words, as lazy::ExecutionError with
  /// the node of the graph that was given.
  void CheckFaults(const uint64_t* faults) const;
  /// The same without throwing it.
  std::optional<Call::Fault> FindFault(const uint64_t* faults, NodeId* node = nullptr) const;

  /// The ops of the program and a source line, for errors that cannot be attributed to a command.
  std::string NamesOfCommands() const;
  std::string Where() const;

  /// The kernels of this program and of programs inside it.
  std::vector<KernelSource> Sources() const;
  /// For people: the graph, its commands and memory, and the `cuda` or `ptx` text of its kernels.
  std::string ToText(std::string_view what) const;
  /// The same in parts, by command.
  lazy::ComputationInfo Describe() const;

 private:
  /// The memory that a run uses.
  struct Memory {
    compiler::BufferMap<Address> buffers;
    Address arena = 0;
    RunFaults faults;

    bool guarded() const { return faults.failed != 0; }
    /// Whether the run has a word of its own to set.
    bool gathers() const {
      return guarded() && (faults.earlier.size() != 1 || faults.earlier[0] != faults.failed);
    }
  };

  Program(std::shared_ptr<Machine> machine, AtSizes at);
  const compiler::Schedule& schedule() const;
  const std::vector<int>& group_last() const;
  const compiler::Launch& LaunchOf(size_t i) const;
  /// Graph and schedule at the program's sizes.
  compiler::ScheduledGraph AtOwnSizes() const;
  compiler::BufferMap<int64_t> BufferBytes() const;

  static std::shared_ptr<PreparedCommand> PreparedKernel(const compiler::Launch& launch,
                                                         bool varies);
  std::shared_ptr<PreparedCommand> PreparedCall(const Graph& graph, NodeId id) const;
  void PrepareCommands(bool body = false);
  /// The commands that vary, memory and functions; false where the arrangement is none for these
  /// sizes.
  bool PrepareAsArranged();
  bool PlanAsArranged();
  /// Groups small concurrent kernels where memory allows, and plans the memory.
  void Arrange();
  /// Moves kernels that write outputs behind the commands that can fail, where memory allows;
  /// `joins` goes by command.
  void DeferWrites(std::vector<bool>& joins);
  int LastFault() const;  ///< the last command that can fail in a run
  void FindGuarded();
  void FindStarts();
  /// A plan in which values have memory of their own; nothing if it takes more than `most` bytes,
  /// or some command updates a value.
  std::optional<compiler::MemoryPlan> SpreadPlan(const compiler::BufferMap<int64_t>& bytes,
                                                 int64_t most) const;
  void Reorder(const std::vector<int>& order);
  void FormGroups(const std::vector<std::vector<int>>& groups);
  /// The parts that follow from the order and the groups of the commands.
  void Finish();
  void FindDonations();
  std::vector<int64_t> ScratchOfCommands() const;
  /// Kernels of the group that begins with this command.
  std::vector<KernelSource> SourcesOf(size_t first, bool guarded) const;
  /// The key of the kernel of that group, which is no call.
  KernelKey KeyOf(size_t first, bool guarded) const;
  std::shared_ptr<Function> KnownKernel(size_t first, bool guarded) const;
  /// Which variant of the kernels, guarded or not, most runs need.
  bool IsUsuallyGuarded() const { return fault_count() > 0; }
  void LoadFunctions();
  /// Loads the guarded or plain variants of kernels. Few programs need both, so the second variant
  /// is loaded when a run first needs it.
  void LoadVariant(bool guarded) const;
  compiler::BufferMap<Address> BuffersOf(std::span<const Address> inputs,
                                         std::span<const Address> outputs, Address arena) const;
  void RunCommands(const Memory& memory) const;
  /// The same in parts: each group of commands.
  std::vector<Piece> PiecesOf(const std::vector<Address>& addresses, Memory memory) const;
  std::vector<TouchedMemory> TouchedByPieces(const Memory& memory) const;
  TouchedMemory TouchedBy(size_t i, const Memory& memory,
                          const compiler::BufferMap<int64_t>& bytes) const;
  /// Sets the run's word if that is due in front of the group that begins with command `i`.
  void Gather(size_t i, const Memory& memory) const;
  bool GathersBefore(size_t i, const Memory& memory) const;
  /// Before a collective of several ranks: raises what has failed in the run so far.
  void CheckBeforeExchange(size_t i, const Memory& memory) const;
  bool IsExchange(size_t i) const;
  /// Runs the group that begins with command `i`; returns the command after it.
  size_t RunGroup(size_t i, const Memory& memory) const;
  void RunAlone(size_t i, const Memory& memory) const;
  /// Does `work` of command `i`, and names the command in errors.
  void NameErrors(size_t i, const std::function<void()>& work) const;
  Address ScratchOf(size_t i, const Memory& memory) const;
  /// The arguments of a kernel that is no part of a joint one.
  std::vector<uint64_t> ArgumentsOf(size_t i, const Memory& memory) const;
  Address FaultOf(size_t i, const Memory& memory) const;
  /// As RunCommands, and says which command lost the machine.
  void RunWatched(const Memory& memory) const;
  /// As RunCommands, and writes the times of commands to metrics, or into a profile.
  void RunTimed(const Memory& memory, const lazy::RunProfile* profile) const;
  std::string NameOfCommand(size_t i) const;
  std::string NameOfGroup(size_t first) const;
  void RunCall(size_t i, const Memory& memory) const;

  std::shared_ptr<Machine> machine_;
  AtSizes at_;
  std::shared_ptr<Arrangement> arrangement_;  // not changed once the program is made
  bool is_typical_ = true;  // no order of the commands was refused because of its memory
  compiler::MemoryPlan plan_;
  std::vector<int64_t> scratch_;  // bytes, by command
  std::vector<std::shared_ptr<const PreparedCommand>> commands_;
  /// By command, of the first of a group: plain and guarded. May be loaded late.
  struct Variants {
    std::shared_ptr<Function> functions[2];
  };
  mutable std::vector<Variants> functions_;
  mutable std::shared_ptr<Function> gather_;
  mutable std::once_flag other_variant_;
  // State that runs leave for later ones.
  const std::unique_ptr<CudaGraphCache> graphs_ = std::make_unique<CudaGraphCache>();
  const std::unique_ptr<KnownOrders> orders_ = std::make_unique<KnownOrders>();
  const std::unique_ptr<VaryingNumbers> numbers_ = std::make_unique<VaryingNumbers>();
};

}  // namespace hammock::cuda
