#include "backends/cuda/passes/narrow_matmuls.h"

#include <algorithm>
#include <optional>

#include "compiler/loops/fusion_facts.h"
#include "compiler/passes/graph_editor.h"
#include "ir/primitives.h"
#include "ops/primitives/fused_forms.h"

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
GraphValue Narrowed(GraphBuilder& out, GraphValue value) {
  GraphNode node = out.graph()[value.node];
  if (node.op == &ops::kCast) return node.inputs[0];
  node.inputs[0] = Narrowed(out, node.inputs[0]);
  node.types[0] = node.type().With(out.TypeOf(node.inputs[0]).dtype());
  return out.Append(std::move(node));
}

/// A product as one with further operands and another dtype.
GraphNode Fused(GraphNode product, GraphValue bias, DType dtype, bool relu) {
  product.op = &ops::kDotGeneralFused;
  product.inputs.resize(2);
  product.inputs.push_back(bias);
  product.attrs.resize(4);
  product.attrs.emplace_back(dtype);
  product.attrs.emplace_back(relu);
  product.types[0] = product.type().With(dtype);
  return product;
}

/// A product of 16-bit floats that gives its sums as they are.
bool IsNarrowProduct(const Graph& graph, GraphValue value) {
  const GraphNode& node = graph[value.node];
  return node.op == &ops::kDotGeneralFused && node.inputs[2].node < 0 &&
         node.type().dtype() == DType::kF32;
}

/// The vector that is added to every row of a product, if a value is one: 16-bit floats, one for
/// each column of the result.
std::optional<GraphValue> BiasOf(const Graph& graph, GraphValue value, const GraphNode& product) {
  const Shape &a = graph.TypeOf(product.inputs[0]), &b = graph.TypeOf(product.inputs[1]);
  if (a.numel() == 0 || b.numel() == 0) return std::nullopt;  // nothing is multiplied
  int64_t fixed =
      static_cast<int64_t>(product.attrs[1].ints().size() + product.attrs[3].ints().size());
  if (b.rank() - fixed != 1) return std::nullopt;
  int64_t columns = product.type().size(product.type().rank() - 1);
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

/// A cast of a product of 16-bit floats, or of one with a bias, to their dtype.
std::optional<GraphNode> RoundedProduct(const Graph& graph, const std::vector<int>& uses,
                                        const GraphNode& cast) {
  if (cast.op != &ops::kCast || !IsNarrow(cast.type().dtype())) return std::nullopt;
  GraphValue value = cast.inputs[0];
  auto used_once = [&](GraphValue v) { return uses[static_cast<size_t>(v.node)] == 1; };
  if (!used_once(value)) return std::nullopt;
  GraphValue bias;
  if (graph[value.node].op == &ops::kAdd) {
    const GraphNode& add = graph[value.node];
    int first = IsNarrowProduct(graph, add.inputs[0]) ? 0 : 1;
    value = add.inputs[static_cast<size_t>(first)];
    if (!IsNarrowProduct(graph, value) || !used_once(value)) return std::nullopt;
    std::optional<GraphValue> found =
        BiasOf(graph, add.inputs[static_cast<size_t>(1 - first)], graph[value.node]);
    if (!found) return std::nullopt;
    bias = *found;
  }
  if (!IsNarrowProduct(graph, value)) return std::nullopt;
  const GraphNode& product = graph[value.node];
  if (graph.TypeOf(product.inputs[0]).dtype() != cast.type().dtype()) return std::nullopt;
  return Fused(product, bias, cast.type().dtype(), false);
}

std::vector<int> UsesOf(const Graph& graph) {
  std::vector<int> uses(static_cast<size_t>(graph.size()));
  for (const GraphNode& node : graph.nodes()) {
    for (GraphValue input : node.inputs) {
      if (input.node >= 0) ++uses[static_cast<size_t>(input.node)];
    }
  }
  for (GraphValue output : graph.outputs()) ++uses[static_cast<size_t>(output.node)];
  return uses;
}

/// With the products that `find` makes of nodes, where it makes one.
template <class Find>
Graph WithProducts(const Graph& graph, Find find) {
  const std::vector<int> uses = UsesOf(graph);
  return EditGraph(graph, [&](GraphEditor& editor, NodeId id, GraphNode& node) -> Replacement {
    std::optional<GraphNode> product = find(graph, uses, graph[id]);
    if (!product) return std::nullopt;
    for (GraphValue& input : product->inputs) input = editor.Mapped(input);
    node = std::move(*product);
    return std::nullopt;
  });
}

bool HasOp(const Graph& graph, const OpDef& op) {
  return std::ranges::any_of(graph.nodes(), [&](const GraphNode& n) { return n.op == &op; });
}

bool IsZero(const Graph& graph, GraphValue value) {
  while (compiler::IsView(graph[value.node])) value = graph[value.node].inputs[0];
  const GraphNode& node = graph[value.node];
  if (node.op != &ops::kConstant || node.type().dtype() != DType::kF32) return false;
  const Scalar zero = node.attrs[0].scalar();
  return zero.bits() == 0;
}

/// The product that gives maximum(product + bias, 0) at once.
std::optional<GraphNode> RectifiedProduct(const Graph& graph, const std::vector<int>& uses,
                                          const GraphNode& node) {
  if (node.op != &ops::kMaximum || !IsZero(graph, node.inputs[1])) return std::nullopt;
  auto is_only = [&](GraphValue value, const OpDef* op) {
    return graph[value.node].op == op && uses[static_cast<size_t>(value.node)] == 1;
  };
  if (!is_only(node.inputs[0], &ops::kAdd)) return std::nullopt;
  const GraphNode& add = graph[node.inputs[0].node];
  for (size_t first : {0, 1}) {
    if (!is_only(add.inputs[first], &ops::kDotGeneral)) continue;
    const GraphNode& product = graph[add.inputs[first].node];
    bool plain = product.type().dtype() == DType::kF32 &&
                 graph.TypeOf(product.inputs[0]).dtype() == DType::kF32 &&
                 product.attrs[2].ints().empty();
    std::optional<GraphValue> bias =
        plain ? BiasOf(graph, add.inputs[1 - first], product) : std::nullopt;
    if (!bias) continue;
    return Fused(product, *bias, DType::kF32, true);
  }
  return std::nullopt;
}

}  // namespace

Graph NarrowProducts(Graph graph) {
  if (!HasOp(graph, ops::kDotGeneral)) return graph;
  return EditGraph(std::move(graph),
                   [](GraphEditor& editor, NodeId, GraphNode& node) -> Replacement {
                     if (node.op != &ops::kDotGeneral) return std::nullopt;
                     std::optional<DType> a = NarrowDType(editor.graph(), node.inputs[0]);
                     if (!a || a != NarrowDType(editor.graph(), node.inputs[1]))
                       return std::nullopt;
                     for (GraphValue& input : node.inputs) input = Narrowed(editor, input);
                     node = Fused(std::move(node), {}, DType::kF32, false);
                     return std::nullopt;
                   });
}

Graph RoundProducts(Graph graph) {
  return HasOp(graph, ops::kDotGeneralFused) ? WithProducts(graph, RoundedProduct)
                                             : std::move(graph);
}

Graph RectifyProducts(Graph graph) {
  return HasOp(graph, ops::kMaximum) ? WithProducts(graph, RectifiedProduct) : std::move(graph);
}

}  // namespace hammock::cuda
