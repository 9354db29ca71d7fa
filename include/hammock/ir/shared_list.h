#pragma once
/// SharedList: the list of operands, attributes or types of a graph node. Eight bytes; copies share
/// the values, so that the graphs of one step, of which several are alive at a time, hold what they
/// have in common once.
///
///   node.attrs = {Attr(dim), Attr(false)};
///   node.types.Set(0, node.type().With(f32));

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "hammock/export.h"

namespace hammock {

/// Elements can be replaced, not changed in place. Several threads may read lists that share their
/// values, and change or destroy their own.
template <class T>
class HAMMOCK_API SharedList {
 public:
  using value_type = T;
  using size_type = size_t;
  using const_iterator = const T*;
  using iterator = const_iterator;

  SharedList() = default;
  SharedList(std::initializer_list<T> values)
      : SharedList(std::span(values.begin(), values.size())) {}
  SharedList(std::span<const T> values);    // NOLINT: a view of values is a list
  SharedList(const std::vector<T>& values)  // NOLINT
      : SharedList(std::span(values)) {}
  SharedList(const SharedList& other) : block_(other.block_) {
    if (block_) block_->references.fetch_add(1, std::memory_order_relaxed);
  }
  SharedList(SharedList&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
  SharedList& operator=(SharedList other) noexcept {
    std::swap(block_, other.block_);
    return *this;
  }
  ~SharedList() {
    if (block_) Release();
  }

  size_t size() const { return block_ ? block_->size : 0; }
  bool empty() const { return !block_; }
  const T* data() const { return block_ ? block_->values() : nullptr; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size(); }
  auto rbegin() const { return std::reverse_iterator(end()); }
  auto rend() const { return std::reverse_iterator(begin()); }
  const T& operator[](size_t index) const { return block_->values()[index]; }
  const T& front() const { return (*this)[0]; }
  const T& back() const { return (*this)[size() - 1]; }
  operator std::vector<T>() const { return std::vector<T>(begin(), end()); }  // NOLINT: a copy

  void Set(size_t index, T value);
  void push_back(T value);
  /// Every value becomes `f(value)`. A list of which nothing changes is shared as before.
  template <class F>
  void Map(const F& f) {
    for (size_t i = 0; i < size(); ++i) {
      T value = f((*this)[i]);
      if (value != (*this)[i]) Set(i, std::move(value));
    }
  }

  bool operator==(const SharedList& other) const {
    return block_ == other.block_ || HasEqualValues(other);
  }

 private:
  struct Block {
    std::atomic<uint32_t> references{1};
    uint32_t size = 0;

    T* values() { return reinterpret_cast<T*>(this + 1); }
  };
  static_assert(alignof(T) <= sizeof(Block));
  struct Recent;

  static Block* NewBlock(std::span<const T> values);
  void Release();
  bool HasEqualValues(const SharedList& other) const;

  Block* block_ = nullptr;  // null: empty
};

}  // namespace hammock
