#include "backends/cuda/passes/round_matmuls.h"

#include <algorithm>
#include <optional>

#include "compiler/passes/graph_editor.h"
#include "compiler/passes/repeated_element.h"
#include "ir/primitives.h"
#include "ops/primitives/fused_forms.h"

namespace hammock::cuda {
namespace {

bool IsNarrow(DType dtype) { return dtype == DType::kF16 || dtype == DType::kBF16; }

/// `matmul` as a fused one, with a bias, a result dtype and perhaps relu.
GraphNode Fused(GraphNode matmul, GraphValue bias, DType dtype, bool relu) {
  matmul.op = &ops::kDotGeneralFused;
  matmul.inputs = {matmul.inputs[0], matmul.inputs[1], bias};
  const SharedList<Attr>& attrs = matmul.attrs;
  matmul.attrs = {attrs[0], attrs[1], attrs[2], attrs[3], Attr(dtype), Attr(relu)};
  matmul.types = {matmul.type().With(dtype)};
  return matmul;
}

/// Whether a value is a matmul of 16-bit floats with f32 results.
bool IsNarrowMatMul(const Graph& graph, GraphValue value) {
  const GraphNode& node = graph[value.node];
  return node.op == &ops::kDotGeneralFused && !node.inputs[2].node &&
         node.type().dtype() == DType::kF32;
}

/// The bias vector behind a value that is added to a matmul: one element of the operands' dtype for
/// each column of the result. Nothing if the value is no bias.
std::optional<GraphValue> BiasOf(const Graph& graph, GraphValue value, const GraphNode& matmul) {
  const Shape &a = graph.TypeOf(matmul.inputs[0]), &b = graph.TypeOf(matmul.inputs[1]);
  if (a.numel() == 0 || b.numel() == 0) return std::nullopt;  // nothing is multiplied
  int64_t fixed =
      static_cast<int64_t>(matmul.attrs[1].ints().size() + matmul.attrs[3].ints().size());
  if (b.rank() - fixed != 1) return std::nullopt;
  int64_t columns = matmul.type().size(matmul.type().rank() - 1);
  while (true) {
    const GraphNode& node = graph[value.node];
    const Shape& type = graph.TypeOf(value);
    bool is_vector =
        type.numel() == columns && type.rank() >= 1 && type.size(type.rank() - 1) == columns;
    if (is_vector && type.dtype() == a.dtype()) return value;
    bool passes = node.op == &ops::kCast || node.op == &ops::kBroadcast ||
                  (node.op == &ops::kReshape && is_vector);
    if (!passes) return std::nullopt;
    value = node.inputs[0];
    // A broadcast that stretches columns is none of a row.
    const Shape& from = graph.TypeOf(value);
    if (from.rank() == 0 || from.size(from.rank() - 1) != columns) return std::nullopt;
  }
}

/// The fused matmul for a cast of a matmul of 16-bit floats, perhaps with a bias, to their dtype.
std::optional<GraphNode> RoundedMatMul(const Graph& graph, const NodeMap<int>& uses,
                                       const GraphNode& cast) {
  if (cast.op != &ops::kCast || !IsNarrow(cast.type().dtype())) return std::nullopt;
  GraphValue value = cast.inputs[0];
  auto used_once = [&](GraphValue v) { return uses[v.node] == 1; };
  if (!used_once(value)) return std::nullopt;
  GraphValue bias;
  if (graph[value.node].op == &ops::kAdd) {
    const GraphNode& add = graph[value.node];
    int first = IsNarrowMatMul(graph, add.inputs[0]) ? 0 : 1;
    value = add.inputs[first];
    if (!IsNarrowMatMul(graph, value) || !used_once(value)) return std::nullopt;
    std::optional<GraphValue> found = BiasOf(graph, add.inputs[1 - first], graph[value.node]);
    if (!found) return std::nullopt;
    bias = *found;
  }
  if (!IsNarrowMatMul(graph, value)) return std::nullopt;
  const GraphNode& matmul = graph[value.node];
  if (graph.TypeOf(matmul.inputs[0]).dtype() != cast.type().dtype()) return std::nullopt;
  return Fused(matmul, bias, cast.type().dtype(), false);
}

NodeMap<int> UsesOf(const Graph& graph) {
  NodeMap<int> uses(graph.size());
  for (const GraphNode& node : graph.nodes()) {
    for (GraphValue input : node.inputs) {
      if (input.node) ++uses[input.node];
    }
  }
  for (GraphValue output : graph.outputs()) ++uses[output.node];
  return uses;
}

/// The graph with nodes replaced by the matmuls that `find` returns for them.
template <class Find>
Graph WithMatMuls(const Graph& graph, Find find) {
  const NodeMap<int> uses = UsesOf(graph);
  return EditGraph(graph, [&](GraphEditor& editor, NodeId id, GraphNode& node) -> Replacement {
    std::optional<GraphNode> matmul = find(graph, uses, graph[id]);
    if (!matmul) return std::nullopt;
    matmul->inputs.Map([&](GraphValue input) { return editor.Mapped(input); });
    node = std::move(*matmul);
    return std::nullopt;
  });
}

bool HasOp(const Graph& graph, const OpDef& op) {
  return std::ranges::any_of(graph.nodes(), [&](const GraphNode& n) { return n.op == &op; });
}

/// The fused matmul for maximum(matmul + bias, 0).
std::optional<GraphNode> ReluMatMul(const Graph& graph, const NodeMap<int>& uses,
                                    const GraphNode& node) {
  if (node.op != &ops::kMaximum || !IsZero(graph, node.inputs[1])) return std::nullopt;
  auto is_only = [&](GraphValue value, const OpDef* op) {
    return graph[value.node].op == op && uses[value.node] == 1;
  };
  if (!is_only(node.inputs[0], &ops::kAdd)) return std::nullopt;
  const GraphNode& add = graph[node.inputs[0].node];
  for (size_t first : {0, 1}) {
    if (!is_only(add.inputs[first], &ops::kDotGeneral)) continue;
    const GraphNode& matmul = graph[add.inputs[first].node];
    bool plain = matmul.type().dtype() == DType::kF32 &&
                 graph.TypeOf(matmul.inputs[0]).dtype() == DType::kF32 &&
                 matmul.attrs[2].ints().empty();
    std::optional<GraphValue> bias =
        plain ? BiasOf(graph, add.inputs[1 - first], matmul) : std::nullopt;
    if (!bias) continue;
    return Fused(matmul, *bias, DType::kF32, true);
  }
  return std::nullopt;
}

}  // namespace

Graph RoundMatMuls(Graph graph) {
  return HasOp(graph, ops::kDotGeneralFused) ? WithMatMuls(graph, RoundedMatMul) : std::move(graph);
}

Graph FuseBiasAndRelu(Graph graph) {
  return HasOp(graph, ops::kMaximum) ? WithMatMuls(graph, ReluMatMul) : std::move(graph);
}

}  // namespace hammock::cuda
