#include "backends/cuda/narrow_products.h"

#include <algorithm>
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

bool IsNarrowProduct(const Graph& graph, GraphValue value) {
  const GraphNode& node = graph[value.node];
  return node.op == &ops::kDotGeneral && node.type().dtype() == DType::kF32 &&
         IsNarrow(graph.TypeOf(node.inputs[0]).dtype());
}

/// The vector that is added to every row of a product, if a value is one: 16-bit floats, one for
/// each column of the result.
std::optional<GraphValue> BiasOf(const Graph& graph, GraphValue value, const GraphNode& product) {
  const Shape& b = graph.TypeOf(product.inputs[1]);
  int64_t fixed =
      static_cast<int64_t>(product.attrs[1].ints().size() + product.attrs[3].ints().size());
  if (b.rank() - fixed != 1) return std::nullopt;
  int64_t columns = product.type().size(product.type().rank() - 1);
  while (true) {
    const GraphNode& node = graph[value.node];
    const Shape& type = graph.TypeOf(value);
    bool is_vector =
        type.numel() == columns && type.rank() >= 1 && type.size(type.rank() - 1) == columns;
    if (is_vector && type.dtype() == graph.TypeOf(product.inputs[0]).dtype()) return value;
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
  GraphNode product = graph[value.node];
  if (graph.TypeOf(product.inputs[0]).dtype() != cast.type().dtype()) return std::nullopt;
  product.types[0] = cast.type();
  if (bias.node >= 0) product.inputs.push_back(bias);
  return product;
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

/// `make` returns what stands in the place of a node, whose operands are mapped already.
template <class Make>
Graph Rebuilt(const Graph& graph, Make make) {
  Graph out;
  std::vector<NodeId> map(static_cast<size_t>(graph.size()));
  auto mapped = [&](GraphValue value) {
    if (value.node >= 0) value.node = map[static_cast<size_t>(value.node)];
    return value;
  };
  for (NodeId id = 0; id < graph.size(); ++id) {
    map[static_cast<size_t>(id)] = out.Append(make(out, id, mapped));
  }
  for (GraphValue output : graph.outputs()) out.AddOutput(mapped(output));
  return RemoveDead(std::move(out));
}

/// With the products that `find` makes of nodes, where it makes one.
template <class Find>
Graph WithProducts(const Graph& graph, Find find) {
  std::vector<int> uses = UsesOf(graph);
  return Rebuilt(graph, [&](Graph&, NodeId id, auto mapped) {
    std::optional<GraphNode> product = find(graph, uses, graph[id]);
    GraphNode node = product ? *product : graph[id];
    for (GraphValue& input : node.inputs) input = mapped(input);
    return node;
  });
}

/// Products are rounded by who makes them: once, from their sums.
Graph RoundProducts(const Graph& graph) { return WithProducts(graph, RoundedProduct); }

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
    GraphNode product = graph[add.inputs[first].node];
    bool plain = product.type().dtype() == DType::kF32 && product.inputs.size() == 2 &&
                 graph.TypeOf(product.inputs[0]).dtype() == DType::kF32 &&
                 product.attrs[2].ints().empty();
    std::optional<GraphValue> bias =
        plain ? BiasOf(graph, add.inputs[1 - first], product) : std::nullopt;
    if (!bias) continue;
    product.inputs.push_back(*bias);
    product.inputs.push_back({});  // a mark, which calls_product.cpp reads
    return product;
  }
  return std::nullopt;
}

}  // namespace

Graph RectifyProducts(Graph graph) {
  bool any = std::any_of(graph.nodes().begin(), graph.nodes().end(),
                         [](const GraphNode& node) { return node.op == &ops::kMaximum; });
  return any ? WithProducts(graph, RectifiedProduct) : RemoveDead(std::move(graph));
}

Graph NarrowProducts(Graph graph) {
  auto may_be_narrow = [&](const GraphNode& node) {
    return node.op == &ops::kDotGeneral &&
           (IsNarrow(graph.TypeOf(node.inputs[0]).dtype()) || NarrowDType(graph, node.inputs[0]));
  };
  if (std::none_of(graph.nodes().begin(), graph.nodes().end(), may_be_narrow)) return graph;
  bool changed = false;
  Graph narrowed = Rebuilt(graph, [&](Graph& out, NodeId id, auto mapped) {
    GraphNode node = graph[id];
    for (GraphValue& input : node.inputs) input = mapped(input);
    if (node.op != &ops::kDotGeneral) return node;
    changed |= IsNarrow(out.TypeOf(node.inputs[0]).dtype());
    std::optional<DType> a = NarrowDType(out, node.inputs[0]);
    if (a && a == NarrowDType(out, node.inputs[1])) {
      for (GraphValue& input : node.inputs) input = Narrowed(out, input);
      changed = true;
    }
    return node;
  });
  return changed ? RoundProducts(narrowed) : graph;
}

}  // namespace hammock::cuda
