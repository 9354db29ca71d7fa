#include "backends/cuda/passes/attention_views.h"

#include <algorithm>

#include "backends/cuda/passes/expand_attention.h"
#include "compiler/passes/graph_editor.h"
#include "compiler/passes/repeated_element.h"
#include "ir/primitives.h"
#include "ops/primitives/attention_node.h"
#include "ops/primitives/fused_forms.h"

namespace hammock::cuda {
namespace {

/// The layout of a view in its base tensor.
struct View {
  Dims sizes, strides;
  int64_t offset = 0;
};

View Contiguous(const Dims& sizes) { return {sizes, ContiguousStrides(sizes), 0}; }

/// Nothing if elements would have to be moved.
std::optional<View> Reshaped(const View& view, const Dims& sizes) {
  struct Run {
    int64_t size, stride;
  };
  std::vector<Run> runs;  // of dims with a common stride, the last first
  for (int d = view.sizes.size(); d-- > 0;) {
    if (view.sizes[d] == 1) continue;
    if (!runs.empty() && view.strides[d] == runs.back().size * runs.back().stride) {
      runs.back().size *= view.sizes[d];
    } else {
      runs.push_back({view.sizes[d], view.strides[d]});
    }
  }
  View out{sizes, sizes, view.offset};
  size_t next = 0;
  Run run{1, 0};
  for (int d = sizes.size(); d-- > 0;) {
    if (run.size == 1 && sizes[d] != 1 && next < runs.size()) run = runs[next++];
    if (run.size % sizes[d] != 0) return std::nullopt;
    out.strides[d] = sizes[d] == 1 ? 0 : run.stride;
    run = {run.size / sizes[d], run.stride * sizes[d]};
  }
  return out;
}

std::optional<View> Applied(const GraphNode& node, View view) {
  if (node.op == &ops::kReshape) return Reshaped(view, node.type().sizes());
  if (node.op == &ops::kPermute) {
    Dims order = node.attrs[0].ints();
    View out = view;
    for (int d = 0; d < order.size(); ++d) {
      out.sizes[d] = view.sizes[static_cast<int>(order[d])];
      out.strides[d] = view.strides[static_cast<int>(order[d])];
    }
    return out;
  }
  if (node.op == &ops::kSlice) {
    int dim = static_cast<int>(node.attr("dim").integer());
    view.offset += node.attr("start").integer() * view.strides[dim];
    view.strides[dim] *= node.attr("step").integer();
    view.sizes = node.type().sizes();
    return view;
  }
  return std::nullopt;
}

std::optional<RowLayout> RowsOf(const View& view) {
  int rank = view.sizes.size();
  if (rank < 2 || rank > 4 || view.strides[rank - 1] != 1) return std::nullopt;
  RowLayout rows{view.offset, rank > 3 ? view.strides[0] : 0, rank > 2 ? view.strides[rank - 3] : 0,
                 view.strides[rank - 2]};
  auto aligned = [](int64_t offset) { return offset % 8 == 0 && offset >= 0; };
  bool fits =
      aligned(rows.offset) && aligned(rows.outer) && aligned(rows.inner) && aligned(rows.row);
  return fits ? std::optional(rows) : std::nullopt;
}

struct Operand {
  GraphValue base;
  RowLayout rows;
};

/// The furthest value of which `value` is a view that kernels can read.
Operand FurthestBase(const Graph& graph, GraphValue value) {
  const Dims& sizes = graph.TypeOf(value).sizes();
  int64_t matrix = sizes[sizes.size() - 2] * sizes[sizes.size() - 1];
  int64_t inner = sizes.size() > 2 ? sizes[sizes.size() - 3] : 1;
  Operand best{value, {0, inner * matrix, matrix, sizes[sizes.size() - 1]}};
  std::vector<NodeId> views;
  while (graph[value.node].types.size() == 1 && !graph[value.node].inputs.empty()) {
    const GraphNode& node = graph[value.node];
    if (node.op != &ops::kReshape && node.op != &ops::kPermute && node.op != &ops::kSlice) break;
    views.push_back(value.node);
    value = node.inputs[0];
    std::optional<View> view = Contiguous(graph.TypeOf(value).sizes());
    for (size_t i = views.size(); i-- > 0 && view;) view = Applied(graph[views[i]], *view);
    if (!view) continue;
    if (std::optional<RowLayout> rows = RowsOf(*view)) best = {value, *rows};
  }
  return best;
}

bool SwapsHeads(const GraphNode& node) {
  return node.op == &ops::kPermute && node.attrs[0].ints() == Dims{0, 2, 1, 3};
}

/// One node of attention as kernels take it; see Note [Strided attention].
class StridedWriter {
 public:
  StridedWriter(GraphBuilder& out, GraphNode node) : out_(out), node_(std::move(node)) {
    backward_ = node_.op == &ops::kAttentionBackward;
    operands_ = backward_ ? 4 : 3;
    const Shape& query = out_.TypeOf(node_.inputs[backward_ ? 1 : 0]);
    const Shape& key = out_.TypeOf(node_.inputs[backward_ ? 2 : 1]);
    rank_ = query.rank();
    sizes_.width = query.size(rank_ - 1);
    sizes_.queries = query.size(rank_ - 2);
    sizes_.keys = key.size(rank_ - 2);
    sizes_.inner = rank_ > 2 ? query.size(rank_ - 3) : 1;
    sizes_.outer = query.numel() / (sizes_.width * sizes_.queries * sizes_.inner);
  }

