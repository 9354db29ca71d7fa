#include "backends/cuda/scatter_rows.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "compiler/fusion_facts.h"
#include "compiler/remove_dead.h"
#include "ops/primitives.h"

namespace hammock::cuda {
namespace {

/// What is broadcast to the index of a scatter, if it has one element for each row along `dim`.
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

bool IsZeros(const Graph& graph, GraphValue value) {
  while (graph[value.node].op == &ops::kBroadcast || graph[value.node].op == &ops::kReshape) {
    value = graph[value.node].inputs[0];
  }
  const GraphNode& node = graph[value.node];
  if (node.op != &ops::kConstant) return false;
  double number = node.attr("value").scalar().ToDouble();
  return number == 0 && !std::signbit(number);
}

}  // namespace

Graph ScatterRows(Graph graph) {
  if (std::none_of(graph.nodes().begin(), graph.nodes().end(),
                   [](const GraphNode& node) { return node.op == &ops::kScatter; })) {
    return graph;
  }
  Graph out;
  bool changed = false;
  std::vector<NodeId> map(static_cast<size_t>(graph.size()));
  auto mapped = [&](GraphValue value) {
    if (value.node >= 0) value.node = map[static_cast<size_t>(value.node)];
    return value;
  };
  for (NodeId id = 0; id < graph.size(); ++id) {
    GraphNode node = graph[id];
    for (GraphValue& input : node.inputs) input = mapped(input);
    std::optional<GraphValue> index;
    if (node.op == &ops::kScatter) index = IndexOfRows(graph, graph[id]);
    if (node.op == &ops::kScatter && IsZeros(graph, graph[id].inputs[0])) {
      node.inputs[0] = GraphValue{};
      changed = true;
    }
    if (index) {
      GraphNode vector = graph[id];
      Dims sizes = {graph.TypeOf(*index).numel()};
      vector.op = &ops::kReshape;
      vector.attrs = {Attr(sizes)};
      vector.inputs = {mapped(*index)};
      vector.types = {graph.TypeOf(*index).With(sizes)};
      node.inputs[1] = {out.Append(std::move(vector)), 0};
      changed = true;
    }
    map[static_cast<size_t>(id)] = out.Append(std::move(node));
  }
  if (!changed) return graph;
  for (GraphValue output : graph.outputs()) out.AddOutput(mapped(output));
  return RemoveDead(std::move(out));
}

}  // namespace hammock::cuda
