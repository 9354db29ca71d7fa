#include "compiler/loops/residence.h"

#include <algorithm>

#include "compiler/facts/fusion_facts.h"
#include "compiler/loops/cost.h"
#include "ir/primitives.h"

namespace hammock::compiler {

namespace {

constexpr size_t kMostNodes = 64;  // of a recipe
constexpr int64_t kCallCost = 16;  // of an element of a random or copied value, in flops

/// Whether it is a call that takes about as long as it takes to write its result.
bool IsCheapCall(const GraphNode& node) {
  return node.op == &ops::kRngBits || node.op == &ops::kConcat || node.op == &ops::kPad;
}

int64_t CostOf(const Graph& graph, NodeId id) {
  const GraphNode& node = graph[id];
  return IsCheapCall(node) ? kCallCost * node.type().numel() : FlopsOf(graph, id);
}

}  // namespace

Residence::Residence(const Graph& graph, const Schedule& schedule)
    : command(graph.size(), -1), in_memory(graph.size()) {
  BufferMap<bool> used(schedule.buffers.size());
  for (BufferId buffer : schedule.inputs) used[buffer] = true;
  for (size_t i = 0; i < schedule.commands.size(); ++i) {
    for (NodeId id : schedule.commands[i].nodes) command[id] = static_cast<int>(i);
    for (BufferId buffer : schedule.commands[i].writes) used[buffer] = true;
  }
  for (NodeId id : graph.ids()) {
    for (BufferId buffer = schedule.first[id]; buffer < schedule.first[id + 1]; ++buffer) {
      if (used[schedule.buffer_of[buffer]]) in_memory[id] = true;
    }
  }
}

Recipe RecipeOf(const Graph& graph, const Residence& residence, NodeId id) {
  Recipe recipe;
  std::vector<NodeId> pending = {id};
  auto add_once = [](auto& list, auto item) {
    if (std::find(list.begin(), list.end(), item) != list.end()) return false;
    list.push_back(item);
    return true;
  };
  while (!pending.empty()) {
    const NodeId next = pending.back();
    pending.pop_back();
    if (!add_once(recipe.nodes, next)) continue;
    const GraphNode& node = graph[next];
    const bool cheap = IsInKernels(graph, next) || IsCheapCall(node);
    if (!cheap || recipe.nodes.size() > kMostNodes) return {};
    recipe.cost += CostOf(graph, next);
    for (GraphValue input : node.inputs) {
      if (residence.IsInMemory(input.node)) {
        add_once(recipe.reads, input);
      } else {
        pending.push_back(input.node);
      }
    }
  }
  std::sort(recipe.nodes.begin(), recipe.nodes.end());
  return recipe;
}

}  // namespace hammock::compiler
