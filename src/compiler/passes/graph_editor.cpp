#include "compiler/passes/graph_editor.h"

#include "ir/primitives.h"

namespace hammock {

GraphValue GraphBuilder::AddInput(const Shape& type) { return Add(ops::kInput, {}, {}, type); }

GraphValue GraphBuilder::Add(const OpDef& op, SharedList<GraphValue> inputs,
                             SharedList<Attr> attrs) {
  NodeId id = out_.AddNode(op, std::move(inputs), std::move(attrs), location_);
  out_.mutable_node(id).origin = origin_;
  return {id, 0};
}

GraphNode GraphBuilder::NodeOf(const OpDef& op, SharedList<GraphValue> inputs,
                               SharedList<Attr> attrs, const Shape& type) const {
  return {.op = &op,
          .inputs = std::move(inputs),
          .attrs = std::move(attrs),
          .types = {type},
          .location = location_,
          .origin = origin_};
}

GraphValue GraphBuilder::Add(const OpDef& op, SharedList<GraphValue> inputs, SharedList<Attr> attrs,
                             const Shape& type) {
  return Append(NodeOf(op, std::move(inputs), std::move(attrs), type));
}

GraphValue GraphBuilder::Cast(GraphValue value, DType dtype) {
  const Shape& type = TypeOf(value);
  if (type.dtype() == dtype) return value;
  return Add(ops::kCast, {value}, {Attr(dtype)}, type.With(dtype));
}

GraphValue GraphBuilder::Reshape(GraphValue value, const Dims& sizes) {
  const Shape& type = TypeOf(value);
  if (type.sizes() == sizes) return value;
  return Add(ops::kReshape, {value}, {Attr(sizes)}, type.With(sizes));
}

GraphValue GraphBuilder::Broadcast(GraphValue value, const Dims& sizes) {
  const Shape& type = TypeOf(value);
  if (type.sizes() == sizes) return value;
  return Add(ops::kBroadcast, {value}, {Attr(sizes)}, type.With(sizes));
}

GraphValue GraphBuilder::Slice(GraphValue value, int dim, int64_t start, int64_t size,
                               int64_t step) {
  return Add(ops::kSlice, {value}, {Attr(int64_t{dim}), Attr(start), Attr(size), Attr(step)});
}

GraphValue GraphBuilder::Constant(const Scalar& value, DType dtype) {
  return Add(ops::kConstant, {}, {Attr(value), Attr(dtype)}, Shape(dtype, {}));
}

std::vector<GraphValue> GraphBuilder::Inline(const Graph& body,
                                             std::span<const GraphValue> operands) {
  const NodeId first(out_.size());
  std::vector<GraphValue> outputs = Append(body, operands);
  for (NodeId id = first; out_.Contains(id); ++id) {
    out_.mutable_node(id).location = location_;
    out_.mutable_node(id).origin = origin_;
  }
  return outputs;
}

std::vector<GraphValue> GraphBuilder::Append(const Graph& body,
                                             std::span<const GraphValue> operands) {
  ValueMap map(body);
  for (size_t i = 0; i < operands.size(); ++i) map.Set(body.inputs()[i], operands[i]);
  for (NodeId id : body.ids()) {
    if (body[id].op == &ops::kInput) continue;
    GraphNode node = body[id];
    node.inputs.Map(map);
    map.SetResults(id, out_.Append(std::move(node)), body[id].types.size());
  }
  std::vector<GraphValue> outputs;
  for (GraphValue output : body.outputs()) outputs.push_back(map(output));
  return outputs;
}

GraphNode GraphEditor::Take(NodeId id) {
  GraphNode node = &source_ == &own_ ? std::move(own_.mutable_node(id)) : source_[id];
  node.inputs.Map(map_);
  For(node);
  return node;
}

Graph GraphEditor::Finish() {
  for (GraphValue output : source_.outputs()) out_.AddOutput(Mapped(output));
  return std::move(out_);
}

Graph Alone(GraphNode node, const std::function<Shape(GraphValue)>& type_of) {
  Graph alone;
  node.inputs.Map(
      [&](GraphValue input) { return input.node ? alone.AddInput(type_of(input)) : input; });
  const NodeId id = alone.Append(std::move(node));
  const int results = static_cast<int>(alone[id].types.size());
  for (int i = 0; i < results; ++i) alone.AddOutput({id, i});
  return alone;
}

Graph Alone(const Graph& graph, GraphNode node) {
  return Alone(std::move(node), [&](GraphValue operand) { return graph.TypeOf(operand); });
}

}  // namespace hammock
