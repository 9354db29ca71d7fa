#include "compiler/passes/delay_gathers.h"

#include <algorithm>
#include <deque>

#include "compiler/facts/effects.h"
#include "compiler/passes/graph_editor.h"
#include "ops/primitives/collectives.h"

namespace hammock {
namespace {

bool IsGather(const GraphNode& node) {
  const bool gathers = node.op == &ops::kAllGather ||
                       (node.op == &ops::kMergedCollective && node.attrs[0].str() == "all_gather");
  return gathers && node.attr("size").integer() > 1;
}

}  // namespace

Graph DelayGathers(Graph graph) {
  if (std::ranges::none_of(graph.nodes(), IsGather)) return graph;
  GraphEditor editor(std::move(graph));
  std::deque<NodeId> delayed;
  auto keep_first = [&](size_t count) {
    for (; count > 0; --count) {
      const NodeId id = delayed.front();
      delayed.pop_front();
      editor.Keep(id, editor.Take(id));
    }
  };
  for (NodeId id : editor.source().ids()) {
    const GraphNode& node = editor.source()[id];
    if (IsGather(node)) {
      delayed.push_back(id);
      continue;
    }
    size_t needed = EffectOf(node) == Effect::kOrdered ? delayed.size() : 0;
    for (GraphValue input : node.inputs) {
      const auto found = std::ranges::find(delayed, input.node);
      if (found == delayed.end()) continue;
      needed = std::max(needed, static_cast<size_t>(found - delayed.begin()) + 1);
    }
    // The next one too, which can then be under way while this one is used.
    if (needed > 0) keep_first(std::min(needed + 1, delayed.size()));
    editor.Keep(id, editor.Take(id));
  }
  keep_first(delayed.size());
  return editor.Finish();
}

}  // namespace hammock
