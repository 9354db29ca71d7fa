#include "compiler/pipeline.h"

#include <utility>

#include "base/log.h"
#include "compiler/expand.h"
#include "compiler/fold_scales.h"
#include "compiler/make_explicit.h"
#include "compiler/materialize_outputs.h"
#include "compiler/move_shape_ops.h"
#include "compiler/remove_dead.h"
#include "compiler/share_equal.h"
#include "compiler/simplify.h"
#include "compiler/widen_sums.h"
#include "hammock/config.h"
#include "hammock/trace.h"
#include "ops/primitives.h"

namespace hammock {

namespace {

using Verdict = lazy::Capability::Verdict;

constinit thread_local std::vector<PassResult>* listener = nullptr;

template <class Pass>
Graph RunPass(const char* name, const Pass& pass) {
  tracing::Span span(name, "pass");
  Graph graph = pass();
  span.Set("nodes", graph.size());
  if (listener) listener->push_back({name, graph});
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

PassListener::PassListener() : outer_(std::exchange(listener, &results)) {}
PassListener::~PassListener() { listener = outer_; }

Graph Optimise(Graph graph, const Evaluate& evaluate) {
  if (!graph.dim_params.empty()) return graph;
  constexpr int kMostRounds = 8;  // two or three do
  auto run = [&](const char* name, const auto& pass) {
    graph = RunPass(name, [&] { return pass(std::move(graph)); });
  };
  if (config::Get<config::kWideSums>()) run("widen_sums", WidenSums);
  Hash128 hash = graph.hash();
  for (int round = 0; round < kMostRounds; ++round) {
    if (evaluate) run("fold", [&](Graph g) { return Fold(std::move(g), evaluate); });
    run("simplify", Simplify);
    run("move_shape_ops", MoveShapeOps);
    if (config::Get<config::kFastMath>()) run("fold_scales", FoldScales);
    run("share_equal", ShareEqual);
    run("remove_dead", RemoveDead);
    const Hash128 before = std::exchange(hash, graph.hash());
    if (hash == before) break;
  }
  run("materialize_outputs", MaterializeOutputs);
  return graph;
}

LoweredStep LowerGraph(const Graph& traced, const CapabilityQuery& query,
                       const Optimiser& optimise) {
  LoweredStep step;
  auto keep = [&](const Graph& graph, NodeId node) {
    lazy::Capability answer = query(graph, node);
    return answer.verdict == Verdict::kRun ||
           (answer.verdict == Verdict::kRefuse && answer.reason == kForcedFallback);
  };
  step.graph = RunPass("trace", [&] { return traced; });
  step.graph = RunPass("expand", [&] { return ExpandComposites(std::move(step.graph), keep); });
  step.graph = RunPass("make_explicit", [&] { return MakeExplicit(std::move(step.graph)); });
  if (optimise) step.graph = optimise(std::move(step.graph));
  step.graph =
      RunPass("materialize_outputs", [&] { return MaterializeOutputs(std::move(step.graph)); });

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
