#include "lazy/known_calls.h"

#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <vector>

#include "base/of_thread.h"
#include "ir/infer.h"
#include "ir/node_access.h"

namespace hammock {

namespace {

/// A call as words: equal calls have equal ones. Attributes that are shared boxes are compared
/// besides, their words are hashes.
class CallWords {
 public:
  CallWords(const OpDef& op, std::span<const Shape* const> in, std::span<const Attr> attrs) {
    if (in.size() > kMost || attrs.size() > kMost) return;
    uint64_t* end = words_;
    uint64_t hash = 0;
    auto add = [&](uint64_t word) {
      hash = (std::rotl(hash, 7) ^ word) * 0x9e3779b97f4a7c15;
      *end++ = word;
    };
    add(reinterpret_cast<uintptr_t>(&op));
    for (const Shape* type : in) {
      if (!type) {
        add(0);
        continue;
      }
      add(1 | static_cast<uint64_t>(type->dtype()) << 8 |
          static_cast<uint64_t>(type->rank()) << 16);
      for (int64_t size : type->sizes()) add(static_cast<uint64_t>(size));
    }
    for (const Attr& attr : attrs) {
      if (attr.kind() != Attr::Kind::kScalar) {
        add(attr.hash().lo);
        continue;
      }
      Scalar value = attr.scalar();
      add(1 | static_cast<uint64_t>(value.dtype()) << 8);
      add(value.bits());
    }
    hash_ = hash;
    size_ = static_cast<size_t>(end - words_);
  }

  /// None: a call with too many operands to know it.
  std::span<const uint64_t> words() const { return {words_, size_}; }
  uint64_t hash() const { return hash_; }

 private:
  static constexpr size_t kMost = 16;

  size_t size_ = 0;
  uint64_t hash_ = 0;
  uint64_t words_[1 + kMost * (1 + kMaxRank) + kMost * 2];  // only the first ones are set
};

struct KnownCall {
  bool Is(const CallWords& call, std::span<const Attr> given) const {
    if (!std::ranges::equal(words, call.words())) return false;
    for (size_t i = 0; i < attrs.size(); ++i) {
      if (given[i].kind() != Attr::Kind::kScalar && given[i] != attrs[i]) return false;
    }
    return true;
  }

  std::vector<uint64_t> words;
  std::vector<Attr> attrs;
  std::vector<Shape> results;
  Hash128 hash;  // of the node
};
using KnownCallPtr = std::unique_ptr<const KnownCall>;

/// Those of a thread: two places for calls whose hashes are alike.
struct KnownCalls {
  using Places = std::array<KnownCallPtr, 2>;
  static constexpr int kBits = 9;
  std::array<Places, size_t{1} << kBits> places;

  Places& PlacesOf(const CallWords& call) { return places[call.hash() >> (64 - kBits)]; }
  const KnownCall* Find(const CallWords& call, std::span<const Attr> attrs) {
    for (const KnownCallPtr& known : PlacesOf(call)) {
      if (known && known->Is(call, attrs)) return known.get();
    }
    return nullptr;
  }
  void Add(const CallWords& call, KnownCallPtr known) {
    Places& both = PlacesOf(call);
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

}  // namespace

NodePtr MakeInferredNode(const OpDef& op, std::span<const Node::Operand> operands,
                         std::span<const Shape* const> types, std::span<const Attr> attrs,
                         DeviceId device, LocationId location) {
  CallWords call(op, types, attrs);
  if (const KnownCall* known = OfThread<KnownCalls>().Find(call, attrs)) {
    return NodeAccess::Make(op, operands, attrs, known->results, device, location, known->hash);
  }
  std::vector<Shape> results = InferShapes(op, types, attrs);
  NodePtr node = NodeAccess::Make(op, operands, attrs, results, device, location);
  if (!call.words().empty() && std::ranges::all_of(attrs, IsSmall)) {
    OfThread<KnownCalls>().Add(
        call, std::make_unique<KnownCall>(KnownCall{{call.words().begin(), call.words().end()},
                                                    {attrs.begin(), attrs.end()},
                                                    std::move(results),
                                                    node->hash()}));
  }
  return node;
}

}  // namespace hammock
