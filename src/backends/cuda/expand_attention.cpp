#include "backends/cuda/expand_attention.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "backends/cuda/attention_views.h"
#include "backends/cuda/replace_nodes.h"
#include "ops/attention_node.h"
#include "ops/primitives.h"

namespace hammock::cuda {
namespace {

/// Writes nodes in place of one.
class Writer {
 public:
  Writer(Graph& out, const GraphNode& node) : out_(out), node_(node) {}

  GraphValue Op(const OpDef& op, std::vector<GraphValue> inputs, std::vector<Attr> attrs = {}) {
    NodeId id = out_.AddNode(op, std::move(inputs), std::move(attrs), node_.location);
    out_.mutable_node(id).origin = node_.origin;
    return {id, 0};
  }
  const Dims& SizesOf(GraphValue x) const { return out_.TypeOf(x).sizes(); }
  GraphValue Cast(GraphValue x, DType dtype) { return Op(ops::kCast, {x}, {Attr(dtype)}); }
  GraphValue Reshape(GraphValue x, const Dims& sizes) {
    return SizesOf(x) == sizes ? x : Op(ops::kReshape, {x}, {Attr(sizes)});
  }
  GraphValue Broadcast(GraphValue x, const Dims& sizes) {
    return SizesOf(x) == sizes ? x : Op(ops::kBroadcast, {x}, {Attr(sizes)});
  }
  /// [batch, rows] as [batch, rows, columns].
  GraphValue OfRows(GraphValue x, int64_t columns) {
    Dims sizes = SizesOf(x);
    sizes.push_back(1);
    x = Reshape(x, sizes);
    sizes[2] = columns;
    return Broadcast(x, sizes);
  }
  GraphValue Number(double value, const Dims& sizes) {
    return Broadcast(
        Op(ops::kConstant, {}, {Attr(Scalar(static_cast<float>(value))), Attr(DType::kF32)}),
        sizes);
  }
  GraphValue Scaled(GraphValue x, double scale) {
    return Op(ops::kMul, {x, Number(scale, SizesOf(x))});
  }
  GraphValue Reduce(const OpDef& op, GraphValue x) {
    return Op(op, {x}, {Attr(Dims{2}), Attr(false)});
  }
  /// The product of stacks of matrices in f32; `a_dim` and `b_dim` are summed over.
  GraphValue Dot(GraphValue a, GraphValue b, int64_t a_dim, int64_t b_dim) {
    GraphValue result = Op(ops::kDotGeneral, {a, b},
                           {Attr(Dims{a_dim}), Attr(Dims{b_dim}), Attr(Dims{0}), Attr(Dims{0})});
    GraphNode& node = out_.mutable_node(result.node);
    node.types[0] = node.types[0].With(DType::kF32);
    return result;
  }

