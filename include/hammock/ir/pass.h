#pragma once
/// Passes: named functions from graph to graph, and the one runner of them. A backend lists its own
/// and runs them on the graph that it is given to compile; they are then printed, verified,
/// profiled and shown by `hammock dump` like all others.

#include <functional>
#include <span>

#include "hammock/export.h"
#include "hammock/ir/graph.h"

namespace hammock {

/// A pass sees one graph at a time; bodies of loops and branches are graphs of their own.
struct Pass {
  const char* name;
  std::function<Graph(Graph)> run;
  bool in_bodies = true;  ///< also of the graphs among a node's attributes
};

/// Runs a pass on a graph and then on the bodies in it; the result is verified, printed and
/// profiled as the configuration asks for. A graph with dim parameters is left as it is: passes
/// decide by sizes, and run before these are generalised.
HAMMOCK_API Graph RunPass(const Pass& pass, Graph graph);
/// One after another.
HAMMOCK_API Graph RunPasses(std::span<const Pass> passes, Graph graph);

}  // namespace hammock
