#pragma once
/// Sizes: one number for all spatial dims, or one for each.

#include <concepts>
#include <initializer_list>

#include "hammock/ir/shape.h"

namespace hammock::nn {

class Sizes {
 public:
  template <std::integral T>
  Sizes(T size) : dims_({static_cast<int64_t>(size)}) {}         // NOLINT: implicit on purpose
  Sizes(std::initializer_list<int64_t> sizes) : dims_(sizes) {}  // NOLINT
  Sizes(const Dims& sizes) : dims_(sizes) {}                     // NOLINT
  template <std::integral T, size_t count>
  explicit Sizes(const T (&sizes)[count]) {
    for (T size : sizes) dims_.push_back(static_cast<int64_t>(size));
  }

  const Dims& dims() const { return dims_; }
  /// Of a dim.
  int64_t at(int dim) const { return dims_.size() == 1 ? dims_[0] : dims_[dim]; }
  /// As many as there are spatial dims; ValueError that names `what` where that cannot be.
  Dims Expanded(int count, const char* what) const;

 private:
  Dims dims_;
};

}  // namespace hammock::nn
