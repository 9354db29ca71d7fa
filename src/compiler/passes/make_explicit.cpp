#include "compiler/passes/make_explicit.h"

#include "compiler/facts/effects.h"
#include "compiler/passes/graph_editor.h"
#include "ir/primitives.h"

namespace hammock {

namespace {

/// The dtype that operand `index` is computed in.
DType OperandDType(const GraphNode& node, DType compute, DType own, size_t index) {
  switch (node.op->rule) {
    case DTypeRule::kSelect:
      return index == 0 ? DType::kBool : compute;
    case DTypeRule::kLogical:
      return DType::kBool;
    case DTypeRule::kFloatTest:
    case DTypeRule::kNone:
      return own;
    case DTypeRule::kPromote:
    case DTypeRule::kFloat:
    case DTypeRule::kCompare:
    case DTypeRule::kInteger:
      return compute;
  }
  return compute;
}

void MakeOperandsExplicit(GraphEditor& editor, GraphNode& node) {
  std::vector<const Shape*> types;
  for (GraphValue input : node.inputs) types.push_back(&editor.TypeOf(input));
  const DType compute = ComputeDType(*node.op, types);
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    GraphValue input = node.inputs[i];
    input = editor.Cast(input, OperandDType(node, compute, editor.TypeOf(input).dtype(), i));
    input = editor.Broadcast(input, node.type().sizes());
    if (input != node.inputs[i]) node.inputs.Set(i, input);
  }
}

/// Dims 0 and -1 may be named of a tensor that has none; a primitive then names none.
void DropDimsOfScalar(GraphNode& node, const Graph& out) {
  if (!node.op->IsPrimitive() || node.inputs.empty() || !node.inputs[0].node) return;
  if (out.TypeOf(node.inputs[0]).rank() > 0) return;
  for (size_t i = 0; i < node.attrs.size(); ++i) {
    bool is_dims = node.attrs[i].kind() == Attr::Kind::kInts &&
                   node.op->info().AttributeName(static_cast<int>(i)) == "dims";
    if (is_dims) node.attrs.Set(i, Attr(Dims()));
  }
}

}  // namespace

Graph MakeExplicit(Graph graph) {
  const NodeMap<bool> needed = NeededNodes(graph);
  GraphEditor editor(std::move(graph));
  for (NodeId id : editor.source().ids()) {
    if (!needed[id]) continue;
    GraphNode node = editor.Take(id);
    if (node.op->IsElementwise() && node.op->IsPrimitive()) MakeOperandsExplicit(editor, node);
    DropDimsOfScalar(node, editor.graph());
    editor.Keep(id, std::move(node));
  }
  return editor.Finish();
}

}  // namespace hammock
