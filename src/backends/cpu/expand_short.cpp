#include "backends/cpu/expand_short.h"

#include <vector>

#include "compiler/expand.h"
#include "compiler/make_explicit.h"
#include "compiler/pipeline.h"
#include "ops/attention_node.h"
#include "ops/primitives.h"

namespace hammock::cpu {
namespace {

// Up to here products of whole matrices are faster, and scores are few for each query. Half of the
// blocks of a causal mask are never visited.
constexpr int64_t kFewKeys = 512;
constexpr int64_t kFewKeysCausal = 256;

bool IsShort(const Graph& graph, NodeId id) {
  const GraphNode& node = graph[id];
  bool backward = node.op == &ops::kAttentionBackward;
  if (node.op != &ops::kAttention && !backward) return false;
  const Shape& key = graph.TypeOf(node.inputs[backward ? 2 : 1]);
  return key.size(key.rank() - 2) <= (node.attrs[0].boolean() ? kFewKeysCausal : kFewKeys);
}

/// The expansion of one node by itself, optimised without regard to what surrounds it, so that its
/// bits do not depend on that. Inputs are the operands that are present, outputs those of `used`.
Graph Expansion(const Graph& graph, NodeId id, const std::vector<bool>& used) {
  Graph one;
  GraphNode node = graph[id];
  for (GraphValue& input : node.inputs) {
    if (input.node >= 0) input = one.AddInput(graph.TypeOf(input));
  }
  NodeId at = one.Append(std::move(node));
  for (size_t i = 0; i < used.size(); ++i) {
    if (used[i]) one.AddOutput({at, static_cast<int32_t>(i)});
  }
  return Optimise(MakeExplicit(ExpandComposites(one)), nullptr);
}

/// By node: which of its results are used.
std::vector<std::vector<bool>> UsedResults(const Graph& graph) {
  std::vector<std::vector<bool>> used;
  for (const GraphNode& node : graph.nodes()) used.emplace_back(node.types.size());
  auto use = [&](GraphValue value) {
    if (value.node < 0) return;
    used[static_cast<size_t>(value.node)][static_cast<size_t>(value.index)] = true;
  };
  for (const GraphNode& node : graph.nodes()) {
    for (GraphValue input : node.inputs) use(input);
  }
  for (GraphValue output : graph.outputs()) use(output);
  return used;
}

/// A graph that is built anew.
class Copy {
 public:
  explicit Copy(const Graph& graph) : graph_(graph), values_(static_cast<size_t>(graph.size())) {}

  Graph Run() {
    std::vector<std::vector<bool>> used = UsedResults(graph_);
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (IsShort(graph_, id)) {
        Inline(id, used[static_cast<size_t>(id)]);
      } else {
        Append(id);
      }
    }
    for (GraphValue output : graph_.outputs()) out_.AddOutput(Mapped(output));
    return std::move(out_);
  }

 private:
  GraphValue Mapped(GraphValue value) const {
    if (value.node < 0) return value;
    return values_[static_cast<size_t>(value.node)][static_cast<size_t>(value.index)];
  }

  void Append(NodeId id) {
    GraphNode node = graph_[id];
    for (GraphValue& input : node.inputs) input = Mapped(input);
    size_t results = node.types.size();
    NodeId at = out_.Append(std::move(node));
    for (size_t i = 0; i < results; ++i) {
      values_[static_cast<size_t>(id)].push_back({at, static_cast<int32_t>(i)});
    }
  }

  void Inline(NodeId id, const std::vector<bool>& used) {
    Graph body = Expansion(graph_, id, used);
    std::vector<GraphValue> operands;
    for (GraphValue input : graph_[id].inputs) {
      if (input.node >= 0) operands.push_back(Mapped(input));
    }
    std::vector<NodeId> map(static_cast<size_t>(body.size()), -1);
    std::vector<GraphValue> inputs(static_cast<size_t>(body.size()));
    for (size_t i = 0; i < operands.size(); ++i) {
      inputs[static_cast<size_t>(body.inputs()[i])] = operands[i];
    }
    auto mapped = [&](GraphValue value) {
      if (value.node < 0) return value;
      NodeId at = map[static_cast<size_t>(value.node)];
      return at < 0 ? inputs[static_cast<size_t>(value.node)] : GraphValue{at, value.index};
    };
    for (NodeId i = 0; i < body.size(); ++i) {
      if (body[i].op == &ops::kInput) continue;
      GraphNode node = body[i];
      for (GraphValue& input : node.inputs) input = mapped(input);
      node.location = graph_[id].location;
      node.origin = graph_[id].origin;
      map[static_cast<size_t>(i)] = out_.Append(std::move(node));
    }
    size_t next = 0;
    for (bool is_used : used) {
      values_[static_cast<size_t>(id)].push_back(is_used ? mapped(body.outputs()[next++])
                                                         : GraphValue{});
    }
  }

  const Graph& graph_;
  std::vector<std::vector<GraphValue>> values_;  // by node: what its results became
  Graph out_;
};

}  // namespace

Graph ExpandShort(Graph graph) {
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (IsShort(graph, id)) return Copy(graph).Run();
  }
  return graph;
}

}  // namespace hammock::cpu
