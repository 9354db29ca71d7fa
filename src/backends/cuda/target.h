#pragma once
/// The CUDA backend's Target; see backends/common/target_programs.h.

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "backends/cuda/passes/cuda_passes.h"
#include "backends/cuda/program.h"
#include "backends/cuda/shared_parts.h"

namespace hammock::cuda {

/// A schedule for sizes in a range, and the parts that its programs share.
class SizedParts {
 public:
  explicit SizedParts(std::shared_ptr<const compiler::SizedSchedule> schedule)
      : schedule_(std::move(schedule)) {}

  bool Covers(const std::vector<int64_t>& free) const { return schedule_->Covers(free); }
  /// The arrangement has a schedule too.
  int64_t bytes() const { return 2 * schedule_->bytes(); }
  SavedSizes Save() const { return {schedule_, {}}; }
  void AddBodies(std::vector<const Program*>& bodies) const { shared_->AddBodies(bodies); }
  /// By the arrangement of the first program, where it is one for these sizes.
  std::shared_ptr<Program> At(const std::vector<int64_t>& free,
                              const std::shared_ptr<Machine>& machine) const;

 private:
  const std::shared_ptr<const compiler::SizedSchedule> schedule_;
  const std::shared_ptr<SharedParts> shared_ = std::make_shared<SharedParts>();
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Arrangement> arrangement_;  // of the first program
};

struct Target {
  using Program = cuda::Program;
  using Sized = SizedParts;

  std::shared_ptr<Machine> machine;

  metrics::Counter& scheduled() const;

  Graph Rewrite(const Graph& graph) const { return RewriteForCuda(graph); }
  compiler::Schedule Schedule(const Graph& rewritten) const { return ScheduleForCuda(rewritten); }
  std::shared_ptr<const Sized> Share(
      std::shared_ptr<const compiler::SizedSchedule> schedule) const {
    return std::make_shared<const Sized>(std::move(schedule));
  }
  std::shared_ptr<const Sized> Share(SavedSizes saved) const {
    return std::make_shared<const Sized>(std::move(saved.schedule));
  }
  std::shared_ptr<Program> At(const std::shared_ptr<const Sized>& sized,
                              const std::vector<int64_t>& free) const {
    return sized->At(free, machine);
  }
  std::shared_ptr<Program> Make(const Graph& graph) const {
    return std::make_shared<Program>(graph, machine);
  }
  std::shared_ptr<Program> Make(const SavedProgram& saved) const {
    return std::make_shared<Program>(saved, machine);
  }
};

}  // namespace hammock::cuda
