#include "backends/cpu/passes/expand_short_attention.h"

#include <algorithm>
#include <vector>

#include "compiler/passes/expand.h"
#include "compiler/passes/graph_editor.h"
#include "compiler/passes/make_explicit.h"
#include "compiler/pipeline.h"
#include "ir/primitives.h"
#include "ops/primitives/attention_node.h"

namespace hammock::cpu {
namespace {

// Up to here matmuls of whole matrices are faster, and scores are few for each query. Half of the
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
  Graph one = Alone(graph, graph[id]);
  std::vector<GraphValue> outputs = one.outputs();
  std::erase_if(outputs, [&](GraphValue output) { return !used[output.index]; });
  one.SetOutputs(std::move(outputs));
  return Optimise(MakeExplicit(ExpandComposites(one)), nullptr);
}

/// Which of the results of each node are used.
NodeMap<std::vector<bool>> UsedResults(const Graph& graph) {
  NodeMap<std::vector<bool>> used;
  for (const GraphNode& node : graph.nodes()) used.push_back(std::vector<bool>(node.types.size()));
  auto use = [&](GraphValue value) {
    if (value.node) used[value.node][value.index] = true;
  };
  for (const GraphNode& node : graph.nodes()) {
    for (GraphValue input : node.inputs) use(input);
  }
  for (GraphValue output : graph.outputs()) use(output);
  return used;
}

}  // namespace

Graph ExpandShortAttention(Graph graph) {
  NodeMap<bool> is_short;
  for (NodeId id : graph.ids()) is_short.push_back(IsShort(graph, id));
  if (std::ranges::find(is_short, true) == is_short.end()) return graph;
  const NodeMap<std::vector<bool>> used = UsedResults(graph);
  return EditGraph(graph, [&](GraphEditor& editor, NodeId id, GraphNode& node) -> Replacement {
    if (!is_short[id]) return std::nullopt;
    const std::vector<bool>& is_used = used[id];
    std::vector<GraphValue> present = node.inputs;
    std::erase_if(present, [](GraphValue input) { return !input.node; });
    std::vector<GraphValue> outputs = editor.Inline(Expansion(graph, id, is_used), present);
    std::vector<GraphValue> results;
    for (auto next = outputs.begin(); bool here : is_used) {
      results.push_back(here ? *next++ : GraphValue{});
    }
    return results;
  });
}

}  // namespace hammock::cpu
