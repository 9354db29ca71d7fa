#pragma once
/// The parts that programs of one graph at many sizes share: a program at new sizes needs
/// arithmetic and the calls whose shapes change. See Note [Sized schedules].

#include <memory>
#include <vector>

#include "backends/cpu/program.h"
#include "compiler/sizes/sized_schedule.h"

namespace hammock::cpu {

/// The parts that programs at a range of sizes share. Immutable.
class SizedProgram {
 public:
  explicit SizedProgram(SavedSizes saved);
  SavedSizes Save() const { return {schedule_, facts_.group_last}; }
  void AddKernels(std::vector<std::shared_ptr<KernelCode>>& kernels) const;
  /// The programs inside of commands that do not vary, and those inside of these.
  void AddBodies(std::vector<const Program*>& bodies) const;

  const compiler::SizedSchedule& schedule() const { return *schedule_; }
  bool Covers(const std::vector<int64_t>& free) const { return schedule_->Covers(free); }
  const Program::Facts& facts() const { return facts_; }
  /// The same object for all sizes if the command does not vary. `bytes` are the sizes of the
  /// buffers.
  std::shared_ptr<const PreparedCommand> CommandAt(size_t command,
                                                   const compiler::SizedSchedule::Basis& basis,
                                                   const compiler::BufferMap<int64_t>& bytes) const;
  int64_t bytes() const;

 private:
  std::shared_ptr<const compiler::SizedSchedule> schedule_;
  Program::Facts facts_;
  compiler::BufferMap<bool> read_;
  std::vector<std::shared_ptr<KernelCode>> codes_;                // by command, null for mere calls
  std::vector<std::shared_ptr<const PreparedCommand>> commands_;  // null for those that vary
};

/// See backends/common/target_programs.h.
struct Target {
  using Program = cpu::Program;
  using Sized = SizedProgram;

  metrics::Counter& scheduled() const;
  Graph Rewrite(const Graph& graph) const { return RewriteForCpu(graph); }
  /// Whether results are written past the caches is asked at every size.
  compiler::Schedule Schedule(const Graph& rewritten) const {
    return ScheduleForCpu(rewritten, /*aligned_outputs=*/false);
  }
  std::shared_ptr<const Sized> Share(std::shared_ptr<const compiler::SizedSchedule> made) const;
  std::shared_ptr<const Sized> Share(SavedSizes saved) const {
    return std::make_shared<const Sized>(std::move(saved));
  }
  std::shared_ptr<Program> At(std::shared_ptr<const Sized> sized,
                              const std::vector<int64_t>& free) const {
    return std::make_shared<Program>(std::move(sized), free);
  }
  std::shared_ptr<Program> Make(const Graph& graph) const {
    return std::make_shared<Program>(graph);
  }
  std::shared_ptr<Program> Make(SavedProgram saved) const {
    return std::make_shared<Program>(std::move(saved));
  }
};

}  // namespace hammock::cpu
