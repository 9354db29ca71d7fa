#pragma once

#include "hammock/ir/graph.h"
#include "hammock/ir/node.h"

namespace hammock {

/// A traced node as one of a graph, in which `value_of(operand)` is what an operand is.
template <class ValueOf>
GraphNode GraphNodeOf(const Node& node, const ValueOf& value_of) {
  GraphNode copy;
  copy.op = &node.op();
  for (const Node::Operand& operand : node.operands()) {
    copy.inputs.push_back(operand.node ? value_of(operand) : GraphValue{});
  }
  copy.attrs.assign(node.attrs().begin(), node.attrs().end());
  for (int i = 0; i < node.num_outputs(); ++i) copy.types.push_back(node.shape(i));
  copy.location = node.location();
  return copy;
}

}  // namespace hammock
