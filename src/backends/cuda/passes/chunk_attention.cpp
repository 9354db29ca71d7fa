#include "backends/cuda/passes/chunk_attention.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "backends/cuda/passes/expand_attention.h"
#include "compiler/passes/expand.h"
#include "compiler/passes/graph_editor.h"
#include "compiler/passes/make_explicit.h"
#include "ir/primitives.h"
#include "ops/kit/compose.h"
#include "ops/primitives/attention_node.h"

namespace hammock::cuda {
namespace {

constexpr int64_t kFewestRows = 64;

/// The indices of the operands; in the gradient's node the gradient of the result comes first.
struct OperandIndices {
  explicit OperandIndices(const GraphNode& node)
      : backward(node.op == &ops::kAttentionBackward), query(backward ? 1 : 0) {}
  const bool backward;
  const size_t query;
  size_t key() const { return query + 1; }
  size_t value() const { return query + 2; }
  size_t mask() const { return query + 3; }
};

struct Chunks {
  int64_t batch = 0, queries = 0;
  int64_t together = 0;  ///< matrices of a chunk
  int64_t rows = 0;      ///< queries of a chunk, if it has only one matrix
  bool several() const { return together < batch || rows < queries; }
};

/// The largest divisor of `whole` that is at most `most`, at least 1.
int64_t DivisorUpTo(int64_t whole, int64_t most) {
  int64_t divisor = std::min(whole, std::max<int64_t>(most, 1));
  while (whole % divisor != 0) --divisor;
  return divisor;
}

Chunks ChunksOf(const Graph& graph, const GraphNode& node, int64_t score_bytes) {
  const OperandIndices at(node);
  const Shape& query = graph.TypeOf(node.inputs[at.query]);
  const Shape& key = graph.TypeOf(node.inputs[at.key()]);
  if (query.numel() == 0 || key.numel() == 0) return {};
  Chunks chunks;
  chunks.queries = chunks.rows = query.size(query.rank() - 2);
  chunks.batch = query.numel() / (chunks.queries * query.size(query.rank() - 1));
  const int64_t row_bytes =
      key.size(key.rank() - 2) * Shape(ops::WideFloat(query.dtype()), {}).bytes();
  chunks.together = DivisorUpTo(chunks.batch, score_bytes / row_bytes / chunks.queries);
  if (chunks.together == 1) {
    int64_t rows = DivisorUpTo(chunks.queries, score_bytes / row_bytes);
    if (rows >= kFewestRows) chunks.rows = rows;
  }
  return chunks;
}

/// Whether a mask has one matrix for the whole batch, or one for each of its matrices.
enum class MaskKind { kNone, kShared, kEach, kOther };

MaskKind KindOfMask(const Graph& graph, const GraphNode& node) {
  const OperandIndices at(node);
  if (!node.inputs[at.mask()].node) return MaskKind::kNone;
  const Shape& mask = graph.TypeOf(node.inputs[at.mask()]);
  const Shape& query = graph.TypeOf(node.inputs[at.query]);
  bool shared = true, each = mask.rank() == query.rank();
  for (int d = 0; d + 2 < mask.rank(); ++d) {
    shared = shared && mask.size(d) == 1;
    each = each && mask.size(d) == query.size(d);
  }
  return shared ? MaskKind::kShared : each ? MaskKind::kEach : MaskKind::kOther;
}

/// A loop under construction: its operands, and the inputs of its body that stand for them.
class LoopWriter {
 public:
  LoopWriter(GraphBuilder& outside, const GraphNode& node, int64_t count)
      : outside_(outside), count_(count) {
    inside.For(node);
    iteration = inside.AddInput(Shape(DType::kI64, {}));
  }

