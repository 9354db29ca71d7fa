#include "backends/cuda/sized_programs.h"

#include "backends/cuda/shared_parts.h"
#include "hammock/metrics.h"
#include "ir/graph_sizes.h"

namespace hammock::cuda {

using compiler::SizedSchedule;

std::shared_ptr<const ProgramsBySize::Sized> ProgramsBySize::Make(
    const std::vector<int64_t>& free) const {
  compiler::SizedPlanner planner;
  planner.derived = derived_;
  planner.graph = [&](const std::vector<int64_t>& at) {
    Graph graph = AtSizes(general_, AllSizes(derived_, at));
    Verify(graph);  // parameters that seem free may depend on each other
    return RewriteForCuda(graph);
  };
  planner.schedule = ScheduleForCuda;
  std::shared_ptr<const SizedSchedule> schedule = SizedSchedule::Make(planner, free).sized;
  return schedule ? With(std::move(schedule)) : nullptr;
}

std::shared_ptr<const ProgramsBySize::Sized> ProgramsBySize::With(
    std::shared_ptr<const SizedSchedule> schedule) {
  auto sized = std::make_shared<Sized>();
  sized->schedule = std::move(schedule);
  for (size_t i = 0; i < sized->schedule->schedule().steps.size(); ++i) {
    sized->varies.push_back(sized->schedule->varies(i));
  }
  sized->shared = std::make_shared<SharedParts>();
  return sized;
}

void ProgramsBySize::Add(const SavedSizes& saved) { made_.Add(With(saved.schedule)); }

std::vector<SavedSizes> ProgramsBySize::Save() const {
  std::vector<SavedSizes> saved;
  for (const auto& sized : made_.all()) saved.push_back({sized->schedule, {}});
  return saved;
}

std::shared_ptr<Program> ProgramsBySize::At(const std::vector<int64_t>& sizes) {
  std::optional<std::vector<int64_t>> free = FreeSizes(derived_, sizes);
  std::shared_ptr<const Sized> sized;
  if (free) sized = made_.Find(*free, [&] { return Make(*free); });
  if (!sized) {
    static metrics::Counter& scheduled = metrics::GetCounter("cuda::SizesScheduled");
    scheduled.Add();
    return std::make_shared<Program>(AtSizes(general_, sizes), machine_);
  }
  const SizedSchedule& schedule = *sized->schedule;
  return std::make_shared<Program>(schedule.At(schedule.BasisAt(*free)), machine_,
                                   Program::AtSizes{sized->varies, sized->shared});
}

}  // namespace hammock::cuda
