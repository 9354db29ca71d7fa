#pragma once
/// From a graph of primitives to a schedule of kernels and calls.

#include <vector>

#include "compiler/passes/pass.h"
#include "compiler/sizes/sized_schedule.h"
#include "hammock/compiler/schedule.h"
#include "hammock/ir/graph.h"

namespace hammock::cuda {

std::vector<Pass> CudaPasses();
/// A graph of primitives after CudaPasses.
Graph RewriteForCuda(const Graph& graph);
compiler::Schedule ScheduleForCuda(const Graph& rewritten);
compiler::ScheduledGraph ScheduledForCuda(Graph rewritten);

}  // namespace hammock::cuda
