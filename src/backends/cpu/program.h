#pragma once
/// Program: a graph compiled for the CPU, with a schedule, a memory plan and kernels that are
/// interpreted until they are compiled.

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/common/target_programs.h"
#include "backends/cpu/prepared_command.h"
#include "base/process_exit.h"
#include "compiler/passes/pass.h"
#include "compiler/sizes/sized_schedule.h"
#include "hammock/compiler/donation_plan.h"
#include "hammock/compiler/memory_plan.h"
#include "hammock/compiler/program_outputs.h"
#include "hammock/compiler/schedule.h"
#include "hammock/ir/graph.h"
#include "hammock/lazy/backend_interface.h"

namespace hammock::lazy {
struct RunProfile;
}

namespace hammock::cpu {

class SizedProgram;
struct Target;

std::vector<Pass> CpuPasses();
/// A graph of primitives after CpuPasses.
Graph RewriteForCpu(const Graph& graph);
/// Counted and shown. See Program for `aligned_outputs`.
compiler::Schedule ScheduleForCpu(const Graph& rewritten, bool aligned_outputs);
/// By command: the last command of its group, whose commands are concurrent.
std::vector<int> GroupsOf(const compiler::Schedule& schedule);

class RunningCollectives;

/// Immutable; several threads may run it at once, each with memory of its own.
class Program {
 public:
  /// The graph has primitives only, with operands as in lowered graphs.
  explicit Program(const Graph& graph);
  /// For a graph that was rewritten, such as a body. Outputs begin at multiples of 64 bytes, unless
  /// `aligned_outputs` is false: the outputs of a loop's body are rows of a stack.
  explicit Program(std::shared_ptr<const Graph> rewritten, bool aligned_outputs = false);
  explicit Program(SavedProgram saved);
  /// `sized` at sizes of the free parameters that it covers.
  Program(std::shared_ptr<const SizedProgram> sized, const std::vector<int64_t>& sizes);
  ~Program();

  using Output = compiler::OutputSource;
  /// The parts that do not depend on sizes.
  struct Facts {
    Facts(const Graph& graph, const compiler::Schedule& schedule, std::vector<int> groups);

    std::vector<int> group_last;  ///< by command: the last command of its group
    std::vector<Output> outputs;
    std::vector<size_t> first_write;  ///< by output: the first command that writes it
    compiler::DonationPlan donations;
    std::vector<size_t> checked_first;  ///< commands that can be checked before the run begins
    std::unique_ptr<std::atomic<const void*>[]> seen;  ///< by command: the weight of its last run
  };

  const std::vector<Output>& outputs() const { return facts_->outputs; }
  const compiler::MemoryPlan& plan() const { return plan_; }
  const Graph& graph() const { return *graph_; }  ///< after the passes; its sizes may differ
  int64_t bytes() const;                          ///< held by this alone and by programs inside
  int kernels() const;
  /// Whether it is an instance of a program for many sizes.
  bool is_sized() const { return sized_ != nullptr; }
  void AddKernels(std::vector<std::shared_ptr<KernelCode>>& kernels) const;
  SavedProgram Save() const;  ///< of one that is not sized
  /// The programs inside, and those inside of these.
  void AddBodies(std::vector<const Program*>& bodies) const;
  /// The programs at other sizes of the same graph, if it has dim parameters.
  std::shared_ptr<ProgramsBySize<Target>> by_size;

  /// An input, or a cast of it, that a command reads as a packed weight, if it is given one.
  struct Weight {
    int input = -1;
    size_t command = 0;
    const Call::PackedWeightSpec* spec = nullptr;
  };
  const std::vector<Weight>& weights() const { return weights_; }
  void PackWeight(const Weight& weight, const HostTensor& input, char* packed) const;
  /// Whether the run before this one had the same data for a weight.
  bool SeenBefore(size_t weight, const void* data) const {
    return facts_->seen[weights_[weight].command].exchange(data, std::memory_order_relaxed) == data;
  }

