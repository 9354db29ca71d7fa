#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <utility>

namespace hammock {

/// A growing list whose first N entries are part of the object: for the short lists of objects that
/// are made for every recorded op. Neither copied nor moved.
template <class T, size_t N>
class InlineList {
 public:
  InlineList() = default;
  ~InlineList() {
    clear();
    if (data_ != Inline()) FreeHeap();
  }
  InlineList(const InlineList&) = delete;
  InlineList& operator=(const InlineList&) = delete;

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }

  void push_back(T value) {
    if (size_ == capacity_) [[unlikely]]
      Grow();
    new (data_ + size_++) T(std::move(value));
  }
  void append(std::span<const T> values) {
    while (capacity_ - size_ < values.size()) Grow();
    std::uninitialized_copy(values.begin(), values.end(), end());
    size_ += static_cast<uint32_t>(values.size());
  }
  void clear() {
    std::destroy(begin(), end());
    size_ = 0;
  }

 private:
  T* Inline() { return reinterpret_cast<T*>(memory_); }
  void FreeHeap() { ::operator delete (data_, std::align_val_t{alignof(T)}); }
  [[gnu::noinline]] void Grow() {
    capacity_ *= 2;
    T* data = static_cast<T*>(::operator new (capacity_ * sizeof(T), std::align_val_t{alignof(T)}));
    std::uninitialized_move(begin(), end(), data);
    std::destroy(begin(), end());
    if (data_ != Inline()) FreeHeap();
    data_ = data;
  }

  T* data_ = Inline();
  uint32_t size_ = 0;
  uint32_t capacity_ = N;
  alignas(T) std::byte memory_[N * sizeof(T)];
};

}  // namespace hammock
