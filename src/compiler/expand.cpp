#include "compiler/expand.h"

#include "base/throw.h"
#include "compiler/bodies.h"
#include "hammock/tensor.h"
#include "ir/node_access.h"
#include "lazy/symbolic.h"
#include "lazy/tensor_impl.h"

namespace hammock {

namespace {

std::vector<GraphValue> ExpandNode(const Graph& from, const GraphNode& node,
                                   const std::vector<GraphValue>& inputs, Graph& into) {
  SymbolicScope symbolic;
  LocationScope location(node.location);
  Inliner inliner(into, node.location, node.origin);
  std::vector<Tensor> operands;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i].node < 0) {
      operands.emplace_back();
      continue;
    }
    operands.push_back(SymbolicTensor(from.TypeOf(node.inputs[i])));
    inliner.Bind(operands.back(), inputs[i]);
  }
  std::vector<Tensor> results = node.op->expand({*node.op, operands, node.attrs, node.types});
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

/// Expands one level; tells whether anything changed.
bool ExpandOnce(const Graph& graph, const std::function<bool(const Graph&, NodeId)>& keep,
                Graph* out) {
  bool changed = false;
  std::vector<std::vector<GraphValue>> map(static_cast<size_t>(graph.size()));
  for (NodeId id = 0; id < graph.size(); ++id) {
    const GraphNode& node = graph[id];
    std::vector<GraphValue> inputs;
    for (GraphValue input : node.inputs) {
      inputs.push_back(
          input.node < 0 ? input
                         : map[static_cast<size_t>(input.node)][static_cast<size_t>(input.index)]);
    }
    if (node.op->IsComposite() && !(keep && keep(graph, id))) {
      map[static_cast<size_t>(id)] = ExpandNode(graph, node, inputs, *out);
      changed = true;
      continue;
    }
    GraphNode copy = node;
    copy.inputs = std::move(inputs);
    NodeId at = out->Append(std::move(copy));
    for (size_t i = 0; i < node.types.size(); ++i) {
      map[static_cast<size_t>(id)].push_back({at, static_cast<int32_t>(i)});
    }
  }
  for (GraphValue output : graph.outputs()) {
    out->AddOutput(map[static_cast<size_t>(output.node)][static_cast<size_t>(output.index)]);
  }
  return changed;
}

}  // namespace

Graph ExpandComposites(const Graph& graph, const std::function<bool(const Graph&, NodeId)>& keep) {
  Graph current = graph;
  for (;;) {
    Graph next;
    if (!ExpandOnce(current, keep, &next)) break;
    current = std::move(next);
  }
  MapBodies(current, [&](const Graph& body) { return ExpandComposites(body, keep); });
  return current;
}

}  // namespace hammock
