// hammock dump: what becomes of a graph, pass by pass, and its kernels.

#include <fmt/format.h>

#include <iostream>

#include "commands.h"
#include "hammock/compiler/describe_schedule.h"
#include "hammock/config.h"
#include "hammock/error.h"
#include "hammock/inspect.h"
#include "model_file.h"

namespace hammock::tool {

namespace {

void PrintPasses(const Graph& graph, const Device& device, const std::string& only) {
  GraphStage before;
  bool found = only.empty();
  std::string names;
  for (const GraphStage& stage : LowerInStages(graph, device)) {
    names += (names.empty() ? "" : ", ") + stage.pass;
    const bool changed = stage.graph != before.graph || stage.schedule != before.schedule;
    before = stage;
    if (!only.empty() && stage.pass != only) continue;
    found = true;
    const std::string text =
        stage.schedule.empty() ? ToText(stage.graph, {.locations = true}) : stage.schedule;
    std::cout << fmt::format("# after {} ({} nodes)\n", stage.pass, stage.graph.size());
    std::cout << (changed ? text : "# no change\n") << "\n";
  }
  if (found) return;
  throw ValueError(ErrorCode::kUnknownName,
                   fmt::format("--pass: '{}' did not run; these did: {}", only, names));
}

void PrintKernels(const Graph& graph, const Device& device) {
  for (const CompiledPart& part : DescribeCompiled(graph, device)) {
    std::cout << fmt::format("# {}{}: {} nodes, {} kernels, {} bytes at most\n", part.device,
                             part.fallback ? " (fallback)" : "", part.info.graph.size(),
                             part.info.kernels.size(), part.info.peak_bytes);
    if (!part.info.kernels.empty()) {  // else it has no schedule
      auto again = compiler::FindRecomputation(part.info.graph);
      if (!again.nodes.empty()) std::cout << "# " << again.to_string() << "\n";
    }
    for (size_t i = 0; i < part.info.kernels.size(); ++i) {
      const lazy::KernelInfo& kernel = part.info.kernels[i];
      std::cout << fmt::format("\n# kernel {}: {} ({}), {} bytes, {} flops\n{}", i, kernel.name,
                               kernel.kind, kernel.bytes, kernel.flops, kernel.text);
    }
    std::cout << "\n";
  }
}

}  // namespace

int Dump(const DumpOptions& options) {
  Device device = options.device.empty() ? Device() : Device(options.device);
  const bool as_given = options.what == "graph" || options.what == "dot";
  const Needs needs = as_given ? Needs::kGraph : Needs::kSizedGraph;
  Graph graph = LoadModel(options.model, needs, options.onnx).graph;
  if (options.what == "graph") {
    std::cout << ToText(graph, {.locations = true});
  } else if (options.what == "dot") {
    std::cout << ToDot(graph);
  } else if (options.what == "passes") {
    PrintPasses(graph, device, options.pass);
  } else {
    config::Set("cpu.text", options.what == "loops" ? "" : options.what);
    PrintKernels(graph, device);
  }
  return 0;
}

}  // namespace hammock::tool
