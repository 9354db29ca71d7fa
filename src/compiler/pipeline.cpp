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

Graph Optimise(const Graph& graph, const Evaluate& evaluate) {
  if (!graph.dim_params.empty()) return graph;
  constexpr int kMostRounds = 8;  // two or three do
  Graph current = graph;
  if (config::Get<config::kWideSums>()) {
    current = RunPass("widen_sums", [&] { return WidenSums(current); });
  }
  for (int round = 0; round < kMostRounds; ++round) {
    Graph next = current;
    if (evaluate) next = RunPass("fold", [&] { return Fold(next, evaluate); });
    next = RunPass("simplify", [&] { return Simplify(next); });
    next = RunPass("move_shape_ops", [&] { return MoveShapeOps(next); });
    if (config::Get<config::kFastMath>())
      next = RunPass("fold_scales", [&] { return FoldScales(next); });
    next = RunPass("share_equal", [&] { return ShareEqual(next); });
    next = RunPass("remove_dead", [&] { return RemoveDead(next); });
    bool done = next == current;
    current = std::move(next);
    if (done) break;
  }
  return RunPass("materialize_outputs", [&] { return MaterializeOutputs(std::move(current)); });
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
  step.graph = RunPass("expand", [&] { return ExpandComposites(step.graph, keep); });
  step.graph = RunPass("make_explicit", [&] { return MakeExplicit(step.graph); });
  if (optimise) step.graph = optimise(step.graph);
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
