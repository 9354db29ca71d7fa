#include "backends/cpu/describe.h"

#include <fmt/format.h>

#include <fstream>

#include "backends/cpu/llvm_compiler.h"
#include "backends/cpu/program.h"
#include "backends/cpu/thread_pool.h"
#include "hammock/config.h"
#include "ops/primitives.h"

namespace hammock::cpu {

using compiler::Instr;
using compiler::Launch;
using compiler::Level;

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

/// Of products; 0 for other calls.
int64_t FlopsOf(const Graph& graph, NodeId id) {
  const GraphNode& node = graph[id];
  int64_t terms = 0;
  if (node.op == &ops::kDotGeneral) {
    terms = 1;
    for (int64_t dim : node.attr("a_contract").ints()) {
      terms *= graph.TypeOf(node.inputs[0]).size(static_cast<int>(dim));
    }
  } else if (node.op == &ops::kConvolution) {
    const Shape& weight = graph.TypeOf(node.inputs[1]);
    terms = weight.size(0) == 0 ? 0 : weight.numel() / weight.size(0);
  }
  return 2 * terms * node.type().numel();
}

/// By node: the step that computes it, or -1. Unnamed nodes are computed where they are used; those
/// that several steps use count as the first one's.
std::vector<int> StepOfNodes(const Graph& graph, const compiler::Schedule& schedule) {
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

lazy::ComputationInfo Program::Describe(std::string_view what) const {
  lazy::ComputationInfo info{graph_, {}, plan_.peak_bytes()};
  for (size_t i = 0; i < schedule_.steps.size(); ++i) {
    const compiler::Step& step = schedule_.steps[i];
    lazy::KernelInfo kernel;
    kernel.name = StepName(i);
    kernel.kind = step.is_call() ? CallName(i) : "kernel";
    if (step.is_call()) {
      kernel.text = fmt::format("call {} by {}\n", graph_[step.node].op->name(), CallName(i));
      kernel.flops = FlopsOf(graph_, step.node);
    }
    if (step.launch.kernel) {
      kernel.text += compiler::ToText(step.launch);
      kernel.flops += FlopsOf(step.launch);
    }
    if (std::string code = CodeText(i, what); !code.empty()) kernel.text += "\n" + code;
    for (int buffer : step.reads) kernel.bytes += schedule_.buffers[Index(buffer)].bytes();
    for (int buffer : step.writes) kernel.bytes += schedule_.buffers[Index(buffer)].bytes();
    info.kernels.push_back(std::move(kernel));
  }
  std::vector<int> steps = StepOfNodes(graph_, schedule_);
  for (NodeId id = 0; id < graph_.size(); ++id) {
    if (steps[Index(id)] >= 0) info.kernels[Index(steps[Index(id)])].nodes.push_back(id);
  }
  return info;
}

namespace {

std::string ProcessorName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    size_t colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

std::string VectorsText() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return "AVX-512";
  if (__builtin_cpu_supports("avx2")) return "AVX2";
  return "SSE2";
#else
  return "of the compiler's choice";
#endif
}

}  // namespace

std::vector<lazy::DeviceFact> DescribeHost() {
  std::vector<lazy::DeviceFact> facts = {{"processor", ProcessorName()},
                                         {"vectors", VectorsText()},
                                         {"threads", std::to_string(ThreadPool::threads())}};
  if (std::string why = LlvmCompiler::WhyAbsent(); why.empty()) {
    const LlvmCompiler& llvm = LlvmCompiler::Get();
    facts.push_back({"compiler", fmt::format("LLVM {} for {}", llvm.version(), llvm.host_cpu())});
  } else {
    facts.push_back({"compiler", why + "; kernels are interpreted", true});
  }
#ifdef HAMMOCK_WITH_ONEDNN
  facts.push_back({"products", "oneDNN"});
#else
  facts.push_back({"products", "built without oneDNN; own loops are slower", true});
#endif
  const std::string& folder = config::Get<config::kCacheDir>();
  facts.push_back({"code on disk", folder.empty() ? "none; see the option cache_dir" : folder});
  return facts;
}

}  // namespace hammock::cpu
