#include "compiler/passes/expand_storage.h"

#include <algorithm>

#include "compiler/passes/expand.h"
#include "compiler/passes/graph_editor.h"
#include "compiler/passes/make_explicit.h"
#include "ir/primitives.h"
#include "ir/storage.h"
#include "ops/nn/quantize.h"
#include "ops/primitives/storage.h"

namespace hammock {

bool HasStorage(const Graph& graph, const GraphNode& node) {
  auto is_storage = [](const Shape& type) { return IsStorage(type.dtype()); };
  return std::ranges::any_of(node.types, is_storage) ||
         std::ranges::any_of(node.inputs, [&](GraphValue input) {
           return input.node && is_storage(graph.TypeOf(input));
         });
}

bool KnowsStorage(const OpDef& op) {
  return &op == &ops::kUnpack || &op == &ops::kPack || &op == &ops::kQuantizedLinear;
}

GraphValue CopyOfBytes(GraphBuilder& out, GraphValue value) {
  const Shape type = out.TypeOf(value);
  Dims bytes = type.sizes();
  if (bytes.size() > 0) bytes[bytes.size() - 1] = BytesOf(type.dtype(), bytes.back());
  const Shape copied(DType::kU8, bytes);
  value = out.Add(ops::kBitcast, {value}, {Attr(DType::kU8)}, copied);
  value = out.Add(ops::kReshape, {value}, {Attr(bytes)}, copied);
  return out.Add(ops::kBitcast, {value}, {Attr(type.dtype())}, type);
}

namespace {

ExpandFn ExpansionOf(const GraphNode& node) {
  if (node.op == &ops::kCast) return ops::CastStored;
  if (node.op == &ops::kConstant) return ops::ConstantStored;
  return node.op->IsPrimitive() && !TakesStorageInMemory(*node.op) ? ops::MoveStored : nullptr;
}

/// _unpack(_pack(x)) -> x
Graph JoinPacked(Graph graph) {
  return EditGraph(std::move(graph),
                   [](GraphEditor& editor, NodeId, const GraphNode& node) -> Replacement {
                     if (node.op != &ops::kUnpack) return std::nullopt;
                     const GraphNode& packed = editor.graph()[node.inputs[0].node];
                     if (packed.op != &ops::kPack) return std::nullopt;
                     return {{packed.inputs[0]}};
                   });
}

}  // namespace

Graph ExpandStorage(Graph graph, const std::function<bool(const Graph&, NodeId)>& keep) {
  bool any = false;
  for (const GraphNode& node : graph.nodes()) any = any || HasStorage(graph, node);
  if (!any) return graph;
  graph = EditGraph(std::move(graph),
                    [](GraphEditor& editor, NodeId, const GraphNode& node) -> Replacement {
                      ExpandFn expand = ExpansionOf(node);
                      if (!expand || !HasStorage(editor.graph(), node)) return std::nullopt;
                      return ExpandNode(node, expand, editor.graph());
                    });
  graph = MakeExplicit(std::move(graph));
  return MakeExplicit(ExpandComposites(JoinPacked(std::move(graph)), keep));
}

}  // namespace hammock
