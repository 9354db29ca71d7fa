#include "compiler/passes/fold_scales.h"

#include <optional>

#include "compiler/passes/graph_editor.h"
#include "ir/primitives.h"

namespace hammock {

namespace {

/// A contraction, the ops that follow it for each channel, and the dims of its channels.
struct Chain {
  std::vector<NodeId> nodes;  // the contraction first
  int channel = 0;            // dim of the result
  int weight_channel = 0;     // dim of the second operand
};

/// A chain of a contraction alone, with the dims of its channels; nothing for other nodes.
std::optional<Chain> StartAt(const Graph& graph, NodeId id) {
  const GraphNode& node = graph[id];
  Chain chain;
  chain.nodes = {id};
  if (!IsFloat(node.types[0].dtype())) return std::nullopt;
  const Shape& type = node.types[0];
  if (node.op == &ops::kConvolution) {
    if (node.attr("transposed").boolean()) return std::nullopt;
    chain.channel = 1;
    chain.weight_channel = 0;
  } else if (node.op == &ops::kDotGeneral) {
    const Shape& weight = graph.TypeOf(node.inputs[1]);
    int free = -1;
    for (int d = 0; d < weight.rank(); ++d) {
      bool bound = false;
      for (size_t list : {1, 3}) {
        for (int64_t other : node.attrs[list].ints()) bound |= other == d;
      }
      if (bound) continue;
      if (free >= 0) return std::nullopt;
      free = d;
    }
    if (free < 0 || !node.attrs[3].ints().empty()) return std::nullopt;
    chain.channel = type.rank() - 1;
    chain.weight_channel = free;
  } else {
    return std::nullopt;
  }
  if (type.numel() <= graph.TypeOf(node.inputs[1]).numel()) return std::nullopt;
  return chain;
}

/// The value for each channel, if a value differs from channel to channel only.
std::optional<GraphValue> PerChannel(const Graph& graph, GraphValue value, int channel) {
  const GraphNode& node = graph[value.node];
  if (node.op != &ops::kBroadcast) return std::nullopt;
  const Dims& sizes = graph.TypeOf(node.inputs[0]).sizes();
  int added = node.types[0].rank() - sizes.size();
  for (int d = 0; d < sizes.size(); ++d) {
    if (d + added != channel && sizes[d] != 1) return std::nullopt;
  }
  return node.inputs[0];
}

bool IsAffine(const OpDef* op) {
  return op == &ops::kAdd || op == &ops::kSub || op == &ops::kMul || op == &ops::kDiv;
}

/// How often each node is used, results included, and by whom last.
struct Uses {
  explicit Uses(const Graph& graph) : count(graph.size()), user(graph.size()) {
    for (NodeId id : graph.ids()) {
      for (GraphValue input : graph[id].inputs) {
        if (!input.node) continue;
        ++count[input.node];
        user[input.node] = id;
      }
    }
    for (GraphValue output : graph.outputs()) ++count[output.node];
  }
  NodeMap<int> count;
  NodeMap<NodeId> user;
};

/// Follows a contraction as long as its result is only scaled and shifted; nothing if it is not
/// scaled.
std::optional<Chain> FindChain(const Graph& graph, const Uses& uses, NodeId id) {
  std::optional<Chain> chain = StartAt(graph, id);
  if (!chain) return std::nullopt;
  bool scaled = false;
  for (NodeId last = id; uses.count[last] == 1 && uses.user[last];) {
    NodeId next = uses.user[last];
    const GraphNode& node = graph[next];
    if (!IsAffine(node.op) || node.types[0] != graph[id].types[0]) break;
    bool first = node.inputs[0].node == last;
    if (node.op == &ops::kDiv && !first) break;
    if (!PerChannel(graph, node.inputs[first ? 1 : 0], chain->channel)) break;
    scaled |= node.op == &ops::kMul || node.op == &ops::kDiv;
    chain->nodes.push_back(last = next);
  }
  if (!scaled) return std::nullopt;
  return chain;
}

/// Replaces each chain by one contraction with scaled weights.
class Folder {
 public:
  explicit Folder(const Graph& graph) : graph_(graph), editor_(graph) {}

