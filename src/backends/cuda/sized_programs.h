#pragma once
/// ProgramsBySize: programs of a graph with dim parameters. A program at new sizes reuses the
/// rewritten graph and its schedule; see Note [Sized schedules].

#include <memory>
#include <vector>

#include "backends/cuda/program.h"
#include "compiler/loops/by_range.h"
#include "compiler/sizes/sized_schedule.h"

namespace hammock::cuda {

/// Thread-safe.
class ProgramsBySize {
 public:
  ProgramsBySize(Graph general, DerivedSizes derived, std::shared_ptr<Machine> machine)
      : general_(std::move(general)), derived_(std::move(derived)), machine_(std::move(machine)) {}

  std::shared_ptr<Program> At(const std::vector<int64_t>& sizes);
  int64_t bytes() const { return made_.bytes(); }
  void Add(const SavedSizes& saved);
  std::vector<SavedSizes> Save() const;

 private:
  /// A schedule for sizes in a range, and the parts that its programs share.
  struct Sized {
    std::shared_ptr<const compiler::SizedSchedule> schedule;
    std::vector<bool> varies;  // by step
    std::shared_ptr<SharedParts> shared;

    bool Covers(const std::vector<int64_t>& sizes) const { return schedule->Covers(sizes); }
    int64_t bytes() const { return schedule->bytes(); }
  };
  std::shared_ptr<const Sized> Make(const std::vector<int64_t>& free) const;
  static std::shared_ptr<const Sized> With(std::shared_ptr<const compiler::SizedSchedule> schedule);

  const Graph general_;
  const DerivedSizes derived_;
  const std::shared_ptr<Machine> machine_;
  compiler::ByRange<Sized> made_;
};

}  // namespace hammock::cuda
