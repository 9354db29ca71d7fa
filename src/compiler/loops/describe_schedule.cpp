#include "compiler/loops/describe_schedule.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/primitives.h"
#include "ops/primitives/channels_last.h"
#include "ops/primitives/fused_forms.h"

namespace hammock::compiler {

namespace {

size_t Index(int i) { return static_cast<size_t>(i); }

int64_t FlopsOf(const Launch& launch) {
  int64_t rows = launch.rows;
  for (int64_t size : launch.outer) rows *= size;
  int64_t flops = 0;
  for (const Instr& instr : launch.kernel->instrs) {
    if (instr.kind != Instr::Kind::kScalar && instr.kind != Instr::Kind::kReduce) continue;
    bool element = instr.level == Level::kElement || instr.kind == Instr::Kind::kReduce;
    flops += element ? rows * launch.columns : rows;
  }
  return flops;
}

/// Of matmuls and convolutions; 0 for other calls.
int64_t FlopsOf(const Graph& graph, NodeId id) {
  const GraphNode& node = graph[id];
  const Shape& result = node.type();
  auto per_channel = [](const Shape& weight) {
    return weight.size(0) == 0 ? 0 : weight.numel() / weight.size(0);
  };
  if (node.op == &ops::kDotGeneral || node.op == &ops::kDotGeneralFused) {
    int64_t terms = 1;
    for (int64_t dim : node.attr("a_contract").ints()) {
      terms *= graph.TypeOf(node.inputs[0]).size(static_cast<int>(dim));
    }
    return 2 * terms * result.numel();
  }
  if (node.op == &ops::kConvolution || node.op == &ops::kConvolutionLast) {
    // A transposed one adds each element of its input to as many places as it has terms.
    const Shape& input = graph.TypeOf(node.inputs[0]);
    const Shape& ends = node.attr("transposed").boolean() ? input : result;
    return 2 * per_channel(graph.TypeOf(node.inputs[1])) * ends.numel();
  }
  if (node.op == &ops::kConvolutionWeightBackward) {
    return 2 * per_channel(result) * graph.TypeOf(node.inputs[0]).numel();
  }
  return 0;
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
      kernel.flops += FlopsOf(step.launch);
    }
    for (int buffer : step.reads) kernel.bytes += schedule.buffers[Index(buffer)].bytes();
    for (int buffer : step.writes) kernel.bytes += schedule.buffers[Index(buffer)].bytes();
    kernels.push_back(std::move(kernel));
  }
  std::vector<int> steps = StepOfNodes(graph, schedule);
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (steps[Index(id)] >= 0) kernels[Index(steps[Index(id)])].nodes.push_back(id);
  }
  return kernels;
}

}  // namespace hammock::compiler
