#include "compiler/effects.h"

#include <algorithm>

namespace hammock {

Effect EffectOf(const GraphNode& node) {
  Effect effect = node.op->effect;
  for (const Attr& attr : node.attrs) {
    if (attr.kind() != Attr::Kind::kGraph) continue;
    for (const GraphNode& inner : attr.graph().nodes()) effect = std::max(effect, EffectOf(inner));
  }
  return effect;
}

std::vector<bool> NeededNodes(const Graph& graph) {
  std::vector<bool> needed(static_cast<size_t>(graph.size()));
  for (GraphValue output : graph.outputs()) needed[static_cast<size_t>(output.node)] = true;
  for (NodeId id : graph.inputs()) needed[static_cast<size_t>(id)] = true;
  for (NodeId id = graph.size(); id-- > 0;) {
    if (EffectOf(graph[id]) == Effect::kOrdered) needed[static_cast<size_t>(id)] = true;
    if (!needed[static_cast<size_t>(id)]) continue;
    for (GraphValue input : graph[id].inputs) {
      if (input.node >= 0) needed[static_cast<size_t>(input.node)] = true;
    }
  }
  return needed;
}

}  // namespace hammock
