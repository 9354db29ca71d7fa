#pragma once
/// Ids: numbers of things of one kind, which do not mix with those of another kind nor with other
/// integers, and maps that they index.
///
///   NodeMap<int> uses(graph.size());
///   for (NodeId id : graph.ids()) {
///     for (GraphValue input : graph[id].inputs) {
///       if (input.node) ++uses[input.node];
///     }
///   }

#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

namespace hammock {

/// The number of a `Tag`, counted from 0; none by default.
template <class Tag>
class Id {
 public:
  constexpr Id() = default;
  template <std::integral Integer>
  constexpr explicit Id(Integer number) : number_(static_cast<int32_t>(number)) {}

  constexpr int32_t number() const { return number_; }  ///< -1: none
  constexpr explicit operator bool() const { return number_ >= 0; }
  constexpr auto operator<=>(const Id&) const = default;
  constexpr Id operator+(int32_t count) const { return Id(number_ + count); }
  constexpr int32_t operator-(Id other) const { return number_ - other.number_; }
  constexpr Id& operator++() { return *this = *this + 1; }

  template <class Io>
  friend void Fields(Io& io, Id& id) {
    io(id.number_);
  }
  template <class Stream>
  friend Stream& operator<<(Stream& out, Id id) {
    out << id.number_;
    return out;
  }

 private:
  int32_t number_ = -1;
};

/// Ids with consecutive numbers, upwards or downwards.
template <class IdT, int kStep = 1>
class IdRange {
 public:
  class Iterator {
   public:
    explicit Iterator(int32_t number) : number_(number) {}
    IdT operator*() const { return IdT(number_); }
    Iterator& operator++() {
      number_ += kStep;
      return *this;
    }
    bool operator==(const Iterator&) const = default;

   private:
    int32_t number_;
  };

  IdRange(int32_t first, int32_t end) : first_(first), end_(end) {}
  Iterator begin() const { return Iterator(first_); }
  Iterator end() const { return Iterator(end_); }
  IdRange<IdT, -kStep> reversed() const { return {end_ - kStep, first_ - kStep}; }

 private:
  int32_t first_, end_;
};

/// A vector indexed by ids: a value for each of the first so many.
template <class IdT, class T>
class IdMap {
  using Values = std::vector<T>;

 public:
  IdMap() = default;
  IdMap(std::initializer_list<T> values) : values_(values) {}
  explicit IdMap(Values values) : values_(std::move(values)) {}
  explicit IdMap(size_t size) : values_(size) {}
  IdMap(size_t size, const T& value) : values_(size, value) {}

  typename Values::reference operator[](IdT id) { return values_[id.number()]; }
  typename Values::const_reference operator[](IdT id) const { return values_[id.number()]; }

  const Values& values() const { return values_; }  ///< by number
  size_t size() const { return values_.size(); }
  size_t capacity() const { return values_.capacity(); }
  bool empty() const { return values_.empty(); }
  bool contains(IdT id) const { return static_cast<uint32_t>(id.number()) < size(); }
  IdRange<IdT> ids() const { return {0, static_cast<int32_t>(size())}; }
  auto begin() { return values_.begin(); }
  auto begin() const { return values_.begin(); }
  auto end() { return values_.end(); }
  auto end() const { return values_.end(); }
  typename Values::reference back() { return values_.back(); }
  typename Values::const_reference back() const { return values_.back(); }
  bool operator==(const IdMap&) const = default;

  void assign(size_t size, const T& value) { values_.assign(size, value); }
  void resize(size_t size, const T& value) { values_.resize(size, value); }
  void reserve(size_t size) { values_.reserve(size); }
  void clear() { values_.clear(); }
  void push_back(const T& value) { values_.push_back(value); }
  void push_back(T&& value) { values_.push_back(std::move(value)); }

  template <class Io>
  friend void Fields(Io& io, IdMap& map) {
    io(map.values_);
  }

 private:
  Values values_;
};

}  // namespace hammock
