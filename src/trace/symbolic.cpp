#include "trace/symbolic.h"

#include "base/throw.h"
#include "ir/graph_node_of.h"
#include "ir/node_access.h"
#include "trace/operands_first.h"
#include "trace/tensor_impl.h"

namespace hammock {

void Inliner::Bind(const Tensor& tensor, GraphValue value) {
  values_[tensor.value().node.get()] = {value};
  bound_.push_back(tensor);
}

GraphValue Inliner::Emit(const Tensor& tensor) {
  Value root = tensor.value();
  VisitOperandsFirst(
      root, [&](const Node& node, uint32_t) { return values_.contains(&node); },
      [&](const Node& node) { EmitNode(node); });
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
