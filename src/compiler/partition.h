#pragma once
/// The one partitioner: a verdict per node becomes maximal convex segments.

#include <vector>

#include "hammock/ir/graph.h"

namespace hammock {

struct Segment {
  int target = 0;                   ///< the verdict that all its nodes share
  Graph graph;                      ///< its inputs are `inputs`, its outputs `outputs`, in order
  std::vector<GraphValue> inputs;   ///< values of the whole graph
  std::vector<GraphValue> outputs;  ///< values of the whole graph
};

/// The targets of inputs and constants are not looked at. Segments come
/// in an order in which they can run; each is convex: no value leaves it and comes back.
std::vector<Segment> Partition(const Graph& graph, const NodeMap<int>& targets);

}  // namespace hammock