  /// `arena` has plan().arena_bytes, aligned to 64. Outputs with another source are not used. An
  /// error raised by a call is thrown as lazy::ExecutionError with the node of the graph that was
  /// given. `packed_weights` go by weights(), null where there is none. `taken`: by output, the
  /// donated input whose memory it takes, or -1; from the first of these on the run cannot be
  /// cancelled.
  void Run(std::span<char* const> inputs, std::span<char* const> outputs, char* arena,
           std::span<char* const> packed_weights = {}, std::span<const int> taken = {},
           const lazy::RunProfile* profile = nullptr) const;

  /// Which outputs may take the memory of donated inputs.
  const compiler::DonationPlan& donations() const { return facts_->donations; }

  /// The largest buffers of a run, for messages.
  std::string LargestBuffers() const;
  /// For people: the graph, its commands and memory, and the `llvm` or `assembly` of kernels.
  std::string ToText(std::string_view what) const;
  /// The same in parts, by command; see describe.cpp.
  lazy::ComputationInfo Describe(std::string_view what) const;

 private:
  std::string CommandName(size_t command) const;
  /// Graph and schedule at the sizes of this program.
  compiler::ScheduledGraph AtOwnSizes() const;
  /// "llvm" or "assembly" of a command's kernel, or empty.
  std::string CodeText(size_t command, std::string_view what) const;
  /// The implementation of a call, or null.
  const char* CallName(size_t command) const;
  /// A value that is only read as packed weights. Where all of them are given, it has no buffer,
  /// and the kernel that computes it does not run.
  struct WeightCast {
    compiler::BufferId value;
    std::vector<size_t> weights;  ///< by weights()
  };
  std::vector<WeightCast> FindWeightCasts() const;
  void RunProfiled(compiler::BufferSpan<char*> buffers, char* arena, size_t in_place,
                   const lazy::RunProfile& profile) const;
  /// Which collectives may be under way while other commands run; see running_collectives.h.
  void FindOverlap(const compiler::BufferMap<int64_t>& bytes);
  /// Runs commands [first, end) when the collectives that they need have ended, or starts one.
  void RunOverlapped(size_t first, size_t end, compiler::BufferSpan<char*> buffers, char* arena,
                     RunningCollectives& collectives) const;
  void RunCommands(size_t first, size_t end, compiler::BufferSpan<char*> buffers,
                   char* arena) const;
  void PrepareCommands();
  /// The rest of the preparation after the commands: threads, memory, weights. `bytes` are the
  /// sizes of the buffers.
  void Finish(const compiler::BufferMap<int64_t>& bytes, const SavedProgram* saved = nullptr);
  std::vector<int64_t> ScratchOfCommands() const;
  void ChooseWorkers();
  size_t FirstWriteInPlace(std::span<const int> taken) const;
  char* ScratchOf(size_t command, char* arena) const;
  void RunKernels(size_t first, size_t end, compiler::BufferSpan<char*> buffers, char* arena) const;

  std::shared_ptr<const SizedProgram> sized_;  // the program that this one instantiates, or null
  std::vector<int64_t> sizes_;                 // at which sizes
  std::shared_ptr<const Graph> graph_;         // as it is run; at other sizes if there is `sized_`
  std::shared_ptr<const compiler::Schedule> schedule_;
  std::shared_ptr<const Facts> facts_;
  std::vector<std::shared_ptr<const PreparedCommand>> commands_;
  std::vector<int> workers_;  // by command: threads that run a kernel at once
  const bool calls_libraries_ = !process_exit::LibraryCall::Closed();  // perhaps
  compiler::MemoryPlan plan_;
  std::vector<Weight> weights_;
  std::vector<WeightCast> weight_casts_;
  /// How a command relates to collectives; empty where the program has none of several ranks.
  enum class Overlap : uint8_t { kNone, kCollective, kStarts, kWaitsForAll };
  std::vector<Overlap> overlap_;
  compiler::BufferMap<int64_t> bytes_;  // of buffers, where there are collectives
};

}  // namespace hammock::cpu