 private:
  Graph& out_;
  const GraphNode& node_;
};

struct Operands {
  GraphValue query, key, value;  // [batch, length, width]
  bool is_causal;
  double scale;
};

GraphValue Flat(Writer& w, GraphValue x) {
  const Dims& sizes = w.SizesOf(x);
  int64_t batch = 1;
  for (int d = 0; d + 2 < sizes.size(); ++d) batch *= sizes[d];
  return w.Reshape(x, {batch, sizes[sizes.size() - 2], sizes[sizes.size() - 1]});
}

GraphValue Scores(Writer& w, const Operands& o) {
  GraphValue scores = w.Scaled(w.Dot(o.query, o.key, 2, 2), o.scale);
  if (!o.is_causal) return scores;
  Dims sizes = w.SizesOf(scores);
  GraphValue row = w.Op(ops::kIota, {}, {Attr(sizes[1]), Attr(DType::kI64)});
  GraphValue column = w.Op(ops::kIota, {}, {Attr(sizes[2]), Attr(DType::kI64)});
  Dims plane = {sizes[1], sizes[2]};
  GraphValue seen = w.Op(
      ops::kLe, {w.Broadcast(column, plane), w.Broadcast(w.Reshape(row, {sizes[1], 1}), plane)});
  return w.Op(ops::kWhere, {w.Broadcast(seen, sizes), scores,
                            w.Number(-std::numeric_limits<double>::infinity(), sizes)});
}

std::vector<GraphValue> Forward(Writer& w, const GraphNode& node, const Operands& o, DType dtype) {
  GraphValue scores = Scores(w, o);
  int64_t keys = w.SizesOf(scores)[2];
  GraphValue largest = w.Reduce(ops::kReduceMax, scores);
  GraphValue shifted = w.Op(ops::kSub, {scores, w.OfRows(largest, keys)});
  GraphValue powers = w.Op(ops::kExp, {shifted});
  GraphValue sum = w.Reduce(ops::kReduceSum, powers);
  GraphValue weights = w.Op(ops::kDiv, {powers, w.OfRows(sum, keys)});
  GraphValue out = w.Cast(w.Dot(w.Cast(weights, dtype), o.value, 2, 1), dtype);
  GraphValue log_sum = w.Op(ops::kAdd, {largest, w.Op(ops::kLog, {sum})});
  return {w.Reshape(out, node.types[0].sizes()), w.Reshape(log_sum, node.types[1].sizes())};
}

std::vector<GraphValue> Backward(Writer& w, const GraphNode& node, const Operands& o, DType dtype,
                                 GraphValue grad, GraphValue log_sum, GraphValue delta) {
  GraphValue scores = Scores(w, o);
  Dims sizes = w.SizesOf(scores);
  Dims rows = {sizes[0], sizes[1]};
  // Both products first, so that one kernel makes all of what follows.
  GraphValue products = w.Dot(grad, o.value, 2, 2);
  GraphValue shifted = w.Op(ops::kSub, {scores, w.OfRows(w.Reshape(log_sum, rows), sizes[2])});
  GraphValue weights = w.Op(ops::kExp, {shifted});
  GraphValue of_weights = w.Op(ops::kSub, {products, w.OfRows(w.Reshape(delta, rows), sizes[2])});
  GraphValue of_scores = w.Cast(w.Scaled(w.Op(ops::kMul, {weights, of_weights}), o.scale), dtype);
  GraphValue results[] = {w.Dot(of_scores, o.key, 2, 1), w.Dot(of_scores, o.query, 1, 1),
                          w.Dot(w.Cast(weights, dtype), grad, 1, 1)};
  std::vector<GraphValue> out;
  for (size_t i = 0; i < 3; ++i) {
    out.push_back(w.Reshape(w.Cast(results[i], dtype), node.types[i].sizes()));
  }
  return out;
}

std::vector<GraphValue> Expand(Graph& out, const GraphNode& node) {
  Writer w(out, node);
  size_t first = node.op == &ops::kAttentionBackward ? 1 : 0;
  Operands o = {Flat(w, node.inputs[first]), Flat(w, node.inputs[first + 1]),
                Flat(w, node.inputs[first + 2]), node.attrs[0].boolean(), node.attrs[1].real()};
  DType dtype = out.TypeOf(node.inputs[first]).dtype();
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
  if (!MaskOf(query, mask.node < 0 ? nullptr : &graph.TypeOf(mask))) return false;
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
  return node.inputs[backward ? 4 : 3].node < 0 || FitsKernels(graph, node);
}

bool HasAttentionKernel(const Graph& graph, const GraphNode& node) {
  return ExpandsAttention(graph, node) && FitsKernels(graph, node);
}

Graph ExpandAttention(Graph graph) {
  using Results = std::optional<std::vector<GraphValue>>;
  auto expands = [&](const GraphNode& node) {
    return ExpandsAttention(graph, node) && !HasAttentionKernel(graph, node);
  };
  if (std::none_of(graph.nodes().begin(), graph.nodes().end(), expands)) return graph;
  return ReplaceNodes(graph, [&](Graph& out, NodeId id, const GraphNode& node) -> Results {
    return expands(graph[id]) ? Results(Expand(out, node)) : std::nullopt;
  });
}

}  // namespace hammock::cuda