  Graph Run() {
    Uses uses(graph_);
    NodeMap<std::optional<Chain>> ends(graph_.size());
    NodeMap<bool> gone(graph_.size());
    for (NodeId id : graph_.ids()) {
      std::optional<Chain> chain = FindChain(graph_, uses, id);
      if (!chain) continue;
      for (NodeId node : chain->nodes) gone[node] = true;
      ends[chain->nodes.back()] = std::move(chain);
    }
    for (NodeId id : graph_.ids()) {
      if (ends[id]) {
        editor_.For(graph_[id]);
        editor_.Replace(id, Fold(*ends[id]));
      } else if (!gone[id]) {
        editor_.Keep(id, editor_.Take(id));
      }
    }
    return editor_.Finish();
  }

 private:
  /// A vector with one element for each channel as large as `whole`, along its dim `dim`.
  GraphValue Spread(GraphValue vector, const Shape& whole, int dim) {
    Dims sizes = Dims::Filled(whole.rank(), 1);
    sizes[dim] = whole.size(dim);
    return editor_.Broadcast(editor_.Reshape(vector, sizes), whole.sizes());
  }

  /// The operand that is the same within a channel, as a vector.
  GraphValue VectorOf(GraphValue value, const Chain& chain, const Shape& vector) {
    GraphValue source = editor_.Mapped(*PerChannel(graph_, value, chain.channel));
    const int64_t count = editor_.TypeOf(source).numel();
    return editor_.Broadcast(editor_.Reshape(source, {count}), vector.sizes());
  }

  GraphValue Fold(const Chain& chain) {
    const GraphNode& contraction = graph_[chain.nodes[0]];
    const Shape& type = contraction.types[0];
    Shape vector = type.With(Dims{type.size(chain.channel)});
    std::optional<GraphValue> scale, shift;
    auto apply = [&](const OpDef& op, GraphValue a, GraphValue b) {
      return editor_.Add(op, {a, b}, {}, vector);
    };
    for (size_t i = 1; i < chain.nodes.size(); ++i) {
      const GraphNode& node = graph_[chain.nodes[i]];
      bool first = node.inputs[0].node == chain.nodes[i - 1];
      GraphValue other = VectorOf(node.inputs[first ? 1 : 0], chain, vector);
      if (node.op == &ops::kAdd) {
        shift = shift ? apply(ops::kAdd, *shift, other) : other;
      } else if (node.op == &ops::kSub && first) {
        shift =
            shift ? apply(ops::kSub, *shift, other) : editor_.Add(ops::kNeg, {other}, {}, vector);
      } else if (node.op == &ops::kSub) {
        shift = shift ? apply(ops::kSub, other, *shift) : other;
        GraphValue one = Ones(vector);
        scale = editor_.Add(ops::kNeg, {scale ? *scale : one}, {}, vector);
      } else if (node.op == &ops::kMul) {
        if (shift) shift = apply(ops::kMul, *shift, other);
        scale = scale ? apply(ops::kMul, *scale, other) : other;
      } else {
        GraphValue one = Ones(vector);
        if (shift) shift = apply(ops::kDiv, *shift, other);
        scale = apply(ops::kDiv, scale ? *scale : one, other);
      }
    }
    GraphValue weight = editor_.Mapped(contraction.inputs[1]);
    const Shape weight_type = editor_.TypeOf(weight);
    weight = editor_.Add(ops::kMul, {weight, Spread(*scale, weight_type, chain.weight_channel)}, {},
                         weight_type);
    GraphValue result = editor_.Add(
        *contraction.op, {editor_.Mapped(contraction.inputs[0]), weight}, contraction.attrs, type);
    if (!shift) return result;
    return editor_.Add(ops::kAdd, {result, Spread(*shift, type, chain.channel)}, {}, type);
  }

  GraphValue Ones(const Shape& vector) {
    return editor_.Broadcast(editor_.Constant(Scalar(1.0), vector.dtype()), vector.sizes());
  }

  const Graph& graph_;
  GraphEditor editor_;
};

}  // namespace

Graph FoldScales(const Graph& graph) { return Folder(graph).Run(); }

}  // namespace hammock
