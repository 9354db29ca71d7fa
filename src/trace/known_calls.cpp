#include "trace/known_calls.h"

#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <optional>
#include <vector>

#include "base/of_thread.h"
#include "base/throw.h"
#include "ir/infer.h"
#include "ir/node_access.h"

namespace hammock {

namespace {

using Types = std::span<const Shape* const>;  // null where an operand is absent
using Attrs = std::span<const Attr>;

/// Of equal attributes they are equal.
uint64_t DigestOf(const Attr& attr) {
  if (attr.kind() == Attr::Kind::kScalar) {
    Scalar scalar = attr.scalar();
    return scalar.bits() + 31 * scalar.imag_bits();
  }
  if (attr.kind() == Attr::Kind::kDType) return static_cast<uint64_t>(attr.dtype());
  return attr.hash().lo;
}

uint64_t HashOf(const OpDef& op, Types types, Attrs attrs) {
  uint64_t hash = 0;
  auto add = [&](uint64_t word) { hash = (std::rotl(hash, 7) ^ word) * 0x9e3779b97f4a7c15; };
  add(reinterpret_cast<uintptr_t>(&op));
  for (const Shape* type : types) {
    if (!type) continue;
    add(static_cast<uint64_t>(type->dtype()) << 8 | static_cast<uint64_t>(type->rank()));
    for (int64_t size : type->sizes()) add(static_cast<uint64_t>(size));
  }
  for (const Attr& attr : attrs) add(DigestOf(attr));
  return hash;
}

struct KnownCall {
  bool Is(const OpDef& op, Types given, Attrs attrs) const {
    std::span<const Attr> own = model->attrs();
    if (&model->op() != &op || types.size() != given.size() || own.size() != attrs.size()) {
      return false;
    }
    for (size_t i = 0; i < types.size(); ++i) {
      if (given[i] ? types[i] != *given[i] : types[i].has_value()) return false;
    }
    for (size_t i = 0; i < attrs.size(); ++i) {
      if (own[i] != attrs[i]) return false;
    }
    return true;
  }

  uint64_t hash;
  std::vector<std::optional<Shape>> types;
  NodePtr model;  // of absent operands
};
using KnownCallPtr = std::unique_ptr<const KnownCall>;

/// The known calls of one thread: a table of two entries for each hash value.
struct KnownCalls {
  using Pair = std::array<KnownCallPtr, 2>;
  static constexpr int kBits = 9;
  std::array<Pair, size_t{1} << kBits> pairs;

  Pair& PairOf(uint64_t hash) { return pairs[hash >> (64 - kBits)]; }
  /// Null: not known.
  Node* Find(uint64_t hash, const OpDef& op, Types types, Attrs attrs) {
    for (const KnownCallPtr& known : PairOf(hash)) {
      if (known && known->hash == hash && known->Is(op, types, attrs)) return known->model.get();
    }
    return nullptr;
  }
  void Add(uint64_t hash, Types types, const NodePtr& model) {
    auto known = std::make_unique<KnownCall>(KnownCall{hash, {}, model});
    known->types.reserve(types.size());
    for (const Shape* type : types) {
      known->types.push_back(type ? std::optional(*type) : std::nullopt);
    }
    Pair& both = PairOf(hash);
    both[1] = std::exchange(both[0], std::move(known));
  }
};

/// Others would hold much memory.
bool IsSmall(const Attr& attr) {
  switch (attr.kind()) {
    case Attr::Kind::kNone:
    case Attr::Kind::kScalar:
    case Attr::Kind::kDType:
      return true;
    case Attr::Kind::kString:
      return attr.str().size() <= 64;
    case Attr::Kind::kInts:
      return attr.ints().size() <= kMaxRank;
    case Attr::Kind::kFloats:
    case Attr::Kind::kGraph:
    case Attr::Kind::kStrings:
      break;
  }
  return false;
}

/// Apart, so that the way of a known call is short.
[[gnu::noinline]] NodePtr NewModel(uint64_t hash, const OpDef& op, Types types, Attrs attrs) {
  constexpr size_t kMost = 16;  // operands or attributes of a call that is remembered
  const OpInfo& info = op.info();
  HAMMOCK_CHECK(attrs.size() == info.attribute_args.size(), "{}: {} attributes given, {} declared",
                info.name, attrs.size(), info.attribute_args.size());
  std::vector<Shape> results = InferShapes(op, types, attrs);
  std::vector<Node::Operand> absent(types.size());
  NodePtr model = NodeAccess::Make(op, absent, attrs, results, kNoDevice, 0);
  if (types.size() <= kMost && attrs.size() <= kMost && std::ranges::all_of(attrs, IsSmall)) {
    OfThread<KnownCalls>().Add(hash, types, model);
  }
  return model;
}

}  // namespace

[[gnu::flatten]] NodePtr ModelOf(const OpDef& op, Types types, Attrs attrs) {
  uint64_t hash = HashOf(op, types, attrs);
  if (Node* known = OfThread<KnownCalls>().Find(hash, op, types, attrs)) [[likely]]
    return NodePtr(known);
  return NewModel(hash, op, types, attrs);
}

[[gnu::flatten]] NodePtr MakeInferredNode(const OpDef& op, std::span<const Node::Operand> operands,
                                          Types types, Attrs attrs, DeviceId device,
                                          LocationId location) {
  uint64_t hash = HashOf(op, types, attrs);
  if (const Node* known = OfThread<KnownCalls>().Find(hash, op, types, attrs)) [[likely]]
    return NodeAccess::MakeLike(*known, operands.data(), device, location);
  NodePtr model = NewModel(hash, op, types, attrs);
  return NodeAccess::MakeLike(*model, operands.data(), device, location);
}

}  // namespace hammock
