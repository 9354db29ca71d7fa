#include "compiler/partition.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "compiler/passes/graph_editor.h"
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

/// Takes nodes of the whole graph, each into its segment.
class Partitioner {
 public:
  Partitioner(const Graph& graph, NodeMap<int> segment_of, const std::vector<int>& targets)
      : graph_(graph), segment_of_(std::move(segment_of)), map_(graph), parts_(targets.size()) {
    for (size_t i = 0; i < targets.size(); ++i) parts_[i].segment.target = targets[i];
  }

  std::vector<Segment> Run() {
    for (NodeId id : graph_.ids()) {
      if (segment_of_[id] < 0) continue;
      GraphNode node = graph_[id];
      node.inputs.Map([&](GraphValue input) { return ValueIn(segment_of_[id], input); });
      const size_t results = node.types.size();
      map_.SetResults(id, PartOf(id).builder.Append(std::move(node)).node, results);
    }
    for (GraphValue output : graph_.outputs()) {
      if (segment_of_[output.node] >= 0) PartOf(output.node).leaving.insert(output);
    }
    std::vector<Segment> segments;
    for (Part& part : parts_) {
      for (GraphValue value : part.leaving) {
        part.segment.outputs.push_back(value);
        part.builder.AddOutput(map_(value));
      }
      part.segment.graph = part.builder.Finish();
      segments.push_back(std::move(part.segment));
    }
    return segments;
  }

 private:
  struct Part {
    Segment segment;
    GraphBuilder builder;
    std::map<GraphValue, GraphValue> brought;  // from elsewhere
    std::set<GraphValue> leaving;              // used by another segment, or results of the whole
  };

  Part& PartOf(NodeId id) { return parts_[static_cast<size_t>(segment_of_[id])]; }

  GraphValue ValueIn(int segment, GraphValue value) {
    if (!value.node) return value;
    const int from = segment_of_[value.node];
    if (from == segment) return map_(value);
    if (from >= 0) PartOf(value.node).leaving.insert(value);
    Part& part = parts_[static_cast<size_t>(segment)];
    auto [found, is_new] = part.brought.try_emplace(value);
    if (is_new) found->second = Bring(part, value);
    return found->second;
  }

  GraphValue Bring(Part& part, GraphValue value) {
    const GraphNode& node = graph_[value.node];
    if (node.op == &ops::kConstant) return part.builder.Append(node);
    part.segment.inputs.push_back(value);
    part.builder.For(node);
    return part.builder.AddInput(node.types[value.index]);
  }

  const Graph& graph_;
  const NodeMap<int> segment_of_;  // -1: of inputs and constants
  ValueMap map_;                   // of each node in its segment
  std::vector<Part> parts_;
};

}  // namespace

std::vector<Segment> Partition(const Graph& graph, const NodeMap<int>& targets) {
  const NodeMap<int> phase = Phases(graph, targets);
  std::map<std::pair<int, int>, int> numbers;  // by phase and target
  for (NodeId id : graph.ids()) {
    if (!IsFree(graph[id])) numbers[{phase[id], targets[id]}] = 0;
  }
  std::vector<int> target_of;
  for (auto& [key, number] : numbers) {
    number = static_cast<int>(target_of.size());
    target_of.push_back(key.second);
  }
  NodeMap<int> segment_of(graph.size(), -1);
  for (NodeId id : graph.ids()) {
    if (!IsFree(graph[id])) segment_of[id] = numbers.at({phase[id], targets[id]});
  }
  return Partitioner(graph, std::move(segment_of), target_of).Run();
}

}  // namespace hammock
