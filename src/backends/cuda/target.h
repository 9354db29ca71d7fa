#pragma once
/// The CUDA backend's Target; see backends/common/target_programs.h.

#include <memory>
#include <utility>
#include <vector>

#include "backends/cuda/program.h"
#include "backends/cuda/shared_parts.h"

namespace hammock::cuda {

/// A schedule for sizes in a range, and the parts that its programs share.
class SizedParts {
 public:
  explicit SizedParts(std::shared_ptr<const compiler::SizedSchedule> schedule);

  bool Covers(const std::vector<int64_t>& free) const { return schedule_->Covers(free); }
  int64_t bytes() const { return schedule_->bytes(); }
  SavedSizes Save() const { return {schedule_, {}}; }
  const compiler::SizedSchedule& schedule() const { return *schedule_; }
  const Program::AtSizes& parts() const { return parts_; }

 private:
  const std::shared_ptr<const compiler::SizedSchedule> schedule_;
  Program::AtSizes parts_;
};

struct Target {
  using Program = cuda::Program;
  using Sized = SizedParts;

  std::shared_ptr<Machine> machine;

  metrics::Counter& scheduled() const;

  Graph Rewrite(const Graph& graph) const { return RewriteForCuda(graph); }
  compiler::Schedule Schedule(const Graph& rewritten) const { return ScheduleForCuda(rewritten); }
  std::shared_ptr<const Sized> Share(const compiler::SizedSchedule::Made& made) const {
    return std::make_shared<const Sized>(made.sized);
  }
  std::shared_ptr<const Sized> Share(SavedSizes saved) const {
    return std::make_shared<const Sized>(std::move(saved.schedule));
  }
  std::shared_ptr<Program> At(const std::shared_ptr<const Sized>& sized,
                              const std::vector<int64_t>& free) const {
    const compiler::SizedSchedule& schedule = sized->schedule();
    return std::make_shared<Program>(schedule.At(schedule.BasisAt(free)), machine, sized->parts());
  }
  std::shared_ptr<Program> Make(const Graph& graph) const {
    return std::make_shared<Program>(graph, machine);
  }
  std::shared_ptr<Program> Make(const SavedProgram& saved) const {
    return std::make_shared<Program>(saved, machine);
  }
};

}  // namespace hammock::cuda
