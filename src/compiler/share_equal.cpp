#include "compiler/share_equal.h"

#include <unordered_map>

#include "compiler/bodies.h"
#include "compiler/effects.h"
#include "compiler/rewrite.h"
#include "ir/graph_access.h"

namespace hammock {

namespace {

Hash128 HashOfNode(const GraphNode& node) {
  Hash128 hash = node.op->info().seed;
  for (GraphValue input : node.inputs) {
    hash = Combine(hash, static_cast<uint64_t>(static_cast<uint32_t>(input.node)) |
                             static_cast<uint64_t>(static_cast<uint32_t>(input.index)) << 32);
  }
  for (const Attr& attr : node.attrs) hash = Combine(hash, attr.hash());
  for (const Shape& type : node.types) {
    hash = Combine(hash, static_cast<uint64_t>(type.dtype()));
    for (int64_t size : type.sizes()) hash = Combine(hash, static_cast<uint64_t>(size));
  }
  return hash;
}

bool Equal(const GraphNode& a, const GraphNode& b) {
  return a.op == b.op && a.inputs == b.inputs && a.attrs == b.attrs && a.types == b.types;
}

}  // namespace

Graph ShareEqual(const Graph& graph) {
  RequireConcrete("share_equal", graph);
  Graph out;
  std::vector<NodeId> map(static_cast<size_t>(graph.size()), -1);
  auto mapped = [&](GraphValue value) {
    return value.node < 0 ? value : GraphValue{map[static_cast<size_t>(value.node)], value.index};
  };
  std::unordered_map<Hash128, NodeId> first;  // by hash; of two that collide, the first
  for (NodeId id = 0; id < graph.size(); ++id) {
    GraphNode copy = graph[id];
    for (GraphValue& input : copy.inputs) input = mapped(input);
    NodeId& at = map[static_cast<size_t>(id)];
    if (!TypeIsGiven(*copy.op) && EffectOf(copy) == Effect::kPure) {
      auto [found, added] = first.try_emplace(HashOfNode(copy), out.size());
      if (!added && Equal(out[found->second], copy)) {
        at = found->second;
        continue;
      }
    }
    at = out.Append(std::move(copy));
  }
  for (GraphValue output : graph.outputs()) out.AddOutput(mapped(output));
  MapBodies(out, ShareEqual);
  return out;
}

}  // namespace hammock
