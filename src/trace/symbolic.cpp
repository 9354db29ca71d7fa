#include "trace/symbolic.h"

#include "base/throw.h"
#include "ir/graph_node_of.h"
#include "ir/node_access.h"
#include "trace/tensor_impl.h"

namespace hammock {

void Inliner::Bind(const Tensor& tensor, GraphValue value) {
  values_[tensor.value().node.get()] = {value};
  bound_.push_back(tensor);
}

GraphValue Inliner::Emit(const Tensor& tensor) {
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

void Inliner::EmitNode(const Node& node) {
  HAMMOCK_CHECK(!node.IsLeaf(), "an expansion read a tensor that is not its operand: {}",
                node.to_string());
  GraphNode copy = GraphNodeOf(node, [&](const Node::Operand& operand) {
    return values_.at(operand.node).at(operand.index);
  });
  copy.location = location_;
  copy.origin = origin_;
  NodeId id = graph_.Append(std::move(copy));
  auto& values = values_[&node];
  for (int i = 0; i < node.num_outputs(); ++i) values.push_back({id, i});
}

Graph TraceSymbolically(
    std::span<const Shape> types,
    const std::function<std::vector<Tensor>(std::span<const Tensor>)>& function) {
  SymbolicScope symbolic;
  Graph graph;
  Inliner inliner(graph, CurrentLocation(), NodeId());
  std::vector<Tensor> inputs;
  for (const Shape& type : types) {
    inputs.push_back(SymbolicTensor(type));
    inliner.Bind(inputs.back(), graph.AddInput(type));
  }
  for (const Tensor& result : function(inputs)) graph.AddOutput(inliner.Emit(result));
  return graph;
}

}  // namespace hammock
