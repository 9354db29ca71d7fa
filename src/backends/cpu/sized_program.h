#pragma once
/// Programs of a graph with dim parameters. The parts that all sizes share are made once; a program
/// at new sizes needs arithmetic and the calls whose shapes change. See Note [Sized schedules].

#include <memory>
#include <vector>

#include "backends/cpu/program.h"
#include "compiler/loops/by_range.h"
#include "compiler/sizes/sized_schedule.h"

namespace hammock::cpu {

/// The parts that programs at a range of sizes share. Immutable.
class SizedProgram {
 public:
  /// Around these sizes of the free parameters of `general`; null if programs there have
  /// different steps.
  static std::shared_ptr<const SizedProgram> Make(const Graph& general, const DerivedSizes& derived,
                                                  const std::vector<int64_t>& free);

  explicit SizedProgram(SavedSizes saved);
  SavedSizes Save() const { return {schedule_, facts_.group_last, donates_}; }
  void AddKernels(std::vector<std::shared_ptr<KernelCode>>& kernels) const;

  const compiler::SizedSchedule& schedule() const { return *schedule_; }
  bool Covers(const std::vector<int64_t>& free) const { return schedule_->Covers(free); }
  const Program::Facts& facts() const { return facts_; }
  /// The same object for all sizes if the step does not vary. `bytes` are the sizes of the buffers.
  std::shared_ptr<const PreparedStep> StepAt(size_t step,
                                             const compiler::SizedSchedule::Basis& basis,
                                             const std::vector<int64_t>& bytes) const;
  int64_t bytes() const;

 private:
  static bool Donates(const compiler::SizedSchedule::Made& made,
                      const std::vector<int>& group_last);

  std::shared_ptr<const compiler::SizedSchedule> schedule_;
  Program::Facts facts_;
  bool donates_;
  std::vector<bool> read_;                                  // by buffer
  std::vector<std::shared_ptr<KernelCode>> codes_;          // by step, null for mere calls
  std::vector<std::shared_ptr<const PreparedStep>> steps_;  // null for those that vary
};

/// Programs of one graph at all its sizes. Thread-safe.
class ProgramsBySize {
 public:
  ProgramsBySize(Graph general, DerivedSizes derived)
      : general_(std::move(general)), derived_(std::move(derived)) {}

  std::shared_ptr<Program> At(const std::vector<int64_t>& sizes);
  int64_t bytes() const { return made_.bytes(); }
  void Add(SavedSizes saved) { made_.Add(std::make_shared<SizedProgram>(std::move(saved))); }
  std::vector<std::shared_ptr<const SizedProgram>> all() const { return made_.all(); }

 private:
  const Graph general_;
  const DerivedSizes derived_;
  compiler::ByRange<SizedProgram> made_;
};

}  // namespace hammock::cpu
