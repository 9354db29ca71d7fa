#include "compiler/describe_schedule.h"

#include <fmt/format.h>

#include <algorithm>

#include "ops/channels_last.h"
#include "ops/primitives.h"

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
  int64_t terms = 0, times = node.type().numel();
  if (node.op == &ops::kDotGeneral) {
    terms = 1;
    for (int64_t dim : node.attr("a_contract").ints()) {
      terms *= graph.TypeOf(node.inputs[0]).size(static_cast<int>(dim));
    }
  } else if (node.op == &ops::kConvolution || node.op == &ops::kConvolutionLast) {
    const Shape& weight = graph.TypeOf(node.inputs[1]);
    terms = weight.size(0) == 0 ? 0 : weight.numel() / weight.size(0);
    // One that is transposed multiplies each element of its input.
    if (node.attr("transposed").boolean()) times = graph.TypeOf(node.inputs[0]).numel();
  } else if (node.op == &ops::kConvolutionWeightBackward) {
    // Each element of the weight is a sum over a gradient's places, of all batches.
    const Shape& gradient = graph.TypeOf(node.inputs[0]);
    terms = gradient.rank() < 2 || gradient.size(1) == 0 ? 0 : gradient.numel() / gradient.size(1);
  }
  return 2 * terms * times;
}

/// By node: the step that computes it, or -1. Unnamed nodes are computed where they are used; those
/// that several steps use count as the first one's.
std::vector<int> StepOfNodes(const Graph& graph, const Schedule& schedule) {
  std::vector<int> steps(static_cast<size_t>(graph.size()), -1);
  for (size_t i = 0; i < schedule.steps.size(); ++i) {
    for (NodeId id : schedule.steps[i].nodes) steps[Index(id)] = static_cast<int>(i);
  }
  for (NodeId id = graph.size() - 1; id >= 0; --id) {
    if (steps[Index(id)] < 0) continue;
    for (GraphValue input : graph[id].inputs) {
      if (input.node < 0 || graph[input.node].op == &ops::kInput) continue;
      int& step = steps[Index(input.node)];
      bool computed = false;
      for (NodeId named : step < 0 ? std::vector<NodeId>() : schedule.steps[Index(step)].nodes) {
        computed |= named == input.node;
      }
      if (!computed) step = step < 0 ? steps[Index(id)] : std::min(step, steps[Index(id)]);
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
