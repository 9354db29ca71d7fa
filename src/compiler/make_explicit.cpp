#include "compiler/make_explicit.h"

#include "compiler/bodies.h"
#include "compiler/effects.h"
#include "ops/primitives.h"

namespace hammock {

namespace {

GraphValue Convert(Graph& out, GraphValue value, const GraphNode& like, const OpDef& op, Attr attr,
                   const Shape& type) {
  GraphNode node;
  node.op = &op;
  node.inputs = {value};
  node.attrs = {std::move(attr)};
  node.types = {type};
  node.location = like.location;
  node.origin = like.origin;
  return {out.Append(std::move(node)), 0};
}

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

/// The operands are values of `out`.
void MakeOperandsExplicit(GraphNode& node, Graph& out) {
  std::vector<const Shape*> types;
  for (GraphValue input : node.inputs) types.push_back(&out.TypeOf(input));
  DType compute = ComputeDType(*node.op, types);
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    GraphValue& input = node.inputs[i];
    Shape type = out.TypeOf(input);
    DType wanted = OperandDType(node, compute, type.dtype(), i);
    if (type.dtype() != wanted) {
      type = type.With(wanted);
      input = Convert(out, input, node, ops::kCast, Attr(wanted), type);
    }
    if (type.sizes() != node.type().sizes()) {
      type = type.With(node.type().sizes());
      input = Convert(out, input, node, ops::kBroadcast, Attr(type.sizes()), type);
    }
  }
}

/// Dims 0 and -1 may be named of a tensor that has none; a primitive then names none.
void DropDimsOfScalar(GraphNode& node, const Graph& out) {
  if (!node.op->IsPrimitive() || node.inputs.empty() || node.inputs[0].node < 0) return;
  if (out.TypeOf(node.inputs[0]).rank() > 0) return;
  for (size_t i = 0; i < node.attrs.size(); ++i) {
    bool is_dims = node.attrs[i].kind() == Attr::Kind::kInts &&
                   node.op->info().AttributeName(static_cast<int>(i)) == "dims";
    if (is_dims) node.attrs[i] = Attr(Dims());
  }
}

}  // namespace

Graph MakeExplicit(Graph graph) {
  Graph out;
  std::vector<bool> used = NeededNodes(graph);
  std::vector<NodeId> map(static_cast<size_t>(graph.size()), -1);
  auto mapped = [&](GraphValue value) {
    return value.node < 0 ? value : GraphValue{map[static_cast<size_t>(value.node)], value.index};
  };
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (!used[static_cast<size_t>(id)]) continue;
    GraphNode node = std::move(graph.mutable_node(id));
    for (GraphValue& input : node.inputs) input = mapped(input);
    if (node.op->IsElementwise() && node.op->IsPrimitive()) MakeOperandsExplicit(node, out);
    DropDimsOfScalar(node, out);
    map[static_cast<size_t>(id)] = out.Append(std::move(node));
  }
  for (GraphValue output : graph.outputs()) out.AddOutput(mapped(output));
  MapBodies(out, MakeExplicit);
  return out;
}

}  // namespace hammock
