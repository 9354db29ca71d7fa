#include "compiler/passes/narrow_matmuls.h"

#include <algorithm>
#include <optional>

#include "compiler/facts/fusion_facts.h"
#include "compiler/passes/graph_editor.h"
#include "ir/primitives.h"
#include "ops/primitives/channels_last.h"
#include "ops/primitives/fused_forms.h"

namespace hammock {
namespace {

bool IsNarrow(DType from, DType to) {
  if (to == DType::kF32) return from == DType::kF16 || from == DType::kBF16;
  return to == DType::kI32 && ops::IsByte(from);
}

/// Whether both operands may be read without their casts.
bool HasNarrowOperands(const Graph& graph, const GraphNode& node) {
  const std::optional<DType> a = NarrowDType(graph, node.inputs[0]);
  if (!a) return false;
  const std::optional<DType> b = NarrowDType(graph, node.inputs[1]);
  return IsFloat(*a) ? b == a : b == DType::kI8;
}

/// The value before the cast, with the views repeated on it.
GraphValue Narrowed(GraphBuilder& out, GraphValue value) {
  GraphNode node = out.graph()[value.node];
  if (node.op == &ops::kCast) return node.inputs[0];
  node.inputs.Set(0, Narrowed(out, node.inputs[0]));
  node.types = {node.type().With(out.TypeOf(node.inputs[0]).dtype())};
  return out.Append(std::move(node));
}

/// Replaces each node that `narrow` makes another one of, which it says by true.
template <class Narrow>
Graph NarrowEach(Graph graph, bool (*is_wanted)(const GraphNode&), Narrow narrow) {
  if (std::ranges::none_of(graph.nodes(), is_wanted)) return graph;
  return EditGraph(std::move(graph),
                   [&](GraphEditor& editor, NodeId, GraphNode& node) -> Replacement {
                     if (!is_wanted(node) || !HasNarrowOperands(editor.graph(), node)) {
                       return std::nullopt;
                     }
                     GraphNode made = node;
                     made.inputs.Map([&](GraphValue input) { return Narrowed(editor, input); });
                     if (narrow(editor.graph(), made)) node = std::move(made);
                     return std::nullopt;
                   });
}

bool IsMatMul(const GraphNode& node) { return node.op == &ops::kDotGeneral; }

bool IsByteConvolution(const GraphNode& node) {
  return (node.op == &ops::kConvolution || node.op == &ops::kConvolutionLast) &&
         node.type().dtype() == DType::kI32;
}

}  // namespace

std::optional<DType> NarrowDType(const Graph& graph, GraphValue value) {
  while (compiler::IsView(graph[value.node])) value = graph[value.node].inputs[0];
  const GraphNode& node = graph[value.node];
  if (node.op != &ops::kCast) return std::nullopt;
  const DType from = graph.TypeOf(node.inputs[0]).dtype();
  return IsNarrow(from, node.type().dtype()) ? std::optional(from) : std::nullopt;
}

Graph NarrowMatMuls(Graph graph, const TakesNarrow& takes) {
  return NarrowEach(std::move(graph), IsMatMul, [&](const Graph& made, GraphNode& node) {
    node.op = &ops::kDotGeneralFused;
    node.inputs.push_back({});  // no bias
    node.attrs.push_back(node.type().dtype());
    node.attrs.push_back(false);  // no relu
    return takes ? takes(made, node) : IsFloat(node.type().dtype());
  });
}

Graph NarrowConvolutions(Graph graph, const TakesNarrow& takes) {
  return NarrowEach(std::move(graph), IsByteConvolution, [&](const Graph& made, GraphNode& node) {
    if (node.op == &ops::kConvolution) {
      node.op = &ops::kConvolutionLast;
      for (int i = 0; i < 2; ++i) node.attrs.push_back(false);  // where channels are last
    }
    return takes(made, node);
  });
}

}  // namespace hammock
