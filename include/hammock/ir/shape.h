#pragma once
/// Dims: up to eight sizes, held inline. Shape: an element type with its sizes, printed `f32[2,3]`.

#include <array>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <iosfwd>
#include <span>
#include <string>
#include <vector>

#include "hammock/export.h"
#include "hammock/ir/dtype.h"
#include "hammock/location.h"

namespace hammock {

inline constexpr int kMaxRank = 8;
/// So many elements of any dtype have a size in bits that fits 63 bits.
inline constexpr int64_t kMaxElements = int64_t{1} << 55;

/// An index, with the line where it was given.
struct IndexAt {
  IndexAt(int index, Location at = Location::current()) : index(index), at(at) {}  // NOLINT
  int index;
  Location at;
};

/// A short list of integers: sizes, strides or dims. Throws ValueError past eight entries, and
/// InternalError where an entry is asked for that there is not: inference also sees damaged graphs.
class HAMMOCK_API Dims {
 public:
  Dims() = default;
  /// One entry, so that a call takes `sum(1)` as it takes `sum({0, 1})`.
  template <std::integral T>
  requires(!std::same_as<T, bool>) Dims(T value)  // NOLINT: a number is a Dims
      : size_(1) {
    values_[0] = static_cast<int64_t>(value);
  }
  Dims(std::initializer_list<int64_t> values) : Dims(std::span(values.begin(), values.size())) {}
  Dims(std::span<const int64_t> values);    // NOLINT: a view of integers is a Dims
  Dims(const std::vector<int64_t>& values)  // NOLINT
      : Dims(std::span(values.data(), values.size())) {}
  static Dims Filled(int rank, int64_t value);

  int size() const { return size_; }
  bool empty() const { return size_ == 0; }
  int64_t operator[](IndexAt i) const { return values_[Checked(i.index, i.at)]; }
  int64_t& operator[](IndexAt i) { return values_[Checked(i.index, i.at)]; }
  int64_t back(Location at = Location::current()) const { return values_[Checked(size_ - 1, at)]; }
  const int64_t* begin() const { return values_.data(); }
  const int64_t* end() const { return values_.data() + size_; }
  int64_t* begin() { return values_.data(); }
  int64_t* end() { return values_.data() + size_; }
  operator std::span<const int64_t>() const {  // NOLINT
    return {begin(), static_cast<size_t>(size_)};
  }
  std::vector<int64_t> vec() const;

  void push_back(int64_t value);
  void insert(int position, int64_t value);
  void erase(int position);
  void resize(int size, int64_t value = 0);

  bool operator==(const Dims& other) const {
    if (size_ != other.size_) return false;
    for (int i = 0; i < size_; ++i) {
      if (values_[i] != other.values_[i]) return false;
    }
    return true;
  }

 private:
  size_t Checked(int i, const Location& at) const {
    if (static_cast<uint32_t>(i) >= static_cast<uint32_t>(size_)) [[unlikely]]
      ThrowOutside(i, at);
    return static_cast<size_t>(i);
  }
  [[noreturn, gnu::cold]] void ThrowOutside(int i, const Location& at) const;

  int32_t size_ = 0;
  std::array<int64_t, kMaxRank> values_{};
};

/// "[2,3]"
HAMMOCK_API std::string ToString(const Dims& dims);
HAMMOCK_API std::ostream& operator<<(std::ostream& os, const Dims& dims);

class HAMMOCK_API Shape {
 public:
  Shape() = default;
  Shape(DType dtype, const Dims& sizes) : dtype_(dtype), sizes_(sizes) {}

  DType dtype() const { return dtype_; }
  DType scalar_type() const { return dtype_; }  ///< the contract's name for dtype()
  const Dims& sizes() const { return sizes_; }
  int rank() const { return sizes_.size(); }
  int dim() const { return rank(); }
  int64_t size(int dim) const { return sizes_[dim]; }
  int64_t numel() const {
    int64_t count = 1;
    for (int64_t size : sizes_) count *= size;
    return count;
  }
  int64_t bytes() const { return BytesOf(dtype_, numel()); }
  bool operator==(const Shape&) const = default;

  void SetDType(DType dtype) { dtype_ = dtype; }
  Shape With(DType dtype) const { return Shape(dtype, sizes_); }
  Shape With(const Dims& sizes) const { return Shape(dtype_, sizes); }
  std::string to_string() const;  ///< "f32[2,3]"

 private:
  DType dtype_ = DType::kF32;
  Dims sizes_;
};

HAMMOCK_API std::string ToString(const Shape& shape);
HAMMOCK_API std::ostream& operator<<(std::ostream& os, const Shape& shape);

/// Row-major strides, in elements (PyTorch's values: a size of 0 counts as 1).
HAMMOCK_API Dims ContiguousStrides(const Dims& sizes);
/// Throws ValueError for negative sizes and for more than kMaxElements; `what` names the op.
HAMMOCK_API void CheckSizes(const char* what, const Dims& sizes);
/// The common shape of numpy-style broadcasting, or ValueError with both shapes.
HAMMOCK_API Dims BroadcastSizes(const char* what, const Dims& a, const Dims& b);
/// dim in [-rank, rank) to [0, rank); a 0-d tensor has the dims -1 and 0, as in PyTorch.
HAMMOCK_API int WrapDim(const char* what, int64_t dim, int rank);
/// Wrapped and checked for duplicates; an empty list means all dims.
HAMMOCK_API Dims WrapDims(const char* what, const Dims& dims, int rank);

}  // namespace hammock
