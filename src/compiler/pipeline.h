#pragma once
/// From a traced graph to segments that backends compile. pipeline.cpp is the order of the passes.

#include <functional>
#include <string>
#include <vector>

#include "compiler/partition.h"
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

/// Expands, makes promotion explicit, asks for each node, partitions.
LoweredStep LowerGraph(const Graph& traced, const CapabilityQuery& query);

}  // namespace hammock
