#include "backends/cuda/narrow_products.h"

#include <optional>

#include "compiler/fusion_facts.h"
#include "compiler/remove_dead.h"
#include "ops/primitives.h"

namespace hammock::cuda {
namespace {

bool IsNarrow(DType dtype) { return dtype == DType::kF16 || dtype == DType::kBF16; }

/// What a value is a cast of, if it is one of a 16-bit float, perhaps seen through views.
std::optional<DType> NarrowDType(const Graph& graph, GraphValue value) {
  while (compiler::IsView(graph[value.node])) value = graph[value.node].inputs[0];
  const GraphNode& node = graph[value.node];
  if (node.op != &ops::kCast || node.type().dtype() != DType::kF32) return std::nullopt;
  DType from = graph.TypeOf(node.inputs[0]).dtype();
  return IsNarrow(from) ? std::optional(from) : std::nullopt;
}

/// The value before the cast, with the views repeated on it.
GraphValue Narrowed(Graph& out, GraphValue value) {
  const GraphNode node = out[value.node];
  if (node.op == &ops::kCast) return node.inputs[0];
  GraphNode view = node;
  view.inputs[0] = Narrowed(out, node.inputs[0]);
  view.types[0] = node.type().With(out.TypeOf(view.inputs[0]).dtype());
  return {out.Append(std::move(view)), 0};
}

}  // namespace

Graph NarrowProducts(const Graph& graph) {
  Graph out;
  std::vector<NodeId> map(static_cast<size_t>(graph.size()));
  auto mapped = [&](GraphValue value) {
    if (value.node >= 0) value.node = map[static_cast<size_t>(value.node)];
    return value;
  };
  bool changed = false;
  for (NodeId id = 0; id < graph.size(); ++id) {
    GraphNode node = graph[id];
    for (GraphValue& input : node.inputs) input = mapped(input);
    if (node.op == &ops::kDotGeneral) {
      std::optional<DType> a = NarrowDType(out, node.inputs[0]);
      if (a && a == NarrowDType(out, node.inputs[1])) {
        for (GraphValue& input : node.inputs) input = Narrowed(out, input);
        changed = true;
      }
    }
    map[static_cast<size_t>(id)] = out.Append(std::move(node));
  }
  if (!changed) return graph;
  for (GraphValue output : graph.outputs()) out.AddOutput(mapped(output));
  return RemoveDead(out);
}

}  // namespace hammock::cuda