  /// Its results, in the order of dims that the graph expects.
  std::vector<GraphValue> Write(bool bshd) {
    bshd = bshd && rank_ == 4;
    GraphValue mask = node_.inputs[operands_];
    MaskLayout m = *MaskOf(out_.TypeOf(node_.inputs[operands_ - 3]),
                           !mask.node ? nullptr : &out_.TypeOf(mask));
    std::vector<int64_t> strides = {m.kind, m.outer, m.inner, m.row, m.column};
    for (size_t i = 0; i < operands_; ++i) {
      Operand operand = FurthestBase(out_.graph(), node_.inputs[i]);
      node_.inputs.Set(i, operand.base);
      Note(operand.rows, strides);
    }
    const size_t results = backward_ ? 3 : 1;
    const int64_t width = sizes_.width, inner = sizes_.inner;
    for (size_t i = 0; i < results; ++i) {
      const int64_t rows = backward_ && i > 0 ? sizes_.keys : sizes_.queries;
      Note(bshd ? RowLayout{0, rows * inner * width, width, inner * width}
                : RowLayout{0, inner * rows * width, rows * width, width},
           strides);
    }
    GraphValue first =
        out_.Add(backward_ ? ops::kAttentionStridedBackward : ops::kAttentionStrided, node_.inputs,
                 {node_.attrs[0], node_.attrs[1],
                  Attr(Dims{sizes_.outer, sizes_.inner, sizes_.queries, sizes_.keys, sizes_.width}),
                  Attr(std::move(strides)), Attr(bshd)});
    std::vector<GraphValue> values;
    for (size_t i = 0; i < node_.types.size(); ++i) {
      GraphValue value{first.node, static_cast<int32_t>(i)};
      if (bshd && i < results) {
        value = out_.Add(ops::kPermute, {value}, {Attr(Dims{0, 2, 1, 3})});
      }
      values.push_back(out_.Reshape(value, node_.types[i].sizes()));
    }
    return values;
  }

 private:
  static void Note(const RowLayout& rows, std::vector<int64_t>& strides) {
    for (int64_t stride : {rows.offset, rows.outer, rows.inner, rows.row}) {
      strides.push_back(stride);
    }
  }

