#include "hammock/ir/shared_list.h"

#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <new>

#include "base/of_thread.h"
#include "hammock/ir/graph.h"

namespace hammock {
namespace {

// A hash of one value, for the place of a list among recent ones.
uint64_t Mixed(uint64_t seed, uint64_t word) {
  return (std::rotl(seed, 7) ^ word) * 0x9e3779b97f4a7c15;
}

uint64_t Mixed(uint64_t seed, const Shape& type) {
  seed = Mixed(seed, static_cast<uint64_t>(type.dtype()) << 8 | static_cast<uint64_t>(type.rank()));
  for (int64_t size : type.sizes()) seed = Mixed(seed, static_cast<uint64_t>(size));
  return seed;
}

uint64_t Mixed(uint64_t seed, const Attr& attr) { return Mixed(seed, attr.hash().lo); }

// Whether a thread may keep the list: nothing large, such as a graph, stays in memory with it.
bool IsShort(std::span<const Shape> types) { return types.size() <= kMaxRank; }

bool IsShort(std::span<const Attr> attrs) {
  return std::ranges::all_of(attrs, [](const Attr& attr) {
    return attr.kind() < Attr::Kind::kString ||
           (attr.kind() == Attr::Kind::kInts && attr.ints().size() <= kMaxRank);
  });
}

// Operands are those of one node.
bool IsShort(std::span<const GraphValue>) { return false; }
uint64_t Mixed(uint64_t seed, GraphValue) { return seed; }

}  // namespace

/// The lists that a thread has last made: nodes repeat types and attributes.
template <class T>
struct SharedList<T>::Recent {
  std::array<SharedList, 256> lists;

  static SharedList& PlaceOf(std::span<const T> values) {
    uint64_t mixed = values.size();
    for (const T& value : values) mixed = Mixed(mixed, value);
    return OfThread<Recent>().lists[mixed >> 56];
  }
};

template <class T>
SharedList<T>::SharedList(std::span<const T> values) {
  if (values.empty()) return;
  if (!IsShort(values)) {
    block_ = NewBlock(values);
    return;
  }
  SharedList& recent = Recent::PlaceOf(values);
  if (!std::ranges::equal(recent, values)) {
    SharedList made;
    made.block_ = NewBlock(values);
    recent = std::move(made);
  }
  *this = recent;
}

template <class T>
SharedList<T>::Block* SharedList<T>::NewBlock(std::span<const T> values) {
  auto* block = new (::operator new(sizeof(Block) + values.size() * sizeof(T))) Block;
  block->size = static_cast<uint32_t>(values.size());
  std::ranges::uninitialized_copy(values, std::span(block->values(), values.size()));
  return block;
}

template <class T>
void SharedList<T>::Release() {
  if (block_->references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  std::destroy_n(block_->values(), block_->size);
  ::operator delete(block_);
}

template <class T>
bool SharedList<T>::HasEqualValues(const SharedList& other) const {
  return std::ranges::equal(*this, other);
}

template <class T>
void SharedList<T>::Set(size_t index, T value) {
  if (block_->references.load(std::memory_order_acquire) != 1) {
    SharedList own;
    own.block_ = NewBlock(*this);
    *this = std::move(own);
  }
  block_->values()[index] = std::move(value);
}

template <class T>
void SharedList<T>::push_back(T value) {
  std::vector<T> values = *this;
  values.push_back(std::move(value));
  *this = values;
}

template class SharedList<GraphValue>;
template class SharedList<Attr>;
template class SharedList<Shape>;

}  // namespace hammock
