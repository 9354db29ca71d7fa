#include "compiler/passes/share_equal.h"

#include <bit>

#include "compiler/effects.h"
#include "compiler/passes/graph_editor.h"
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

/// Nodes by what they are. Open addressing, so that a graph takes no allocation for each of them.
class NodeTable {
 public:
  explicit NodeTable(size_t most) : slots_(std::bit_ceil(2 * most + 1)) {}

  /// The node of `graph` that equals `node`; else the id that it will get.
  NodeId FindOrAdd(const Graph& graph, const GraphNode& node) {
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

 private:
  struct Slot {
    uint64_t hash = 0;
    NodeId node;
  };
  std::vector<Slot> slots_;
};

}  // namespace

Graph ShareEqual(Graph graph) {
  NodeTable known(graph.size());
  GraphEditor editor(std::move(graph));
  for (NodeId id : editor.source().ids()) {
    GraphNode node = editor.Take(id);
    if (!TypeIsGiven(*node.op) && EffectOf(node) == Effect::kPure) {
      NodeId equal = known.FindOrAdd(editor.graph(), node);
      if (editor.graph().Contains(equal)) {
        editor.ReplaceBy(id, equal);
        continue;
      }
    }
    editor.Keep(id, std::move(node));
  }
  return editor.Finish();
}

}  // namespace hammock
