#include "hammock/inspect.h"

#include "compiler/pipeline.h"
#include "runtime/cache/compile_step.h"
#include "runtime/devices/backend_calls.h"
#include "runtime/step/executor.h"

namespace hammock {

std::vector<GraphStage> LowerInStages(const Graph& graph, const Device& device) {
  Verify(graph);
  PassListener passes;
  CompileStep(EntryOf(device.id()), graph);
  std::vector<GraphStage> stages;
  for (PassResult& result : passes.results) {
    stages.push_back({std::move(result.pass), std::move(result.graph), std::move(result.schedule)});
  }
  return stages;
}

std::vector<CompiledPart> DescribeCompiled(const Graph& graph, const Device& device) {
  Verify(graph);
  CompiledStepPtr step = CompileStep(EntryOf(device.id()), graph);
  std::vector<CompiledPart> parts;
  for (const CompiledSegment& segment : step->segments) {
    parts.push_back({segment.device->name(), segment.fallback,
                     CallBackend(*segment.device, "DescribeComputation", [&](auto& backend) {
                       return backend.DescribeComputation(segment.computation);
                     })});
  }
  return parts;
}

}  // namespace hammock
