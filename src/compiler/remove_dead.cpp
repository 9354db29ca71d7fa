#include "compiler/remove_dead.h"

#include "compiler/bodies.h"
#include "compiler/effects.h"
#include "compiler/rewrite.h"

namespace hammock {

Graph RemoveDead(Graph graph) {
  RequireConcrete("remove_dead", graph);
  Graph out;
  std::vector<bool> needed = NeededNodes(graph);
  std::vector<NodeId> map(static_cast<size_t>(graph.size()), -1);
  auto mapped = [&](GraphValue value) {
    return value.node < 0 ? value : GraphValue{map[static_cast<size_t>(value.node)], value.index};
  };
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (!needed[static_cast<size_t>(id)]) continue;
    GraphNode node = std::move(graph.mutable_node(id));
    for (GraphValue& input : node.inputs) input = mapped(input);
    map[static_cast<size_t>(id)] = out.Append(std::move(node));
  }
  for (GraphValue output : graph.outputs()) out.AddOutput(mapped(output));
  MapBodies(out, RemoveDead);
  return out;
}

}  // namespace hammock
