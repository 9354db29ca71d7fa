#include "compiler/pipeline.h"

#include "base/log.h"
#include "compiler/expand.h"
#include "compiler/fold_scales.h"
#include "compiler/make_explicit.h"
#include "compiler/materialize_outputs.h"
#include "compiler/move_shape_ops.h"
#include "compiler/remove_dead.h"
#include "compiler/share_equal.h"
#include "compiler/simplify.h"
#include "hammock/config.h"
#include "ops/primitives.h"

namespace hammock {

namespace {

using Verdict = lazy::Capability::Verdict;

Graph AfterPass(const char* name, Graph graph) {
  if (config::Get<config::kVerifyPasses>()) Verify(graph);
  if (config::Get<config::kPrintPasses>()) {
    Log(LogLevel::kWarn, "after {}:\n{}", name, ToText(graph, {.locations = true}));
  }
  return graph;
}

/// The usual case, without a copy of the bookkeeping: everything runs on one target.
Segment WholeGraph(const Graph& graph, int target) {
  Segment segment;
  segment.target = target;
  segment.graph = graph;
  for (NodeId id : graph.inputs()) segment.inputs.push_back({id, 0});
  segment.outputs = graph.outputs();
  return segment;
}

}  // namespace

Graph Optimise(const Graph& graph, const Evaluate& evaluate) {
  if (!graph.dim_params.empty()) return graph;
  constexpr int kMostRounds = 8;  // two or three do
  Graph current = graph;
  for (int round = 0; round < kMostRounds; ++round) {
    Graph next = current;
    if (evaluate) next = AfterPass("fold", Fold(next, evaluate));
    next = AfterPass("simplify", Simplify(next));
    next = AfterPass("move_shape_ops", MoveShapeOps(next));
    if (config::Get<config::kFastMath>()) next = AfterPass("fold_scales", FoldScales(next));
    next = AfterPass("share_equal", ShareEqual(next));
    next = AfterPass("remove_dead", RemoveDead(next));
    bool done = next == current;
    current = std::move(next);
    if (done) break;
  }
  return AfterPass("materialize_outputs", MaterializeOutputs(std::move(current)));
}

LoweredStep LowerGraph(const Graph& traced, const CapabilityQuery& query,
                       const Optimiser& optimise) {
  LoweredStep step;
  auto keep = [&](const Graph& graph, NodeId node) {
    lazy::Capability answer = query(graph, node);
    return answer.verdict == Verdict::kRun ||
           (answer.verdict == Verdict::kRefuse && answer.reason == kForcedFallback);
  };
  step.graph = AfterPass("trace", traced);
  step.graph = AfterPass("expand", ExpandComposites(step.graph, keep));
  step.graph = AfterPass("make_explicit", MakeExplicit(step.graph));
  if (optimise) step.graph = optimise(step.graph);
  step.graph = AfterPass("materialize_outputs", MaterializeOutputs(std::move(step.graph)));

  std::vector<int> targets(static_cast<size_t>(step.graph.size()), 0);
  for (NodeId id = 0; id < step.graph.size(); ++id) {
    const GraphNode& node = step.graph[id];
    if (node.op == &ops::kInput || node.op == &ops::kConstant) continue;
    lazy::Capability answer = query(step.graph, id);
    if (answer.verdict != Verdict::kRefuse) continue;
    targets[static_cast<size_t>(id)] = 1;
    int64_t bytes = 0;
    for (const Shape& type : node.types) bytes += type.bytes();
    for (GraphValue input : node.inputs)
      bytes += input.node < 0 ? 0 : step.graph.TypeOf(input).bytes();
    step.refusals.push_back({node.op->name(), answer.reason, node.location, bytes});
  }
  if (step.refusals.empty()) {
    step.segments.push_back(WholeGraph(step.graph, 0));
  } else {
    step.segments = Partition(step.graph, targets);
  }
  return step;
}

}  // namespace hammock