  GraphBuilder& out_;
  GraphNode node_;
  bool backward_;
  size_t operands_;
  int rank_;
  AttentionSizes sizes_;
};

/// Whether a node is an attention whose heads are interleaved in its operands or in the users of
/// its result. Results of the graph keep their layout.
NodeMap<bool> WantBshd(const Graph& graph) {
  NodeMap<bool> wants(graph.size());
  for (NodeId id : graph.ids()) {
    const GraphNode& node = graph[id];
    if (SwapsHeads(node) && node.inputs[0].index == 0) {
      NodeId made_of = node.inputs[0].node;
      if (graph[made_of].op == &ops::kAttention) wants[made_of] = true;
    }
    if (node.op == &ops::kAttentionBackward) {
      wants[id] = SwapsHeads(graph[node.inputs[0].node]);
    }
  }
  for (GraphValue output : graph.outputs()) wants[output.node] = false;
  return wants;
}

}  // namespace

Graph FoldAttentionViews(Graph graph) {
  auto has_kernel = [&](const GraphNode& node) { return HasAttentionKernel(graph, node); };
  if (std::ranges::none_of(graph.nodes(), has_kernel)) return graph;
  const NodeMap<bool> bshd = WantBshd(graph);
  return EditGraph(graph, [&](GraphEditor& editor, NodeId id, GraphNode& node) -> Replacement {
    if (has_kernel(graph[id])) {
      return StridedWriter(editor, node).Write(bshd[id]);
    }
    // Two swaps cancel.
    const Graph& out = editor.graph();
    if (SwapsHeads(node) && SwapsHeads(out[node.inputs[0].node])) {
      return {{out[node.inputs[0].node].inputs[0]}};
    }
    return std::nullopt;
  });
}

namespace {

/// The value of which `value` + 0 is made, by reshapes only.
GraphValue BeforePlusZero(const Graph& graph, GraphValue value) {
  bool added = false;
  for (;; value = graph[value.node].inputs[0]) {
    const GraphNode& node = graph[value.node];
    if (node.op == &ops::kReshape) continue;
    if (added || node.op != &ops::kAdd || !IsZero(graph, node.inputs[1])) break;
    added = true;
  }
  return added ? value : GraphValue();
}

/// The attention whose gradients a node concatenates as they would lie packed, if it does.
NodeId PackedBy(const Graph& graph, const GraphNode& node) {
  if (node.op != &ops::kConcat || node.inputs.size() != 3) return {};
  const NodeId attention = BeforePlusZero(graph, node.inputs[0]).node;
  if (!attention || graph[attention].op != &ops::kAttentionStridedBackward) return {};
  for (int32_t i = 0; i < 3; ++i) {
    if (BeforePlusZero(graph, node.inputs[i]) != GraphValue{attention, i}) return {};
  }
  const AttentionSizes sizes = SizesOf(graph[attention]);
  if (!graph[attention].attr("bshd").boolean() || sizes.queries != sizes.keys) return {};
  int64_t before = 1;
  for (int d = 0; d < static_cast<int>(node.attrs[0].integer()); ++d) before *= node.type().size(d);
  return before == sizes.outer * sizes.queries ? attention : NodeId();
}

}  // namespace

Graph PackAttentionGradients(Graph graph) {
  auto packs = [&](const GraphNode& node) { return bool(PackedBy(graph, node)); };
  if (std::ranges::none_of(graph.nodes(), packs)) return graph;
  NodeMap<int> uses(graph.size());
  auto count = [&](GraphValue value) {
    if (value.node) ++uses[value.node];
  };
  for (const GraphNode& node : graph.nodes()) std::ranges::for_each(node.inputs, count);
  std::ranges::for_each(graph.outputs(), count);
  return EditGraph(graph, [&](GraphEditor& editor, NodeId id, GraphNode& node) -> Replacement {
    const NodeId attention = PackedBy(graph, graph[id]);
    if (!attention || uses[attention] > 3) return std::nullopt;
    const GraphNode& backward = graph[attention];
    const AttentionSizes sizes = SizesOf(backward);
    const int64_t row = 3 * sizes.inner * sizes.width;
    std::vector<int64_t> strides = backward.attr("strides").ints();
    strides.resize(strides.size() - 3 * 4);
    for (int64_t i = 0; i < 3; ++i) {
      for (int64_t stride :
           {i * sizes.inner * sizes.width, sizes.queries * row, sizes.width, row}) {
        strides.push_back(stride);
      }
    }
    std::vector<Attr> attrs = backward.attrs;
    attrs[3] = Attr(std::move(strides));
    std::vector<GraphValue> inputs;
    for (GraphValue input : backward.inputs) inputs.push_back(editor.Mapped(input));
    GraphValue packed = editor.Add(ops::kAttentionPackedBackward, inputs, attrs);
    return {{editor.Reshape(packed, node.type().sizes())}};
  });
}

std::optional<MaskLayout> MaskOf(const Shape& query, const Shape* mask) {
  if (!mask) return MaskLayout{};
  MaskLayout layout;
  if (mask->dtype() == DType::kBool) layout.kind = 1;
  if (mask->dtype() == query.dtype()) layout.kind = 2;
  if (mask->dtype() == DType::kF32) layout.kind = 3;
  if (layout.kind == 0 || query.rank() > 4 || mask->rank() > query.rank()) return std::nullopt;
  Dims strides = ContiguousStrides(mask->sizes());
  auto stride = [&](int from_end) {
    int d = mask->rank() - from_end;
    return d < 0 || mask->size(d) == 1 ? 0 : strides[d];
  };
  layout.column = stride(1);
  layout.row = stride(2);
  layout.inner = stride(3);
  layout.outer = stride(4);
  return layout;
}

AttentionSizes SizesOf(const GraphNode& attention) {
  Dims sizes = attention.attr("sizes").ints();
  return {sizes[0], sizes[1], sizes[2], sizes[3], sizes[4]};
}

MaskLayout MaskOf(const GraphNode& attention) {
  const std::vector<int64_t>& mask = attention.attr("strides").ints();
  return {mask[0], mask[1], mask[2], mask[3], mask[4]};
}

RowLayout LayoutOf(const GraphNode& attention, size_t which) {
  const std::vector<int64_t>& strides = attention.attr("strides").ints();
  const size_t first = 5 + 4 * which;
  return {strides[first], strides[first + 1], strides[first + 2], strides[first + 3]};
}

}  // namespace hammock::cuda
