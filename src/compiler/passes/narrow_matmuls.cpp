#include "compiler/passes/narrow_matmuls.h"

#include <algorithm>
#include <optional>

#include "compiler/loops/fusion_facts.h"
#include "compiler/passes/graph_editor.h"
#include "ir/primitives.h"
#include "ops/primitives/fused_forms.h"

namespace hammock {
namespace {

/// The 16-bit float dtype that a value, perhaps a view, was cast from; nothing if there is none.
std::optional<DType> NarrowDType(const Graph& graph, GraphValue value) {
  while (compiler::IsView(graph[value.node])) value = graph[value.node].inputs[0];
  const GraphNode& node = graph[value.node];
  if (node.op != &ops::kCast || node.type().dtype() != DType::kF32) return std::nullopt;
  DType from = graph.TypeOf(node.inputs[0]).dtype();
  bool narrow = from == DType::kF16 || from == DType::kBF16;
  return narrow ? std::optional(from) : std::nullopt;
}

/// The value before the cast, with the views repeated on it.
GraphValue Narrowed(GraphBuilder& out, GraphValue value) {
  GraphNode node = out.graph()[value.node];
  if (node.op == &ops::kCast) return node.inputs[0];
  node.inputs[0] = Narrowed(out, node.inputs[0]);
  node.types[0] = node.type().With(out.TypeOf(node.inputs[0]).dtype());
  return out.Append(std::move(node));
}

}  // namespace

Graph NarrowMatMuls(Graph graph, const std::function<bool(const Graph&, const GraphNode&)>& takes) {
  const auto is_matmul = [](const GraphNode& node) { return node.op == &ops::kDotGeneral; };
  if (std::ranges::none_of(graph.nodes(), is_matmul)) return graph;
  return EditGraph(std::move(graph),
                   [&](GraphEditor& editor, NodeId, GraphNode& node) -> Replacement {
                     if (!is_matmul(node)) return std::nullopt;
                     std::optional<DType> a = NarrowDType(editor.graph(), node.inputs[0]);
                     if (!a || a != NarrowDType(editor.graph(), node.inputs[1]))
                       return std::nullopt;
                     GraphNode narrow = node;
                     narrow.op = &ops::kDotGeneralFused;
                     for (GraphValue& input : narrow.inputs) input = Narrowed(editor, input);
                     narrow.inputs.emplace_back();  // no bias
                     narrow.attrs.emplace_back(DType::kF32);
                     narrow.attrs.emplace_back(false);  // no relu
                     if (!takes || takes(editor.graph(), narrow)) node = std::move(narrow);
                     return std::nullopt;
                   });
}

}  // namespace hammock
