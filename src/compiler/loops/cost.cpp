#include "compiler/loops/cost.h"

#include <vector>

#include "compiler/passes/expand.h"
#include "compiler/passes/graph_editor.h"

namespace hammock::compiler {

namespace {

std::vector<const Shape*> OperandTypes(const Graph& graph, const GraphNode& node) {
  std::vector<const Shape*> types;
  for (GraphValue input : node.inputs) {
    types.push_back(!input.node ? nullptr : &graph.TypeOf(input));
  }
  return types;
}

int64_t FlopsOfExpansion(const Graph& graph, const GraphNode& node) {
  Graph parts = ExpandComposites(Alone(graph, node), [](const Graph& graph, NodeId id) {
    return graph[id].op->flops != nullptr;
  });
  int64_t flops = 0;
  for (NodeId id : parts.ids()) flops += FlopsOf(parts, id);
  return flops;
}

}  // namespace

int64_t FlopsOf(const Graph& graph, NodeId id) {
  const GraphNode& node = graph[id];
  const OpDef& op = *node.op;
  if (op.flops) return op.flops({op, OperandTypes(graph, node), node.attrs, node.types});
  if (op.IsComposite()) return FlopsOfExpansion(graph, node);
  if (op.scalar == ScalarFn::kNone) return 0;
  return InfoOf(op.scalar).cost * node.type().numel();
}

int64_t BytesOf(const Graph& graph, NodeId id) {
  const GraphNode& node = graph[id];
  std::vector<const Shape*> operands = OperandTypes(graph, node);
  if (node.op->bytes) return node.op->bytes({*node.op, operands, node.attrs, node.types});
  int64_t bytes = 0;
  for (const Shape* type : operands) bytes += type ? type->bytes() : 0;
  for (const Shape& type : node.types) bytes += type.bytes();
  return bytes;
}

}  // namespace hammock::compiler
