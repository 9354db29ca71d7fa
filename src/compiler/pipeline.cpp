#include "compiler/pipeline.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "compiler/passes/delay_gathers.h"
#include "compiler/passes/expand.h"
#include "compiler/passes/expand_storage.h"
#include "compiler/passes/fold_scales.h"
#include "compiler/passes/make_explicit.h"
#include "compiler/passes/materialize_outputs.h"
#include "compiler/passes/merge_collectives.h"
#include "compiler/passes/move_shape_ops.h"
#include "compiler/passes/remove_dead.h"
#include "compiler/passes/share_equal.h"
#include "compiler/passes/simplify.h"
#include "compiler/passes/split_complex.h"
#include "compiler/passes/widen_sums.h"
#include "hammock/config.h"
#include "ir/primitives.h"
#include "ops/primitives/collectives.h"

namespace hammock {

constinit config::Option<bool> config::kFastMath({
    .name = "fast_math",
    .default_value = false,
    .doc = "Let backends trade the last bits and determinism for speed.",
    .affects_code = true,
});

constinit config::Option<bool> config::kWideSums({
    .name = "wide_sums",
    .default_value = false,
    .doc =
        "Matmuls and convolutions of f32 are computed in f64 and rounded once: slower, and nearly "
        "what exact arithmetic gives.",
    .affects_code = true,
});

namespace {

using Verdict = lazy::Capability::Verdict;

/// The usual case, without a copy of the bookkeeping: everything runs on one target.
Segment WholeGraph(const Graph& graph, int target) {
  Segment segment;
  segment.target = target;
  segment.graph = graph;
  for (NodeId id : graph.inputs()) segment.inputs.push_back({id, 0});
  segment.outputs = graph.outputs();
  return segment;
}

/// Merges collectives for a device that runs merged ones.
Graph MergeWhereRun(Graph graph, const CapabilityQuery& query) {
  if (std::ranges::none_of(graph.nodes(), [](const GraphNode& node) {
        return node.op->effect == Effect::kOrdered;
      })) {
    return graph;
  }
  Graph merged = MergeCollectives(graph);
  for (NodeId id : merged.ids()) {
    if (merged[id].op == &ops::kMergedCollective && query(merged, id).verdict != Verdict::kRun) {
      return graph;
    }
  }
  return merged;
}

}  // namespace

std::vector<Pass> LoweringPasses(const std::function<bool(const Graph&, NodeId)>& keep) {
  return {
      {"expand", [keep](Graph graph) { return ExpandComposites(std::move(graph), keep); }},
      {"make_explicit", MakeExplicit},
      {"split_complex", [keep](Graph graph) { return SplitComplex(std::move(graph), keep); }},
      {"expand_storage", [keep](Graph graph) { return ExpandStorage(std::move(graph), keep); }},
  };
}

std::vector<Pass> OptimisingPasses(const Evaluate& evaluate) {
  std::vector<Pass> passes;
  if (config::Get<config::kWideSums>()) passes.push_back({"widen_sums", WidenSums});
  passes.push_back({"share_equal", ShareEqual});
  if (evaluate) {
    passes.push_back({"fold", [evaluate](Graph g) { return Fold(std::move(g), evaluate); }});
  }
  passes.push_back({"simplify", Simplify});
  passes.push_back({"move_shape_ops", MoveShapeOps});
  if (config::Get<config::kFastMath>()) passes.push_back({"fold_scales", FoldScales});
  passes.push_back({"remove_dead", RemoveDead});
  return passes;
}

std::vector<Pass> FinishingPasses(const CapabilityQuery& query) {
  // Only results of a whole computation have to be values of their own.
  return {
      {"materialize_outputs", MaterializeOutputs, /*in_bodies=*/false},
      {"merge_collectives", [query](Graph graph) { return MergeWhereRun(std::move(graph), query); },
       /*in_bodies=*/false},
      {"delay_gathers", DelayGathers, /*in_bodies=*/false},
  };
}

Graph Optimise(Graph graph, const Evaluate& evaluate) {
  constexpr int kMostIterations = 8;  // two or three do
  const std::vector<Pass> passes = OptimisingPasses(evaluate);
  Hash128 hash = graph.hash();
  for (int i = 0; i < kMostIterations; ++i) {
    graph = RunPasses(passes, std::move(graph));
    const Hash128 before = std::exchange(hash, graph.hash());
    if (hash == before) break;
  }
  return graph;
}

LoweredStep LowerGraph(const Graph& traced, const CapabilityQuery& query,
                       const Optimiser& optimise) {
  LoweredStep step;
  auto keep = [&](const Graph& graph, NodeId node) {
    // No composite is run whole on complex numbers.
    if (HasComplex(graph, graph[node])) return false;
    // On storage types only what knows them.
    if (!KnowsStorage(*graph[node].op) && HasStorage(graph, graph[node])) return false;
    lazy::Capability answer = query(graph, node);
    return answer.verdict == Verdict::kRun ||
           (answer.verdict == Verdict::kRefuse && answer.reason == kForcedFallback);
  };
  step.graph = RunPass({"trace", std::identity(), /*in_bodies=*/false}, traced);
  step.graph = RunPasses(LoweringPasses(keep), std::move(step.graph));
  if (optimise) step.graph = optimise(std::move(step.graph));
  step.graph = RunPasses(FinishingPasses(query), std::move(step.graph));

  NodeMap<int> targets(step.graph.size(), 0);
  for (NodeId id : step.graph.ids()) {
    const GraphNode& node = step.graph[id];
    if (node.op == &ops::kInput || node.op == &ops::kConstant) continue;
    lazy::Capability answer = query(step.graph, id);
    if (answer.verdict != Verdict::kRefuse) continue;
    targets[id] = 1;
    int64_t bytes = 0;
    for (const Shape& type : node.types) bytes += type.bytes();
    for (GraphValue input : node.inputs) bytes += input.node ? step.graph.TypeOf(input).bytes() : 0;
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
