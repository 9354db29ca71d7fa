#pragma once
/// One walk over what a sync needs: from the roots to data, once, without recursion. Gives the
/// post-order, the parameters, the outputs and the canonical key.

#include <cstdint>
#include <span>
#include <vector>

#include "hammock/ir/graph.h"
#include "hammock/ir/node.h"
#include "hammock/lazy/backend_data.h"
#include "ir/node_access.h"
#include "trace/write_unit.h"

namespace hammock {

/// A growing list of words that is written through a pointer, since every node of a sync adds to
/// it.
class KeyWords {
 public:
  /// Room for `count` more words; the caller writes them and says where it ended.
  uint64_t* Reserve(size_t count) {
    if (static_cast<size_t>(limit_ - end_) < count) [[unlikely]]
      Grow(count);
    return end_;
  }
  void SetEnd(uint64_t* end) { end_ = end; }
  void push_back(uint64_t word) {
    *Reserve(1) = word;
    ++end_;
  }
  void clear() { end_ = words_.data(); }
  /// Frees the memory, which later words take anew.
  void Release() { *this = {}; }
  std::span<const uint64_t> words() const { return {words_.data(), end_}; }

 private:
  void Grow(size_t count);

  std::vector<uint64_t> words_;
  uint64_t* end_ = nullptr;
  uint64_t* limit_ = nullptr;
};

/// Reused from sync to sync; valid while the graph mutex is held.
struct Walk {
  /// Post-order, with parameters (leaves, and computed nodes once for each output that is used) and
  /// baked leaves.
  std::vector<Node*> order;
  std::vector<Node*> parameters;            ///< leaves and computed nodes, by parameter number
  std::vector<uint32_t> parameter_outputs;  ///< which output of a computed node each parameter is
  std::vector<Output> outputs;              ///< what the step must produce, in order
  KeyWords key;                             ///< words that say exactly what will be computed
  Hash128 hash;                             ///< of the key
  int64_t kept = 0;                         ///< outputs that are no roots
  bool has_views = false;
  bool under_way = false;     ///< a root was left out, since it is there or under way
  Node* failed = nullptr;     ///< a node on the way whose error is known
  bool has_suspects = false;  ///< a node on the way was to be computed by a step that failed
  uint32_t epoch = 0;         ///< which nodes are marked by it

  /// Where in `order` an output of a node of this walk is.
  uint32_t EntryOf(Node* node, uint32_t index) const;

  // For the walk itself.
  std::vector<Node*> stack;
  std::vector<uint64_t> words;
  std::vector<uint32_t> entries;  // of parameters that are outputs of nodes with several

  void Clear();
};

/// With the graph mutex held. `device` and `settings`, a CodeSettingsId, become part of the key.
/// Roots that are there or under way are left out, so that no key depends on them, unless all are
/// wanted. What `units` remember is no reason to keep a value. Nodes of `first` come before all
/// that they do not need; they are noted collectives, which is no reason to keep their values
/// either where the graph uses them.
void RunWalk(std::span<const Value> roots, DeviceId device, uint32_t settings, Walk& walk,
             bool all_roots = false, UnitSpan units = {}, std::span<Node* const> first = {});

/// The settings that RunWalk was given.
inline uint32_t SettingsIn(std::span<const uint64_t> key) { return static_cast<uint32_t>(key[0]); }

/// Gives all nodes that the roots wait for the epoch that it returns. With the graph mutex held.
uint32_t MarkPending(std::span<const Value> roots);
/// How many nodes the roots wait for. With the graph mutex held.
int64_t CountPending(std::span<const Value> roots);

/// Counts the references that go when a step has succeeded and its outputs drop their operands: in
/// `walk_uses` of nodes that have the epoch it returns. `recipe`, which may be null, is held by the
/// step. With the graph mutex held.
uint32_t CountDropped(std::span<const NodePtr> outputs, Node* recipe);

/// Why a walk failed at this node.
std::shared_ptr<const Error> ErrorAt(const Node& node);

/// The traced graph of a walk: composites whole, operands unpromoted. Node i of the walk has origin
/// i.
Graph GraphOf(const Walk& walk);

/// Whether a node's value is at hand: a leaf, or its slot is filled or claimed. It is a parameter
/// of the graph, unless the walk made it a constant.
inline bool IsAvailable(const Node& node) {
  return node.IsLeaf() || node.slots()[0].data != nullptr;
}

/// Whether the walk made a leaf a constant; see Note [Baked starts].
inline bool IsBaked(Node* node) { return (NodeAccess::flags(node) & NodeAccess::kBaked) != 0; }
inline int64_t BakedStart(const Node& node) { return node.attrs()[0].scalar().ToInt(); }

}  // namespace hammock
