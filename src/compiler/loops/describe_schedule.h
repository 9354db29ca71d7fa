#pragma once
/// A schedule for people who look at it: what its steps are called, compute, read, write and say.

#include <string>
#include <vector>

#include "compiler/loops/schedule.h"
#include "hammock/lazy/backend_interface.h"

namespace hammock::compiler {

/// "mul_add_maximum": the nodes that it computes, the first few of many.
std::string NameOfStep(const Graph& graph, const Step& step);

/// One for each step, with every node of the graph that a step computes. `kind` is "kernel" or
/// "call": a backend says who runs its calls.
std::vector<lazy::KernelInfo> DescribeSteps(const Graph& graph, const Schedule& schedule);

}  // namespace hammock::compiler
