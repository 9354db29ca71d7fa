#include "compiler/partition.h"

#include <algorithm>
#include <map>
#include <set>

#include "ir/primitives.h"

namespace hammock {

namespace {

bool IsFree(const GraphNode& node) { return node.op == &ops::kInput || node.op == &ops::kConstant; }

/// A node's phase is the number of target changes on the way to it. Along every edge it stays or
/// grows, and it grows where the target changes; so nodes of one phase and target form a convex
/// set.
NodeMap<int> Phases(const Graph& graph, const NodeMap<int>& targets) {
  NodeMap<int> phase(graph.size(), 0);
  for (NodeId id : graph.ids()) {
    for (GraphValue input : graph[id].inputs) {
      if (!input.node || IsFree(graph[input.node])) continue;
      int step = targets[input.node] == targets[id] ? 0 : 1;
      phase[id] = std::max(phase[id], phase[input.node] + step);
    }
  }
  return phase;
}

}  // namespace

std::vector<Segment> Partition(const Graph& graph, const NodeMap<int>& targets) {
  NodeMap<int> phase = Phases(graph, targets);
  std::map<std::pair<int, int>, std::vector<NodeId>> groups;
  for (NodeId id : graph.ids()) {
    if (IsFree(graph[id])) continue;
    groups[{phase[id], targets[id]}].push_back(id);
  }
  NodeMap<int> segment_of(graph.size(), -1);
  int count = 0;
  for (auto& [key, nodes] : groups) {
    for (NodeId id : nodes) segment_of[id] = count;
    ++count;
  }
  // Values that leave their segment: used by another one, or results of the whole.
  std::vector<std::set<GraphValue>> leaving(groups.size());
  for (NodeId id : graph.ids()) {
    for (GraphValue input : graph[id].inputs) {
      if (!input.node || IsFree(graph[input.node])) continue;
      int from = segment_of[input.node];
      if (from != segment_of[id]) leaving[from].insert(input);
    }
  }
  for (GraphValue output : graph.outputs()) {
    if (!IsFree(graph[output.node])) {
      leaving[segment_of[output.node]].insert(output);
    }
  }
  std::vector<Segment> segments;
  for (auto& [key, nodes] : groups) {
    Segment segment;
    segment.target = key.second;
    std::map<GraphValue, GraphValue> local;
    auto value_in = [&](GraphValue value) {
      if (!value.node) return value;
      auto found = local.find(value);
      if (found != local.end()) return found->second;
      GraphValue made;
      if (graph[value.node].op == &ops::kConstant) {
        made = {segment.graph.Append(graph[value.node]), 0};
      } else {
        made = segment.graph.AddInput(graph.TypeOf(value));
        segment.graph.mutable_node(made.node).location = graph[value.node].location;
        segment.inputs.push_back(value);
      }
      return local[value] = made;
    };
    for (NodeId id : nodes) {
      GraphNode copy = graph[id];
      copy.inputs.Map(value_in);
      NodeId at = segment.graph.Append(std::move(copy));
      for (size_t i = 0; i < graph[id].types.size(); ++i) {
        local[{id, static_cast<int32_t>(i)}] = {at, static_cast<int32_t>(i)};
      }
    }
    for (GraphValue value : leaving[segments.size()]) {
      segment.outputs.push_back(value);
      segment.graph.AddOutput(local.at(value));
    }
    segments.push_back(std::move(segment));
  }
  return segments;
}

}  // namespace hammock
