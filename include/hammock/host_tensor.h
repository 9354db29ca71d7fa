#pragma once
/// HostTensor: row-major elements in host memory with their Shape. What backends receive and
/// return, and what a read gives. A cheap handle; the bytes are shared and, once handed to a
/// backend, never written.

#include <concepts>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "hammock/callback.h"
#include "hammock/export.h"
#include "hammock/ir/shape.h"
#include "hammock/location.h"
#include "hammock/scalar.h"

namespace hammock {

class HAMMOCK_API HostTensor {
 public:
  HostTensor() = default;
  /// Uninitialised bytes.
  explicit HostTensor(const Shape& shape);
  /// Shares `bytes`, which must hold shape.bytes().
  HostTensor(const Shape& shape, std::shared_ptr<void> bytes)
      : shape_(shape), bytes_(std::move(bytes)) {}

  static HostTensor Copy(const Shape& shape, const void* data);
  /// Shares the caller's memory without copying; `deleter` runs when the last user is gone.
  static HostTensor Borrow(const Shape& shape, void* data, Callback<void()> deleter);
  template <class T>
  static HostTensor From(const std::vector<T>& values, const Dims& sizes,
                         Location at = Location::current());
  static HostTensor From(const Scalar& value);

  bool defined() const { return bytes_ != nullptr; }
  const Shape& shape() const { return shape_; }
  DType dtype() const { return shape_.dtype(); }
  int64_t numel() const { return shape_.numel(); }
  int64_t bytes() const { return shape_.bytes(); }
  const void* data() const { return bytes_.get(); }
  void* mutable_data() { return bytes_.get(); }
  const std::shared_ptr<void>& storage() const { return bytes_; }
  bool unique() const { return bytes_.use_count() == 1; }

  /// Typed view; TypeError if T is not the dtype.
  template <class T>
  std::span<const T> values(Location at = Location::current()) const {
    CheckType(DTypeOf<T>, at);
    return {static_cast<const T*>(data()), static_cast<size_t>(numel())};
  }
  template <class T>
  std::span<T> mutable_values(Location at = Location::current()) {
    CheckType(DTypeOf<T>, at);
    return {static_cast<T*>(mutable_data()), static_cast<size_t>(numel())};
  }

  /// Element by flat index.
  Scalar at(int64_t index, Location at = Location::current()) const;
  void set(int64_t index, const Scalar& value, Location at = Location::current());
  HostTensor To(DType dtype) const;  ///< elementwise cast
  /// Bit for bit; NaNs compare by their bits.
  bool SameBits(const HostTensor& other) const;

 private:
  void CheckType(DType expected, const Location& at) const;
  void CheckCount(size_t given, const Location& at) const;
  Shape shape_;
  std::shared_ptr<void> bytes_;
};

template <class T>
HostTensor HostTensor::From(const std::vector<T>& values, const Dims& sizes, Location at) {
  HostTensor result(Shape(DTypeOf<T>, sizes));
  result.CheckCount(values.size(), at);
  if constexpr (std::same_as<T, bool>) {  // std::vector packs them
    bool* out = result.mutable_values<bool>().data();
    for (bool value : values) *out++ = value;
  } else if (!values.empty()) {
    std::memcpy(result.mutable_data(), values.data(), values.size() * sizeof(T));
  }
  return result;
}

}  // namespace hammock
