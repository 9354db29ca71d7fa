#include "backends/cuda/passes/expand_attention.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "backends/cuda/passes/attention_views.h"
#include "compiler/passes/graph_editor.h"
#include "ir/primitives.h"
#include "ops/primitives/attention_node.h"
#include "ops/primitives/fused_forms.h"

namespace hammock::cuda {
namespace {

/// [batch, rows] as [batch, rows, columns].
GraphValue OfRows(GraphBuilder& w, GraphValue x, int64_t columns) {
  Dims sizes = w.SizesOf(x);
  sizes.push_back(1);
  x = w.Reshape(x, sizes);
  sizes[2] = columns;
  return w.Broadcast(x, sizes);
}
GraphValue Number(GraphBuilder& w, double value, const Dims& sizes) {
  return w.Broadcast(w.Constant(Scalar(static_cast<float>(value)), DType::kF32), sizes);
}
GraphValue Scaled(GraphBuilder& w, GraphValue x, double scale) {
  return w.Add(ops::kMul, {x, Number(w, scale, w.SizesOf(x))});
}
GraphValue Reduce(GraphBuilder& w, const OpDef& op, GraphValue x) {
  return w.Add(op, {x}, {Attr(Dims{2}), Attr(false)});
}
/// The batched matmul in f32 that sums over `a_dim` and `b_dim`.
GraphValue Dot(GraphBuilder& w, GraphValue a, GraphValue b, int64_t a_dim, int64_t b_dim) {
  return w.Add(ops::kDotGeneralFused, {a, b, {}},
               {Attr(Dims{a_dim}), Attr(Dims{b_dim}), Attr(Dims{0}), Attr(Dims{0}),
                Attr(DType::kF32), Attr(false)});
}

struct Operands {
  GraphValue query, key, value;  // [batch, length, width]
  bool is_causal;
  double scale;
};

GraphValue Flat(GraphBuilder& w, GraphValue x) {
  const Dims& sizes = w.SizesOf(x);
  int64_t batch = 1;
  for (int d = 0; d + 2 < sizes.size(); ++d) batch *= sizes[d];
  return w.Reshape(x, {batch, sizes[sizes.size() - 2], sizes[sizes.size() - 1]});
}

GraphValue Scores(GraphBuilder& w, const Operands& o) {
  GraphValue scores = Scaled(w, Dot(w, o.query, o.key, 2, 2), o.scale);
  if (!o.is_causal) return scores;
  Dims sizes = w.SizesOf(scores);
  GraphValue row = w.Add(ops::kIota, {}, {Attr(sizes[1]), Attr(DType::kI64)});
  GraphValue column = w.Add(ops::kIota, {}, {Attr(sizes[2]), Attr(DType::kI64)});
  Dims plane = {sizes[1], sizes[2]};
  GraphValue seen = w.Add(
      ops::kLe, {w.Broadcast(column, plane), w.Broadcast(w.Reshape(row, {sizes[1], 1}), plane)});
  return w.Add(ops::kWhere, {w.Broadcast(seen, sizes), scores,
                             Number(w, -std::numeric_limits<double>::infinity(), sizes)});
}

std::vector<GraphValue> Forward(GraphBuilder& w, const GraphNode& node, const Operands& o,
                                DType dtype) {
  GraphValue scores = Scores(w, o);
  int64_t keys = w.SizesOf(scores)[2];
  GraphValue largest = Reduce(w, ops::kReduceMax, scores);
  GraphValue shifted = w.Add(ops::kSub, {scores, OfRows(w, largest, keys)});
  GraphValue powers = w.Add(ops::kExp, {shifted});
  GraphValue sum = Reduce(w, ops::kReduceSum, powers);
  GraphValue weights = w.Add(ops::kDiv, {powers, OfRows(w, sum, keys)});
  GraphValue out = w.Cast(Dot(w, w.Cast(weights, dtype), o.value, 2, 1), dtype);
  GraphValue log_sum = w.Add(ops::kAdd, {largest, w.Add(ops::kLog, {sum})});
  return {w.Reshape(out, node.types[0].sizes()), w.Reshape(log_sum, node.types[1].sizes())};
}

std::vector<GraphValue> Backward(GraphBuilder& w, const GraphNode& node, const Operands& o,
                                 DType dtype, GraphValue grad, GraphValue log_sum,
                                 GraphValue delta) {
  GraphValue scores = Scores(w, o);
  Dims sizes = w.SizesOf(scores);
  Dims rows = {sizes[0], sizes[1]};
  // Both matmuls first, so that one kernel computes everything after them.
  GraphValue matmuls = Dot(w, grad, o.value, 2, 2);
  GraphValue shifted = w.Add(ops::kSub, {scores, OfRows(w, w.Reshape(log_sum, rows), sizes[2])});
  GraphValue weights = w.Add(ops::kExp, {shifted});
  GraphValue of_weights = w.Add(ops::kSub, {matmuls, OfRows(w, w.Reshape(delta, rows), sizes[2])});
  GraphValue of_scores = w.Cast(Scaled(w, w.Add(ops::kMul, {weights, of_weights}), o.scale), dtype);
  GraphValue results[] = {Dot(w, of_scores, o.key, 2, 1), Dot(w, of_scores, o.query, 1, 1),
                          Dot(w, w.Cast(weights, dtype), grad, 1, 1)};
  std::vector<GraphValue> out;
  for (size_t i = 0; i < 3; ++i) {
    out.push_back(w.Reshape(w.Cast(results[i], dtype), node.types[i].sizes()));
  }
  return out;
}

std::vector<GraphValue> Expand(GraphBuilder& w, const GraphNode& node) {
  size_t first = node.op == &ops::kAttentionBackward ? 1 : 0;
  Operands o = {Flat(w, node.inputs[first]), Flat(w, node.inputs[first + 1]),
                Flat(w, node.inputs[first + 2]), node.attrs[0].boolean(), node.attrs[1].real()};
  DType dtype = w.TypeOf(node.inputs[first]).dtype();
  if (first == 0) return Forward(w, node, o, dtype);
  return Backward(w, node, o, dtype, Flat(w, node.inputs[0]), node.inputs[5], node.inputs[6]);
}

}  // namespace

namespace {

/// Whether kernels have these sizes and this mask.
bool FitsKernels(const Graph& graph, const GraphNode& node) {
  constexpr int64_t kMostBatch = 65535;
  constexpr int64_t kMostWidth = 128;
  size_t first = node.op == &ops::kAttentionBackward ? 1 : 0;
  const Shape& query = graph.TypeOf(node.inputs[first]);
  const Shape& value = graph.TypeOf(node.inputs[first + 2]);
  GraphValue mask = node.inputs[first + 3];
  if (!MaskOf(query, !mask.node ? nullptr : &graph.TypeOf(mask))) return false;
  int64_t width = query.size(query.rank() - 1);
  int64_t batch = query.numel() / (width * query.size(query.rank() - 2));
  return width % 16 == 0 && width <= kMostWidth && value.size(value.rank() - 1) == width &&
         batch <= kMostBatch && node.attrs[1].real() > 0;
}

}  // namespace

bool ExpandsAttention(const Graph& graph, const GraphNode& node) {
  bool backward = node.op == &ops::kAttentionBackward;
  if (!backward && node.op != &ops::kAttention) return false;
  const Shape& query = graph.TypeOf(node.inputs[backward ? 1 : 0]);
  const Shape& key = graph.TypeOf(node.inputs[backward ? 2 : 1]);
  bool narrow = query.dtype() == DType::kF16 || query.dtype() == DType::kBF16;
  if (!narrow || query.numel() == 0 || key.numel() == 0) return false;
  // Tiles of one row would leave the tensor cores idle, and the GPU where there are few heads;
  // loops over the keys are bound by memory.
  if (!backward && query.size(query.rank() - 2) == 1) return false;
  return !node.inputs[backward ? 4 : 3].node || FitsKernels(graph, node);
}

bool HasAttentionKernel(const Graph& graph, const GraphNode& node) {
  return ExpandsAttention(graph, node) && FitsKernels(graph, node);
}

Graph ExpandAttention(Graph graph) {
  auto expands = [&](const GraphNode& node) {
    return ExpandsAttention(graph, node) && !HasAttentionKernel(graph, node);
  };
  if (std::ranges::none_of(graph.nodes(), expands)) return graph;
  return EditGraph(graph, [&](GraphEditor& editor, NodeId id, GraphNode& node) -> Replacement {
    return expands(graph[id]) ? Replacement(Expand(editor, node)) : std::nullopt;
  });
}

}  // namespace hammock::cuda