  GraphValue Carried(GraphValue x) {
    ++carried_;
    return Operand(x, outside_.TypeOf(x));
  }
  /// To be called after all carried values. `x` begins with the number of iterations.
  GraphValue Stacked(GraphValue x) {
    ++stacked_;
    Dims sizes = outside_.TypeOf(x).sizes();
    sizes.erase(0);
    return Operand(x, outside_.TypeOf(x).With(sizes));
  }
  /// To be called after all stacked values.
  GraphValue Invariant(GraphValue x) { return Operand(x, outside_.TypeOf(x)); }

  NodeId Finish(const std::vector<GraphValue>& results) {
    for (GraphValue result : results) inside.AddOutput(result);
    auto keep = [](const Graph& graph, NodeId id) { return ExpandsAttention(graph, graph[id]); };
    Graph whole = MakeExplicit(ExpandComposites(inside.Finish(), keep));
    return outside_
        .Add(ops::kLoop, operands_,
             {Attr(std::make_shared<const Graph>(std::move(whole))), Attr(count_), Attr(carried_),
              Attr(stacked_)})
        .node;
  }

  GraphBuilder inside;   ///< of the body
  GraphValue iteration;  ///< its number, there

 private:
  GraphValue Operand(GraphValue x, const Shape& type) {
    operands_.push_back(x);
    return inside.AddInput(type);
  }

  GraphBuilder& outside_;
  const int64_t count_;
  int64_t carried_ = 0, stacked_ = 0;
  std::vector<GraphValue> operands_;
};

/// The causal mask of an iteration, which has the queries from `iteration` * rows on.
GraphValue CausalMask(GraphBuilder& w, GraphValue iteration, int64_t rows, int64_t keys) {
  const Dims plane = {rows, keys};
  GraphValue first = w.Add(ops::kMul, {iteration, w.Constant(Scalar(rows), DType::kI64)});
  GraphValue row = w.Add(ops::kAdd, {w.Broadcast(first, {rows}),
                                     w.Add(ops::kIota, {}, {Attr(rows), Attr(DType::kI64)})});
  GraphValue column = w.Add(ops::kIota, {}, {Attr(keys), Attr(DType::kI64)});
  return w.Add(ops::kLe,
               {w.Broadcast(column, plane), w.Broadcast(w.Reshape(row, {rows, 1}), plane)});
}

/// One matrix, some queries at a time. `inputs` are those of the node, with a batch of 1.
std::vector<GraphValue> ByRows(GraphBuilder& w, const GraphNode& node,
                               std::vector<GraphValue> inputs, const Chunks& chunks) {
  const OperandIndices at(node);
  const int64_t count = chunks.queries / chunks.rows;
  const DType dtype = w.TypeOf(inputs[at.query]).dtype(), wide = ops::WideFloat(dtype);
  LoopWriter loop(w, node, count);
  std::vector<GraphValue> sums;
  if (at.backward) {  // of the gradients of key and value
    for (size_t i : {at.key(), at.value()}) {
      GraphValue zero = w.Constant(Scalar(0.0).To(wide), wide);
      sums.push_back(loop.Carried(w.Broadcast(zero, w.TypeOf(inputs[i]).sizes())));
    }
  }
  // The dim of queries becomes one of iterations, and one of rows.
  auto dim_of_rows = [&](size_t i) -> int {
    const Shape& type = w.TypeOf(inputs[i]);
    if (i == at.key() || i == at.value()) return -1;
    int dim = i > at.mask() ? type.rank() - 1 : type.rank() - 2;
    return type.size(dim) == chunks.queries ? dim : -1;
  };
  std::vector<GraphValue> slices(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].node || dim_of_rows(i) < 0) continue;
    Dims sizes = w.TypeOf(inputs[i]).sizes();
    sizes[dim_of_rows(i)] = chunks.rows;
    sizes.insert(0, count);
    slices[i] = loop.Stacked(w.Reshape(inputs[i], sizes));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].node && dim_of_rows(i) < 0) slices[i] = loop.Invariant(inputs[i]);
  }
  GraphBuilder& body = loop.inside;
  if (node.attrs[0].boolean()) {
    int64_t keys = w.TypeOf(inputs[at.key()]).size(1);
    slices[at.mask()] = CausalMask(body, loop.iteration, chunks.rows, keys);
  }
  NodeId part = body.Add(*node.op, slices, {Attr(false), node.attrs[1]}).node;
  if (!at.backward) {
    NodeId all = loop.Finish({{part, 0}, {part, 1}});
    int64_t width = w.TypeOf(inputs[at.value()]).size(2);
    return {w.Reshape({all, 0}, {1, chunks.queries, width}),
            w.Reshape({all, 1}, {1, chunks.queries})};
  }
  std::vector<GraphValue> results;
  for (int32_t i : {1, 2}) {
    results.push_back(body.Add(ops::kAdd, {sums[i - 1], body.Cast({part, i}, wide)}));
  }
  results.push_back({part, 0});
  NodeId all = loop.Finish(results);
  return {w.Reshape({all, 2}, w.TypeOf(inputs[at.query]).sizes()), w.Cast({all, 0}, dtype),
          w.Cast({all, 1}, dtype)};
}

