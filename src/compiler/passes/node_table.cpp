#include "compiler/passes/node_table.h"

#include "compiler/facts/effects.h"
#include "ir/graph_access.h"

namespace hammock {

namespace {

Hash128 HashOfNode(const GraphNode& node) {
  Hash128 hash = node.op->info().seed;
  for (GraphValue input : node.inputs) {
    hash = Combine(hash, static_cast<uint64_t>(static_cast<uint32_t>(input.node.number())) |
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

bool CanBeShared(const GraphNode& node) {
  return !TypeIsGiven(*node.op) && EffectOf(node) == Effect::kPure;
}

NodeId NodeTable::FindOrAdd(const Graph& graph, const GraphNode& node) {
  const Hash128 hash = HashOfNode(node);
  for (size_t at = hash.lo;; ++at) {
    Slot& slot = slots_[at & (slots_.size() - 1)];
    if (!slot.node) {
      slot = {hash.hi, NodeId(graph.size())};
      return slot.node;
    }
    if (slot.hash == hash.hi && Equal(graph[slot.node], node)) return slot.node;
  }
}

}  // namespace hammock
