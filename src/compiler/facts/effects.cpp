#include "compiler/facts/effects.h"

#include <algorithm>

#include "ir/primitives.h"

namespace hammock {

Effect EffectOf(const GraphNode& node) {
  Effect effect = node.op->effect;
  for (const Attr& attr : node.attrs) {
    if (attr.kind() != Attr::Kind::kGraph) continue;
    for (const GraphNode& inner : attr.graph().nodes()) effect = std::max(effect, EffectOf(inner));
  }
  return effect;
}

NodeId StartInput(const Graph& graph, const GraphNode& node) {
  const bool reads = node.op == &ops::kDynamicSlice, writes = node.op == &ops::kDynamicUpdateSlice;
  if (!reads && !writes) return {};
  NodeId start = node.inputs[writes ? 2 : 1].node;
  return graph[start].op == &ops::kInput ? start : NodeId();
}

bool CanFailLate(const Graph& graph, const GraphNode& node) {
  return node.op->can_fail && !StartInput(graph, node);
}

NodeMap<bool> NeededNodes(const Graph& graph) {
  NodeMap<bool> needed(graph.size());
  for (GraphValue output : graph.outputs()) needed[output.node] = true;
  for (NodeId id : graph.inputs()) needed[id] = true;
  for (NodeId id : graph.ids().reversed()) {
    if (EffectOf(graph[id]) == Effect::kOrdered) needed[id] = true;
    if (!needed[id]) continue;
    for (GraphValue input : graph[id].inputs) {
      if (input.node) needed[input.node] = true;
    }
  }
  return needed;
}

}  // namespace hammock
