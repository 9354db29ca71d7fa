#include "compiler/expand.h"

#include <unordered_map>

#include "base/throw.h"
#include "hammock/tensor.h"
#include "ir/node_access.h"
#include "lazy/tensor_impl.h"

namespace hammock {

namespace {

/// Copies traced symbolic nodes into a graph, below values that are there already.
class Inliner {
 public:
  Inliner(Graph& graph, LocationId location, int32_t origin)
      : graph_(graph), location_(location), origin_(origin) {}

  void Bind(const Tensor& tensor, GraphValue value) {
    values_[tensor.value().node.get()] = {value};
    bound_.push_back(tensor);
  }

  GraphValue Emit(const Tensor& tensor) {
    Value root = tensor.value();
    std::vector<const Node*> stack{root.node.get()};
    while (!stack.empty()) {
      const Node* node = stack.back();
      if (values_.contains(node)) {
        stack.pop_back();
        continue;
      }
      bool ready = true;
      for (const Node::Operand& operand : node->operands()) {
        if (operand.node && !values_.contains(operand.node)) {
          stack.push_back(operand.node);
          ready = false;
        }
      }
      if (!ready) continue;
      stack.pop_back();
      EmitNode(*node);
    }
    return values_.at(root.node.get()).at(root.index);
  }

 private:
  void EmitNode(const Node& node) {
    HAMMOCK_CHECK(!node.IsLeaf(), "an expansion read a tensor that is not its operand: {}",
                  node.to_string());
    GraphNode copy;
    copy.op = &node.op();
    for (const Node::Operand& operand : node.operands()) {
      copy.inputs.push_back(operand.node ? values_.at(operand.node).at(operand.index)
                                         : GraphValue{});
    }
    copy.attrs.assign(node.attrs().begin(), node.attrs().end());
    for (int i = 0; i < node.num_outputs(); ++i) copy.types.push_back(node.shape(i));
    copy.location = location_;
    copy.origin = origin_;
    NodeId id = graph_.Append(std::move(copy));
    auto& values = values_[&node];
    for (int i = 0; i < node.num_outputs(); ++i) values.push_back({id, i});
  }

  Graph& graph_;
  LocationId location_;
  int32_t origin_;
  std::unordered_map<const Node*, std::vector<GraphValue>> values_;
  std::vector<Tensor> bound_;  // keeps the keys of `values_` alive
};

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
    if (!ExpandOnce(current, keep, &next)) return current;
    current = std::move(next);
  }
}

Graph TraceSymbolically(
    std::span<const Shape> types,
    const std::function<std::vector<Tensor>(std::span<const Tensor>)>& function) {
  SymbolicScope symbolic;
  Graph graph;
  Inliner inliner(graph, CurrentLocation(), -1);
  std::vector<Tensor> inputs;
  for (const Shape& type : types) {
    inputs.push_back(SymbolicTensor(type));
    inliner.Bind(inputs.back(), graph.AddInput(type));
  }
  for (const Tensor& result : function(inputs)) graph.AddOutput(inliner.Emit(result));
  return graph;
}

}  // namespace hammock
