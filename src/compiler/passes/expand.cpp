#include "compiler/passes/expand.h"

#include "base/location_scope.h"
#include "base/throw.h"
#include "compiler/passes/graph_editor.h"
#include "hammock/tensor.h"
#include "ir/node_access.h"
#include "ir/primitives.h"
#include "trace/symbolic.h"
#include "trace/tensor_impl.h"

namespace hammock {

std::vector<GraphValue> ExpandNode(const GraphNode& node, ExpandFn expand, Graph& into) {
  SymbolicScope symbolic;
  // Nodes of a called graph keep their own lines and names.
  bool named = node.op->name()[0] != '_' && node.op != &ops::kCall;
  LocationId location = named ? AsPartOf(node.location, node.op->name()) : node.location;
  LocationOverride part(location);
  Inliner inliner(into, location, node.origin);
  std::vector<Tensor> operands;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (!node.inputs[i].node) {
      operands.emplace_back();
      continue;
    }
    operands.push_back(SymbolicTensor(into.TypeOf(node.inputs[i])));
    inliner.Bind(operands.back(), node.inputs[i]);
  }
  std::vector<Tensor> results = expand({*node.op, operands, node.attrs, node.types});
  HAMMOCK_CHECK(results.size() == node.types.size(),
                "{}: the expansion gave {} results instead of {}", node.op->name(), results.size(),
                node.types.size());
  std::vector<GraphValue> values;
  for (size_t i = 0; i < results.size(); ++i) {
    HAMMOCK_CHECK(results[i].shape() == node.types[i], "{}: the expansion gave {} instead of {}",
                  node.op->name(), results[i].shape().to_string(), node.types[i].to_string());
    values.push_back(inliner.Emit(results[i]));
  }
  return values;
}

Graph ExpandComposites(Graph graph, const std::function<bool(const Graph&, NodeId)>& keep) {
  for (;;) {  // one level of them after another
    NodeMap<bool> expands(graph.size());
    bool any = false;
    for (NodeId id : graph.ids()) {
      if (!graph[id].op->IsComposite() || (keep && keep(graph, id))) continue;
      any = expands[id] = true;
    }
    if (!any) return graph;
    graph = EditGraph(std::move(graph),
                      [&](GraphEditor& editor, NodeId id, const GraphNode& node) -> Replacement {
                        if (!expands[id]) return std::nullopt;
                        return ExpandNode(node, node.op->expand, editor.graph());
                      });
  }
}

}  // namespace hammock
