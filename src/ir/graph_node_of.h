#pragma once

#include "hammock/ir/graph.h"
#include "hammock/ir/node.h"

namespace hammock {

/// A traced node as one of a graph, in which `value_of(operand)` is what an operand is.
template <class ValueOf>
GraphNode GraphNodeOf(const Node& node, const ValueOf& value_of) {
  GraphNode copy;
  copy.op = &node.op();
  std::vector<GraphValue> inputs;
  inputs.reserve(node.operands().size());
  for (const Node::Operand& operand : node.operands()) {
    inputs.push_back(operand.node ? value_of(operand) : GraphValue{});
  }
  copy.inputs = inputs;
  copy.attrs = node.attrs();
  if (node.num_outputs() == 1) {
    copy.types = {node.shape()};
  } else {
    std::vector<Shape> types;
    for (int i = 0; i < node.num_outputs(); ++i) types.push_back(node.shape(i));
    copy.types = types;
  }
  copy.location = node.location();
  return copy;
}

}  // namespace hammock
