#include "runtime/cache/sized_key.h"

#include <algorithm>

#include "base/throw.h"
#include "ir/graph_access.h"
#include "ir/node_access.h"
#include "ir/primitives.h"

namespace hammock {
namespace {

constexpr uint64_t kParameter = 1;

uint64_t Mix(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15;
  return hash ^ hash >> 32;
}

uint64_t HeadOf(const OpDef& op, size_t operands) {
  return static_cast<uint64_t>(op.info().id) << 32 | operands << 1;
}

/// Where in its key the words of a graph's nodes are; as EmitParameter and EmitOp of walk.cpp
/// write them.
class KeyLayout {
 public:
  explicit KeyLayout(const Graph& traced) : traced_(traced) {
    size_t at = 1;  // behind the scope
    for (const GraphNode& node : traced.nodes()) {
      first_.push_back(at);
      at = TypeAt(node, at, static_cast<int>(node.types.size()));
      if (node.op != &ops::kInput) at = AttrAt(node, at, static_cast<int>(node.attrs.size()));
    }
  }

  size_t PositionOf(const SizeSlot& slot) const {
    const GraphNode& node = traced_[slot.node];
    size_t at = first_[slot.node];
    size_t position = slot.position;
    if (slot.kind == SizeSlot::kDim || slot.kind == SizeSlot::kInputDim) {
      return TypeAt(node, at, slot.which) + 1 + position;
    }
    at = AttrAt(node, TypeAt(node, at, static_cast<int>(node.types.size())), slot.which);
    return slot.inside ? at + PositionInside(node, slot) : at + 1 + position;
  }

 private:
  /// Which word of a graph in an attribute changes with the size.
  static size_t PositionInside(GraphNode node, const SizeSlot& slot) {
    std::vector<uint64_t> words[2];
    for (int64_t size : {3, 5}) {
      SetSizes(node, std::span(&slot, 1), std::span(&size, 1));
      node.attrs[slot.which].AppendBytes(words[size == 3]);
    }
    auto differs = std::ranges::mismatch(words[0], words[1]);
    return static_cast<size_t>(differs.in1 - words[0].begin());
  }

  static size_t TypeAt(const GraphNode& node, size_t at, int index) {
    at += 1 + node.inputs.size();
    for (int i = 0; i < index; ++i) {
      at += 1 + static_cast<size_t>(node.types[i].rank());
    }
    return at;
  }

  static size_t AttrAt(const GraphNode& node, size_t at, int index) {
    std::vector<uint64_t> words;
    for (int i = 0; i < index; ++i) node.attrs[i].AppendBytes(words);
    return at + words.size();
  }

  const Graph& traced_;
  NodeMap<size_t> first_;
};

Scalar NumberAt(const Graph& traced, const SizeSlot& slot) {
  bool attribute = slot.kind == SizeSlot::kAttribute || slot.kind == SizeSlot::kConstant;
  if (!attribute) return Scalar(int64_t{0});
  const Attr& attr = traced[slot.node].attrs[slot.which];
  if (slot.inside) return NumberAt(attr.graph(), *slot.inside);
  return attr.kind() == Attr::Kind::kScalar ? attr.scalar() : Scalar(int64_t{0});
}

}  // namespace

uint64_t StructureOf(const Walk& walk) {
  uint64_t hash = walk.key.words()[0];
  for (Node* node : walk.order) {
    const OpDef& op = IsBaked(node) ? ops::kConstant : node->op();
    const bool is_parameter = IsAvailable(*node) && !IsBaked(node);
    hash = Mix(hash, is_parameter ? kParameter : HeadOf(op, node->operands().size()));
  }
  return Mix(hash, walk.outputs.size());
}

uint64_t StructureOf(uint64_t scope, const Graph& traced) {
  uint64_t hash = scope;
  for (const GraphNode& node : traced.nodes()) {
    hash = Mix(hash, node.op == &ops::kInput ? kParameter : HeadOf(*node.op, node.inputs.size()));
  }
  return Mix(hash, traced.outputs().size());
}

SizedKey::SizedKey(std::vector<uint64_t> key, const Graph& traced, const SizeRule& rule)
    : key_(std::move(key)), derived_(rule.derived) {
  const KeyLayout layout(traced);
  const std::vector<SizeSlot> slots = SizeSlotsOf(traced);
  for (size_t index : rule.defined_at) defined_at_.push_back(layout.PositionOf(slots[index]));
  for (const auto& [index, size] : rule.traced) {
    varying_.push_back({layout.PositionOf(slots[index]), size, NumberAt(traced, slots[index])});
  }
  std::ranges::sort(varying_, {}, &Varying::position);
  HAMMOCK_CHECK(SizesOf(key_), "the rule of a graph does not give its key");
}

std::optional<std::vector<int64_t>> SizedKey::SizesOf(std::span<const uint64_t> key) const {
  if (key.size() != key_.size()) return std::nullopt;
  std::vector<int64_t> sizes;
  for (size_t position : defined_at_) sizes.push_back(static_cast<int64_t>(key[position]));
  if (!AppendDerived(derived_, sizes)) return std::nullopt;
  size_t begin = 0;
  for (const Varying& varying : varying_) {
    if (!std::equal(key_.begin() + static_cast<ptrdiff_t>(begin),
                    key_.begin() + static_cast<ptrdiff_t>(varying.position), key.begin() + begin)) {
      return std::nullopt;
    }
    try {
      int64_t size = varying.size.Evaluate(sizes);
      if (NumberOfSize(size, varying.like).bits() != key[varying.position]) return std::nullopt;
    } catch (const ValueError&) {  // it overflows, so it is not the size
      return std::nullopt;
    }
    begin = varying.position + 1;
  }
  if (!std::equal(key_.begin() + static_cast<ptrdiff_t>(begin), key_.end(), key.begin() + begin)) {
    return std::nullopt;
  }
  return sizes;
}

int64_t SizedKey::bytes() const {
  return static_cast<int64_t>(key_.size() * sizeof(uint64_t) +
                              varying_.size() * (sizeof(Varying) + 2 * sizeof(int64_t)) +
                              derived_.size() * sizeof(lazy::DerivedSize));
}

}  // namespace hammock
