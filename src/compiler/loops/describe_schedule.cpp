#include "compiler/loops/describe_schedule.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/cost.h"
#include "ir/primitives.h"

namespace hammock::compiler {

namespace {

size_t Index(int i) { return static_cast<size_t>(i); }

int64_t FlopsOfLaunch(const Launch& launch) {
  int64_t rows = launch.rows;
  for (int64_t size : launch.outer) rows *= size;
  int64_t flops = 0;
  for (const Instr& instr : launch.kernel->instrs) {
    const bool reduces = instr.kind == Instr::Kind::kReduce;
    if (!reduces && instr.kind != Instr::Kind::kScalar) continue;
    const int64_t each = reduces ? 1 : InfoOf(instr.fn).cost;
    flops += each * (reduces || instr.level == Level::kElement ? rows * launch.columns : rows);
  }
  return flops;
}

/// Of its buffers, unless it is a call whose record knows better.
int64_t BytesOfStep(const Graph& graph, const Schedule& schedule, const Step& step) {
  if (step.is_call() && !step.launch.kernel && graph[step.node].op->bytes) {
    return BytesOf(graph, step.node);
  }
  int64_t bytes = 0;
  for (int buffer : step.reads) bytes += schedule.buffers[Index(buffer)].bytes();
  for (int buffer : step.writes) bytes += schedule.buffers[Index(buffer)].bytes();
  return bytes;
}

/// By node: the step that computes it, or -1. Unnamed nodes are computed where they are used; those
/// that several steps use count as the first one's.
std::vector<int> StepOfNodes(const Graph& graph, const Schedule& schedule) {
  std::vector<int> steps(Index(graph.size()), -1);
  std::vector<bool> computed(Index(graph.size()));  // by a step of its own
  for (size_t i = 0; i < schedule.steps.size(); ++i) {
    for (NodeId id : schedule.steps[i].nodes) {
      steps[Index(id)] = static_cast<int>(i);
      computed[Index(id)] = true;
    }
  }
  for (NodeId id = graph.size() - 1; id >= 0; --id) {
    if (steps[Index(id)] < 0) continue;
    for (GraphValue input : graph[id].inputs) {
      if (input.node < 0 || graph[input.node].op == &ops::kInput) continue;
      int& step = steps[Index(input.node)];
      if (computed[Index(input.node)]) continue;
      step = step < 0 ? steps[Index(id)] : std::min(step, steps[Index(id)]);
    }
  }
  return steps;
}

}  // namespace

std::string NameOfStep(const Graph& graph, const Step& step) {
  constexpr size_t kNamed = 4;
  std::string name;
  for (size_t k = 0; k < std::min(step.nodes.size(), kNamed); ++k) {
    name += (k == 0 ? "" : "_") + graph[step.nodes[k]].op->info().name;
  }
  if (step.nodes.size() <= kNamed) return name;
  return fmt::format("{}_and_{}_more", name, step.nodes.size() - kNamed);
}

std::vector<lazy::KernelInfo> DescribeSteps(const Graph& graph, const Schedule& schedule) {
  std::vector<lazy::KernelInfo> kernels;
  for (const Step& step : schedule.steps) {
    lazy::KernelInfo kernel;
    kernel.name = NameOfStep(graph, step);
    kernel.kind = step.is_call() ? "call" : "kernel";
    if (step.is_call()) {
      kernel.text = fmt::format("call {}\n", graph[step.node].op->name());
      kernel.flops = FlopsOf(graph, step.node);
    }
    if (step.launch.kernel) {
      kernel.text += ToText(step.launch);
      kernel.flops += FlopsOfLaunch(step.launch);
    }
    kernel.bytes = BytesOfStep(graph, schedule, step);
    kernels.push_back(std::move(kernel));
  }
  std::vector<int> steps = StepOfNodes(graph, schedule);
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (steps[Index(id)] >= 0) kernels[Index(steps[Index(id)])].nodes.push_back(id);
  }
  return kernels;
}

}  // namespace hammock::compiler
