#include "backends/cuda/passes/scatter_rows.h"

#include <algorithm>
#include <optional>

#include "compiler/facts/fusion_facts.h"
#include "compiler/passes/graph_editor.h"
#include "compiler/passes/repeated_element.h"
#include "ir/primitives.h"
#include "ops/primitives/fused_forms.h"

namespace hammock::cuda {
namespace {

/// The vector that is broadcast to the index of a scatter, if it has one element for each row along
/// `dim`.
std::optional<GraphValue> IndexOfRows(const Graph& graph, const GraphNode& scatter) {
  const Shape& self = scatter.type();
  const Shape& source = graph.TypeOf(scatter.inputs[2]);
  int dim = static_cast<int>(scatter.attrs[0].integer());
  GraphValue index = compiler::StorageOf(graph, scatter.inputs[1]);
  if (self.rank() < 2 || graph[index.node].op != &ops::kBroadcast) return std::nullopt;
  if (graph.TypeOf(index).sizes() != source.sizes() ||
      graph.TypeOf(scatter.inputs[1]).sizes() != source.sizes()) {
    return std::nullopt;
  }
  for (int d = 0; d < self.rank(); ++d) {
    if (d != dim && self.size(d) != source.size(d)) return std::nullopt;
  }
  GraphValue small = graph[index.node].inputs[0];
  const Shape& type = graph.TypeOf(small);
  int missing = source.rank() - type.rank();
  for (int d = 0; d < type.rank(); ++d) {
    if (type.size(d) != (d + missing == dim ? source.size(dim) : 1)) return std::nullopt;
  }
  return type.numel() == source.size(dim) ? std::optional(small) : std::nullopt;
}

}  // namespace

Graph ScatterRows(Graph graph) {
  return EditGraph(std::move(graph),
                   [](GraphEditor& editor, NodeId, GraphNode& node) -> Replacement {
                     if (node.op != &ops::kScatter) return std::nullopt;
                     const bool zeros = IsZero(editor.graph(), node.inputs[0]);
                     const std::optional<GraphValue> index = IndexOfRows(editor.graph(), node);
                     if (!zeros && !index) return std::nullopt;
                     if (zeros) node.inputs.Set(0, {});
                     if (index) {
                       const Dims elements = {editor.TypeOf(*index).numel()};
                       node.inputs.Set(1, editor.Reshape(*index, elements));
                     }
                     node.op = &ops::kScatterRows;
                     node.attrs.push_back(node.type().sizes());
                     return std::nullopt;
                   });
}

}  // namespace hammock::cuda
