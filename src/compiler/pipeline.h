#pragma once
/// From a traced graph to segments that backends compile. pipeline.cpp is the order of the passes.

#include <functional>
#include <string>
#include <vector>

#include "compiler/partition.h"
#include "compiler/passes/fold.h"
#include "compiler/passes/pass.h"
#include "hammock/ir/graph.h"
#include "hammock/lazy/backend_interface.h"

namespace hammock {

/// One node that a backend does not run itself, and why.
struct Refusal {
  std::string op;
  std::string reason;
  LocationId location = 0;
  int64_t bytes = 0;  ///< of its operands and results
};

struct LoweredStep {
  Graph graph;                    ///< as the segments see it
  std::vector<Segment> segments;  ///< target 0: the device itself; 1: the fallback device
  std::vector<Refusal> refusals;
};

/// Answers for one node; see lazy::BackendImplInterface::QueryCapability.
using CapabilityQuery = std::function<lazy::Capability(const Graph&, NodeId)>;

/// The reason of a node that the config `force_fallback` names; such a composite is not expanded.
inline constexpr char kForcedFallback[] = "named in force_fallback";

/// From traced graphs to primitives with explicit operands; `keep` says which composites stay.
std::vector<Pass> LoweringPasses(const std::function<bool(const Graph&, NodeId)>& keep);
/// The passes that Optimise repeats, as the configuration says. Nothing is folded without an
/// evaluator.
std::vector<Pass> OptimisingPasses(const Evaluate& evaluate);
/// For whole computations, not for bodies: every result becomes a value of its own, collectives are
/// merged where the device runs merged ones, and gathers wait for their use.
std::vector<Pass> FinishingPasses(const CapabilityQuery& query);

/// Share equal nodes, fold, simplify, move shape ops and remove dead nodes, until nothing changes.
/// No bit of a result changes, and what raised still does. For graphs after MakeExplicit;
/// composites that are kept whole are left as they are.
Graph Optimise(Graph graph, const Evaluate& evaluate);

/// The wishes of a backend for a graph before it is partitioned.
using Optimiser = std::function<Graph(Graph)>;

/// Expands, makes promotion explicit, optimises if asked to, asks for each node, partitions.
LoweredStep LowerGraph(const Graph& traced, const CapabilityQuery& query,
                       const Optimiser& optimise = nullptr);

}  // namespace hammock
