#include "runtime/cache/walk.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "hammock/lazy/backend_data.h"
#include "ir/graph_node_of.h"
#include "ir/node_access.h"
#include "ir/primitives.h"
#include "runtime/step/settle_units.h"

namespace hammock {

namespace {

constexpr uint64_t kParameterMark = ~uint64_t{0};
constexpr uint64_t kAbsent = ~uint64_t{0} - 1;
constexpr uint32_t kNoEntry = ~uint32_t{0};

uint32_t NextEpoch() {
  static uint32_t epoch = 0;  // guarded by the graph mutex
  if (++epoch == 0) ++epoch;
  return epoch;
}

constexpr size_t kTypeWords = 1 + kMaxRank;

/// There is room for kTypeWords: all sizes that a type may have are copied, those it has are kept.
uint64_t* WriteType(uint64_t* out, const Shape& shape) {
  *out++ = static_cast<uint64_t>(shape.dtype()) << 8 | static_cast<uint64_t>(shape.rank());
  std::memcpy(out, shape.sizes().begin(), kMaxRank * sizeof(int64_t));
  return out + shape.rank();
}

/// A parameter: a leaf, or an output of a computed node.
void EmitParameter(Walk& walk, Node* node, uint32_t output) {
  walk.order.push_back(node);
  walk.parameters.push_back(node);
  walk.parameter_outputs.push_back(output);
  const Shape& shape = node->shape(static_cast<int>(output));
  uint64_t* out = walk.key.Reserve(1 + kTypeWords);
  *out++ = kParameterMark;
  walk.key.SetEnd(WriteType(out, shape));
  walk.hash = HashType(Combine(walk.hash, kParameterMark), shape);
}

/// First sight of a leaf or computed node. One with several outputs is a parameter for each that is
/// used, in the order of use, as if they were leaves: a loop's first step may have got them so.
void EnterParameter(Walk& walk, Node* node) {
  if (node->num_outputs() == 1) [[likely]] {
    NodeAccess::walk_index(node) = static_cast<uint32_t>(walk.order.size());
    EmitParameter(walk, node, 0);
    return;
  }
  NodeAccess::walk_index(node) = static_cast<uint32_t>(walk.entries.size());
  walk.entries.resize(walk.entries.size() + static_cast<size_t>(node->num_outputs()), kNoEntry);
}

// Note [Baked starts]: where a slice begins is an operand, so that a loop that reads another part
// of its data each time has one graph. Of a value that the graph itself computes and that is cut
// into a few parts, such as queries, keys and values of one matmul, it is a constant: such a slice
// is fused into what makes the value and what reads it.
constexpr int64_t kFewParts = 8;

/// Which operand of the op says where a slice begins; 0: none.
size_t StartOperand(const OpDef& op) {
  if (&op == &ops::kDynamicSelect || &op == &ops::kDynamicSlice) return 1;
  return &op == &ops::kDynamicUpdateSlice ? 2 : 0;
}

/// Whether the graph computes it, and does not merely look at a parameter.
bool IsComputedHere(Node* node) {
  while (!IsAvailable(*node)) {
    if (!(NodeAccess::flags(node) & NodeAccess::kIsView)) return true;
    if (&node->op() == &ops::kCall) return true;
    node = node->operands()[0].node;
  }
  return false;
}

/// Whether a node slices one of a few parts, beginning at `start`.
[[gnu::noinline]] bool BakesStart(const Node& node, const Node& start) {
  if (&start.op() != &ops::kScalarLeaf) return false;
  const bool is_select = &node.op() == &ops::kDynamicSelect;
  const bool is_update = &node.op() == &ops::kDynamicUpdateSlice;
  const int dim = static_cast<int>(node.attrs()[0].integer());
  if (!is_select && node.attrs().back().integer() != 1) return false;  // the step
  auto extent = [&](const Node::Operand& operand) {
    return operand.node->shape(static_cast<int>(operand.index)).size(dim);
  };
  const int64_t whole = extent(node.operands()[0]);
  const int64_t part = is_select   ? 1
                       : is_update ? extent(node.operands()[1])
                                   : node.attrs()[1].integer();
  return part > 0 && whole <= kFewParts * part && BakedStart(start) % part == 0 &&
         IsComputedHere(node.operands()[0].node);
}

/// A use of a node with several outputs.
[[gnu::noinline]] void UseOutput(Walk& walk, Node* node, uint32_t output) {
  if (!IsAvailable(*node)) return;
  uint32_t& entry = walk.entries[NodeAccess::walk_index(node) + output];
  if (entry != kNoEntry) return;
  entry = static_cast<uint32_t>(walk.order.size());
  EmitParameter(walk, node, output);
}

/// How a key names a value of the walk: its position in the order, and which output of it.
uint64_t ReferenceTo(const Walk& walk, Node* node, uint32_t index) {
  uint32_t at = NodeAccess::walk_index(node);
  if (node->num_outputs() > 1 && IsAvailable(*node)) [[unlikely]] {
    at = walk.entries[at + index];
    index = 0;
  }
  return static_cast<uint64_t>(at) << 16 | index;
}

/// The hash of a walk that went on to a node whose operands are wired so.
Hash128 AddNode(Hash128 hash, Hash128 node, uint64_t wiring) {
  return Combine({hash.lo, hash.hi ^ node.hi}, node.lo ^ wiring);
}

void EmitAttr(Walk& walk, const Attr& attr) {
  uint64_t* end = attr.WriteBytes(walk.key.Reserve(Attr::kFewWords));
  if (!end) [[unlikely]] {
    walk.words.clear();
    attr.AppendBytes(walk.words);
    end = std::ranges::copy(walk.words, walk.key.Reserve(walk.words.size())).out;
  }
  walk.key.SetEnd(end);
}

void EmitOp(Walk& walk, Node* node) {
  NodeAccess::walk_index(node) = static_cast<uint32_t>(walk.order.size());
  walk.order.push_back(node);
  walk.has_views |= (NodeAccess::flags(node) & NodeAccess::kIsView) != 0;
  auto operands = node->operands();
  size_t outputs = static_cast<size_t>(node->num_outputs());
  uint64_t* out = walk.key.Reserve(1 + operands.size() + outputs * kTypeWords);
  *out++ = static_cast<uint64_t>(node->op().info().id) << 32 | operands.size() << 16 | outputs;
  uint64_t wiring = 0;
  for (const Node::Operand& operand : operands) {
    uint64_t reference = kAbsent;
    if (operand.node) {
      ++NodeAccess::walk_uses(operand.node);
      reference = ReferenceTo(walk, operand.node, operand.index);
    }
    *out++ = reference;
    wiring = wiring * 0x9e3779b97f4a7c15 + reference;
  }
  for (size_t i = 0; i < outputs; ++i) out = WriteType(out, node->shape(static_cast<int>(i)));
  walk.key.SetEnd(out);
  for (const Attr& attr : node->attrs()) EmitAttr(walk, attr);
  walk.hash = AddNode(walk.hash, node->hash(), wiring);
}

/// First sight of a leaf that becomes a constant: words as those of a constant that was recorded.
[[gnu::noinline]] void EnterConstant(Walk& walk, Node* node, uint32_t epoch) {
  NodeAccess::epoch(node) = epoch;
  NodeAccess::walk_index(node) = static_cast<uint32_t>(walk.order.size());
  NodeAccess::walk_uses(node) = 0;
  NodeAccess::flags(node) |= NodeAccess::kBaked;
  walk.order.push_back(node);
  uint64_t* out = walk.key.Reserve(1 + kTypeWords);
  *out++ = static_cast<uint64_t>(ops::kConstant.info().id) << 32 | 1;
  walk.key.SetEnd(WriteType(out, node->shape()));
  const int64_t value = BakedStart(*node);
  EmitAttr(walk, Attr(Scalar(value)));
  EmitAttr(walk, Attr(node->shape().dtype()));
  walk.hash = Combine(walk.hash, static_cast<uint64_t>(value));
}

/// A node that carries more than its slots.
[[gnu::noinline]] void NotePayload(Walk& walk, Node* node, const LeafPayload& payload) {
  bool failed = payload.unit && payload.unit->error;
  if (!IsAvailable(*node)) {
    failed |= payload.error != nullptr;
    walk.has_suspects |= payload.failed_step != nullptr;
  }
  if (failed) walk.failed = node;
}

/// First sight of a node. True if its operands come first; its index counts them until it is
/// emitted.
bool Enter(Walk& walk, Node* node, uint32_t epoch) {
  NodeAccess::epoch(node) = epoch;
  NodeAccess::walk_index(node) = 0;
  NodeAccess::walk_uses(node) = 0;
  if (LeafPayload* payload = NodeAccess::payload(node)) [[unlikely]]
    NotePayload(walk, node, *payload);
  if (IsAvailable(*node)) {
    NodeAccess::flags(node) &= ~NodeAccess::kBaked;
    EnterParameter(walk, node);
    return false;
  }
  return true;
}

/// The next operand to go to, or null.
Node* NextOperand(Walk& walk, Node* node, uint32_t epoch) {
  auto operands = node->operands();
  for (uint32_t i = NodeAccess::walk_index(node); i < operands.size(); ++i) {
    Node* operand = operands[i].node;
    if (!operand) continue;
    if (NodeAccess::epoch(operand) != epoch) {
      if (i > 0 && i == StartOperand(node->op()) && BakesStart(*node, *operand)) [[unlikely]] {
        EnterConstant(walk, operand, epoch);
      } else if (Enter(walk, operand, epoch)) {
        NodeAccess::walk_index(node) = i + 1;
        return operand;
      }
    }
    if (operand->num_outputs() > 1) [[unlikely]]
      UseOutput(walk, operand, operands[i].index);
  }
  return nullptr;
}

void Visit(Walk& walk, Node* root, uint32_t epoch) {
  if (!Enter(walk, root, epoch)) return;
  for (Node* node = root;;) {
    if (Node* operand = NextOperand(walk, node, epoch)) {
      walk.stack.push_back(node);
      node = operand;
      continue;
    }
    EmitOp(walk, node);
    if (walk.stack.empty()) return;
    node = walk.stack.back();
    walk.stack.pop_back();
  }
}

}  // namespace

void KeyWords::Grow(size_t count) {
  size_t size = words().size();
  words_.resize(size + size / 2 + count + 64);
  end_ = words_.data() + size;
  limit_ = words_.data() + words_.size();
}

void Walk::Clear() {
  order.clear();
  parameters.clear();
  parameter_outputs.clear();
  entries.clear();
  outputs.clear();
  key.clear();
  kept = 0;
  has_views = under_way = false;
  failed = nullptr;
  has_suspects = false;
}

// Note [Outputs]: whatever is referenced from outside the walked graph (by a handle, by a pending
// op that is not part of this sync, by the tape) is an output, so that nothing is computed twice.
// View ops are cheaper to repeat than to keep: for them, unless they are roots, the operand is kept
// instead.
void RunWalk(std::span<const Value> roots, DeviceId device, uint32_t settings, Walk& walk,
             bool all_roots, UnitSpan units, std::span<Node* const> first) {
  walk.Clear();
  uint64_t scope = static_cast<uint64_t>(device) << 32 | settings;
  walk.key.push_back(scope);
  walk.hash = HashOf(scope);
  uint32_t epoch = walk.epoch = NextEpoch();
  for (Node* node : first) {
    if (NodeAccess::epoch(node) != epoch) Visit(walk, node, epoch);
  }
  for (const Value& root : roots) {
    if (all_roots || !IsAvailable(*root.node)) {
      if (NodeAccess::epoch(root.node.get()) != epoch) Visit(walk, root.node.get(), epoch);
      if (root.node->num_outputs() > 1) UseOutput(walk, root.node.get(), root.index);
    } else if (NodeAccess::epoch(root.node.get()) != epoch) {
      walk.under_way = true;
    }
  }
  for (Node* node : first) {
    if (NodeAccess::walk_uses(node) > 0) ++NodeAccess::walk_uses(node);
  }
  CountUndos(units, epoch, 1);
  constexpr uint32_t kRoot = 0x80000000;
  for (const Value& root : roots) NodeAccess::flags(root.node.get()) |= kRoot;
  for (size_t i = walk.has_views ? walk.order.size() : 0; i-- > 0;) {
    Node* node = walk.order[i];
    uint32_t flags = NodeAccess::flags(node);
    if (!(flags & NodeAccess::kIsView) || (flags & kRoot) || IsAvailable(*node)) continue;
    if (node->references() > NodeAccess::walk_uses(node))
      --NodeAccess::walk_uses(node->operands()[0].node);
  }
  for (Node* node : walk.order) {
    // Roots too have references from outside.
    bool kept = static_cast<int32_t>(node->references()) >
                static_cast<int32_t>(NodeAccess::walk_uses(node));
    if (!kept || IsAvailable(*node)) continue;
    uint32_t flags = NodeAccess::flags(node);
    if (!(flags & kRoot)) {
      if (flags & NodeAccess::kIsView) continue;
      ++walk.kept;
    }
    for (int i = 0; i < node->num_outputs(); ++i) {
      walk.outputs.push_back({node, static_cast<uint32_t>(i)});
      uint64_t output = ReferenceTo(walk, node, static_cast<uint32_t>(i));
      walk.key.push_back(output);
      walk.hash = Combine(walk.hash, output);
    }
  }
  for (const Value& root : roots) NodeAccess::flags(root.node.get()) &= ~kRoot;
}

namespace {

/// Visits all nodes that the roots wait for, once; how many.
int64_t VisitPending(std::span<const Value> roots, uint32_t epoch) {
  std::vector<Node*> stack;
  auto visit = [&](Node* node) {
    if (std::exchange(NodeAccess::epoch(node), epoch) != epoch && !IsAvailable(*node)) {
      stack.push_back(node);
    }
  };
  for (const Value& root : roots) visit(root.node.get());
  int64_t nodes = 0;
  for (; !stack.empty(); ++nodes) {
    Node* node = stack.back();
    stack.pop_back();
    for (const Node::Operand& operand : node->operands()) {
      if (operand.node) visit(operand.node);
    }
  }
  return nodes;
}

}  // namespace

int64_t CountPending(std::span<const Value> roots) { return VisitPending(roots, NextEpoch()); }

uint32_t MarkPending(std::span<const Value> roots) {
  const uint32_t epoch = NextEpoch();
  VisitPending(roots, epoch);
  return epoch;
}

uint32_t CountDropped(std::span<const NodePtr> outputs, Node* recipe) {
  const uint32_t epoch = NextEpoch();
  std::vector<Node*> dropping;  // whose operands lose a reference
  auto enter = [&](Node* node) {
    if (std::exchange(NodeAccess::epoch(node), epoch) != epoch) NodeAccess::walk_uses(node) = 0;
  };
  for (const NodePtr& output : outputs) {
    enter(output.get());
    dropping.push_back(output.get());
  }
  if (recipe) {
    enter(recipe);
    ++NodeAccess::walk_uses(recipe);
  }
  while (!dropping.empty()) {
    Node* node = dropping.back();
    dropping.pop_back();
    for (const Node::Operand& operand : node->operands()) {
      if (!operand.node) continue;
      enter(operand.node);
      const bool goes = ++NodeAccess::walk_uses(operand.node) == operand.node->references();
      if (goes && !IsAvailable(*operand.node)) dropping.push_back(operand.node);
    }
  }
  return epoch;
}

uint32_t Walk::EntryOf(Node* node, uint32_t index) const {
  return static_cast<uint32_t>(ReferenceTo(*this, node, index) >> 16);
}

std::shared_ptr<const Error> ErrorAt(const Node& node) {
  const LeafPayload& payload = *NodeAccess::payload(&node);
  return payload.error ? payload.error : payload.unit->error;
}

Graph GraphOf(const Walk& walk) {
  Graph graph;
  graph.Reserve(static_cast<int>(walk.order.size()));
  std::vector<NodeId> nodes;  // by position in the walk
  nodes.reserve(walk.order.size());
  auto value_of = [&](Node* node, uint32_t index) {
    NodeId id = nodes[walk.EntryOf(node, index)];
    return GraphValue{id, IsAvailable(*node) ? 0 : static_cast<int32_t>(index)};
  };
  auto parameter_output = walk.parameter_outputs.begin();
  for (Node* node : walk.order) {
    const NodeId origin(nodes.size());
    if (IsAvailable(*node)) {
      GraphValue value = IsBaked(node)
                             ? graph.AddConstant(Scalar(BakedStart(*node)))
                             : graph.AddInput(node->shape(static_cast<int>(*parameter_output++)));
      graph.mutable_node(value.node).location = node->location();
      graph.mutable_node(value.node).origin = origin;
      nodes.push_back(value.node);
      continue;
    }
    GraphNode copy = GraphNodeOf(
        *node, [&](const Node::Operand& operand) { return value_of(operand.node, operand.index); });
    copy.origin = origin;
    nodes.push_back(graph.Append(std::move(copy)));
  }
  for (const Output& output : walk.outputs) {
    graph.AddOutput(value_of(const_cast<Node*>(output.node), output.index));
  }
  return graph;
}

}  // namespace hammock
