#include "backends/cuda/sized_programs.h"

#include "hammock/metrics.h"
#include "ir/graph_sizes.h"

namespace hammock::cuda {

using compiler::SizedSchedule;

std::shared_ptr<const SizedSchedule> ProgramsBySize::Make(const std::vector<int64_t>& free) const {
  compiler::SizedPlanner planner;
  planner.derived = derived_;
  planner.graph = [&](const std::vector<int64_t>& at) {
    Graph graph = AtSizes(general_, AllSizes(derived_, at));
    Verify(graph);  // parameters that seem free may depend on each other
    return RewriteForCuda(graph);
  };
  planner.schedule = ScheduleForCuda;
  return SizedSchedule::Make(planner, free).sized;
}

std::shared_ptr<Program> ProgramsBySize::At(const std::vector<int64_t>& sizes) {
  std::optional<std::vector<int64_t>> free = FreeSizes(derived_, sizes);
  std::shared_ptr<const SizedSchedule> sized;
  if (free) sized = made_.Find(*free, [&] { return Make(*free); });
  if (!sized) {
    static metrics::Counter& scheduled = metrics::GetCounter("cuda::SizesScheduled");
    scheduled.Add();
    return std::make_shared<Program>(AtSizes(general_, sizes), machine_);
  }
  std::vector<bool> varies;
  for (size_t i = 0; i < sized->schedule().steps.size(); ++i) varies.push_back(sized->varies(i));
  return std::make_shared<Program>(sized->At(sized->BasisAt(*free)), machine_, varies);
}

}  // namespace hammock::cuda
