#pragma once
/// ReplaceNodes: for passes that look at a node's users and make several nodes, or several results,
/// of one; rules that look at operands alone are for compiler/rewrite.h.

#include <optional>
#include <utility>
#include <vector>

#include "hammock/ir/graph.h"

namespace hammock::cuda {

/// `replace(out, id, node)` gives the values of `out` that stand for the results of node `id`, or
/// nothing: then it is copied. The operands of `node` are values of `out` already.
template <class Replace>
Graph ReplaceNodes(const Graph& graph, Replace replace) {
  Graph out;
  std::vector<std::vector<GraphValue>> map;
  auto mapped = [&](GraphValue value) {
    if (value.node < 0) return value;
    return map[static_cast<size_t>(value.node)][static_cast<size_t>(value.index)];
  };
  for (NodeId id = 0; id < graph.size(); ++id) {
    GraphNode node = graph[id];
    for (GraphValue& input : node.inputs) input = mapped(input);
    if (std::optional<std::vector<GraphValue>> results = replace(out, id, node)) {
      map.push_back(std::move(*results));
      continue;
    }
    size_t results = node.types.size();
    NodeId copy = out.Append(std::move(node));
    map.emplace_back();
    for (size_t i = 0; i < results; ++i) map.back().push_back({copy, static_cast<int32_t>(i)});
  }
  for (GraphValue output : graph.outputs()) out.AddOutput(mapped(output));
  return out;
}

}  // namespace hammock::cuda
