#pragma once
/// Looking at what becomes of ops and graphs, for tools and for people.
///
///   for (const GraphStage& stage : LowerInStages(ParseGraph(text), "cpu")) ...
///   for (const lazy::ComputationInfo& part : DescribeCompiled(graph, "cpu")) ...

#include <string>
#include <vector>

#include "hammock/device.h"
#include "hammock/export.h"
#include "hammock/ir/graph.h"
#include "hammock/ir/op_def.h"
#include "hammock/lazy/backend_interface.h"

namespace hammock {

/// A graph after one pass, or a graph and the schedule of its kernels.
struct GraphStage {
  std::string pass;
  Graph graph;
  std::string schedule;  ///< as text; empty before there is one
};

/// The graph as given and after every pass that a device wants, in order; then the schedule that a
/// compiled backend made of it, also after each rewrite.
HAMMOCK_API std::vector<GraphStage> LowerInStages(const Graph& graph, const Device& device);

/// Compiles a graph and says what became of it: one part for each segment, with the device it runs
/// on. Nothing is cached.
struct CompiledPart {
  std::string device;
  bool fallback = false;
  lazy::ComputationInfo info;
};
HAMMOCK_API std::vector<CompiledPart> DescribeCompiled(const Graph& graph, const Device& device);

/// A description of an op in words.
struct OpDescription {
  std::string name;
  std::string schema;
  std::string doc;
  std::string kind;       ///< "primitive", "composite" or "function"
  std::string dtypes;     ///< that it takes: "all", "floats", ...; may be empty
  std::string rule;       ///< how the result's dtype is chosen; empty where it is the op's own
  std::string gradient;   ///< "own", "expanded", "no", or empty for functions
  std::string expansion;  ///< of a composite: a sample of it as graph text
};
HAMMOCK_API OpDescription DescribeOp(const OpDef& op);

/// The names of ops nearest to `name`, best first.
HAMMOCK_API std::vector<std::string> NearestOps(const std::string& name, size_t count = 3);

}  // namespace hammock