/// Some matrices at a time.
std::vector<GraphValue> ByMatrices(GraphBuilder& w, const GraphNode& node, const Chunks& chunks) {
  const OperandIndices at(node);
  const bool shared_mask = KindOfMask(w.graph(), node) == MaskKind::kShared;
  LoopWriter loop(w, node, chunks.batch / chunks.together);
  const int batch_dims = w.TypeOf(node.inputs[at.query]).rank() - 2;
  std::vector<GraphValue> slices(node.inputs.size());
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    GraphValue input = node.inputs[i];
    if (!input.node || (i == at.mask() && shared_mask)) continue;
    const Dims& old = w.TypeOf(input).sizes();
    Dims sizes = {chunks.batch / chunks.together, chunks.together};
    for (int d = batch_dims; d < old.size(); ++d) sizes.push_back(old[d]);
    slices[i] = loop.Stacked(w.Reshape(input, sizes));
  }
  if (shared_mask) {
    GraphValue mask = node.inputs[at.mask()];
    const Dims& old = w.TypeOf(mask).sizes();
    int64_t rows = old.size() > 1 ? old[old.size() - 2] : 1;
    int64_t columns = old.size() > 0 ? old[old.size() - 1] : 1;
    slices[at.mask()] = loop.Invariant(w.Reshape(mask, {rows, columns}));
  }
  std::vector<GraphValue> results;
  if (chunks.rows < chunks.queries) {
    results = ByRows(loop.inside, node, slices, chunks);
  } else {
    NodeId part = loop.inside.Add(*node.op, slices, node.attrs).node;
    for (size_t i = 0; i < node.types.size(); ++i) {
      results.push_back({part, static_cast<int32_t>(i)});
    }
  }
  NodeId all = loop.Finish(results);
  std::vector<GraphValue> values;
  for (size_t i = 0; i < node.types.size(); ++i) {
    values.push_back(w.Reshape({all, static_cast<int32_t>(i)}, node.types[i].sizes()));
  }
  return values;
}

}  // namespace

bool RunsInChunks(const Graph& graph, const GraphNode& node, int64_t score_bytes) {
  if (node.op != &ops::kAttention && node.op != &ops::kAttentionBackward) return false;
  return !HasAttentionKernel(graph, node) && KindOfMask(graph, node) != MaskKind::kOther &&
         ChunksOf(graph, node, score_bytes).several();
}

Graph ChunkAttention(Graph graph, int64_t score_bytes) {
  auto in_chunks = [&](const GraphNode& node) { return RunsInChunks(graph, node, score_bytes); };
  if (std::ranges::none_of(graph.nodes(), in_chunks)) return graph;
  return EditGraph(graph, [&](GraphEditor& editor, NodeId id, GraphNode& node) -> Replacement {
    if (!in_chunks(graph[id])) return std::nullopt;
    return ByMatrices(editor, node, ChunksOf(graph, graph[id], score_bytes));
  });
}

}  // namespace hammock::cuda
