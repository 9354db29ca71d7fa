#include "compiler/sizes/skeleton.h"

#include "ir/graph_access.h"
#include "ir/primitives.h"

namespace hammock {

namespace {

bool HasBodies(const OpDef& op) {
  return &op == &ops::kLoop || &op == &ops::kCond || &op == &ops::kWhile || &op == &ops::kCall;
}

/// A sink has Word, Words(attr), Size and Body.
template <class Sink>
void Visit(const Graph& graph, Sink& sink);

template <class Sink>
void VisitAttr(const GraphNode& node, NodeId id, int index, Sink& sink) {
  const Attr& attr = node.attrs[index];
  bool constant = node.op == &ops::kConstant && index == 0;
  auto kind = constant ? SizeSlot::kConstant : SizeSlot::kAttribute;
  if (attr.kind() == Attr::Kind::kGraph && HasBodies(*node.op)) {
    return sink.Body(attr.graph(), {SizeSlot::kConstant, id, index});
  }
  if (!constant && !node.op->info().IsSize(index)) return sink.Words(attr);
  // Marked, so that no other attribute can have the same words.
  constexpr uint64_t kMark = uint64_t{1} << 56;
  if (attr.kind() == Attr::Kind::kInts) {
    sink.Word(kMark | attr.ints().size());
    for (size_t i = 0; i < attr.ints().size(); ++i) {
      sink.Size(attr.ints()[i], {kind, id, index, static_cast<int>(i)});
    }
  } else if (auto size = SizeInAttr(attr, 0)) {
    uint64_t mark = kMark << (IsInverse(attr.scalar()) ? 2 : 1);
    sink.Word(mark | static_cast<uint64_t>(attr.scalar().dtype()));
    sink.Size(*size, {kind, id, index, 0});
  } else {
    sink.Words(attr);
  }
}

template <class Sink>
void Visit(const Graph& graph, Sink& sink) {
  auto value = [&](GraphValue v) {
    sink.Word(static_cast<uint64_t>(static_cast<uint32_t>(v.node.number())) << 32 |
              static_cast<uint32_t>(v.index));
  };
  sink.Word(static_cast<uint64_t>(graph.size()));
  for (NodeId id : graph.ids()) {
    const GraphNode& node = graph[id];
    sink.Word(static_cast<uint64_t>(node.op->info().id) << 32 | node.inputs.size() << 16 |
              node.types.size());
    for (GraphValue input : node.inputs) value(input);
    for (int i = 0; i < static_cast<int>(node.attrs.size()); ++i) VisitAttr(node, id, i, sink);
    auto kind = node.op == &ops::kInput ? SizeSlot::kInputDim : SizeSlot::kDim;
    for (int i = 0; i < static_cast<int>(node.types.size()); ++i) {
      const Shape& type = node.types[i];
      sink.Word(static_cast<uint64_t>(type.dtype()) << 8 | static_cast<uint64_t>(type.rank()));
      for (int dim = 0; dim < type.rank(); ++dim) sink.Size(type.size(dim), {kind, id, i, dim});
    }
  }
  sink.Word(graph.outputs().size());
  for (GraphValue output : graph.outputs()) value(output);
}

struct SkeletonSink {
  Skeleton skeleton;
  void Word(uint64_t word) { skeleton.words.push_back(word); }
  void Words(const Attr& attr) { attr.AppendBytes(skeleton.words); }
  void Size(int64_t size, const SizeSlot&) { skeleton.sizes.push_back(size); }
  void Body(const Graph& body, const SizeSlot&) { Visit(body, *this); }
};

struct PlaceSink {
  std::vector<SizeSlot> slots;
  void Word(uint64_t) {}
  void Words(const Attr&) {}
  void Size(int64_t, const SizeSlot& slot) { slots.push_back(slot); }
  void Body(const Graph& body, SizeSlot slot) {
    PlaceSink inner;
    Visit(body, inner);
    for (SizeSlot& inside : inner.slots) {
      slot.inside = std::make_shared<const SizeSlot>(std::move(inside));
      slots.push_back(slot);
    }
  }
};

void SetSize(GraphNode& node, const SizeSlot& slot, int64_t size) {
  if (slot.kind == SizeSlot::kDim || slot.kind == SizeSlot::kInputDim) {
    const Shape& type = node.types[slot.which];
    Dims sizes = type.sizes();
    sizes[slot.position] = size;
    node.types.Set(slot.which, type.With(sizes));
    return;
  }
  node.attrs.Set(slot.which, WithSize(node.attrs[slot.which], slot.position, size));
}

}  // namespace

Hash128 Skeleton::hash() const {
  Hash128 hash = HashOf(words.size());
  for (uint64_t word : words) hash = Combine(hash, word);
  return hash;
}

Skeleton SkeletonOf(const Graph& graph) {
  SkeletonSink sink;
  Visit(graph, sink);
  return std::move(sink.skeleton);
}

std::vector<SizeSlot> SizeSlotsOf(const Graph& graph) {
  PlaceSink sink;
  Visit(graph, sink);
  return std::move(sink.slots);
}

void SetSizes(GraphNode& node, std::span<const SizeSlot> slots, std::span<const int64_t> sizes) {
  for (size_t i = 0; i < slots.size(); ++i) {
    if (!slots[i].inside) {
      SetSize(node, slots[i], sizes[i]);
      continue;
    }
    // A body is copied once.
    const int which = slots[i].which;
    auto body = std::make_shared<Graph>(node.attrs[which].graph());
    for (; i < slots.size() && slots[i].inside && slots[i].which == which; ++i) {
      const SizeSlot& inside = *slots[i].inside;
      SetSizes(body->mutable_node(inside.node), std::span(&inside, 1), sizes.subspan(i, 1));
    }
    --i;
    node.attrs.Set(which, Attr(std::shared_ptr<const Graph>(std::move(body))));
  }
}

}  // namespace hammock
