#include "backends/common/target_programs.h"

namespace hammock {

std::string DescribePlan(const Graph& graph, const compiler::Schedule& schedule,
                         const compiler::MemoryPlan& plan) {
  return fmt::format("{}\n{}arena {} bytes, outputs {} bytes\n", ToText(graph),
                     compiler::ToText(schedule, graph), plan.arena_bytes, plan.output_bytes);
}

}  // namespace hammock
