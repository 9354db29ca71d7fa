#pragma once
/// Tensor: a cheap handle to a value that may not have been computed yet.
///
/// Ops record and return at once; reading (`item`, `to_vector`, `host`, `<<`) computes. Copies of a
/// handle are the same tensor. Views alias, in-place ops (trailing underscore) write, as in
/// PyTorch. Distinct handles may be used from any threads; one handle, from one thread at a time.
///
///   Tensor x = randn({2, 3});
///   Tensor y = relu(x * 2.0 + 1.0);
///   float first = y[0][0].item<float>();

#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "hammock/device.h"
#include "hammock/export.h"
#include "hammock/host_tensor.h"
#include "hammock/ir/node.h"
#include "hammock/ir/shape.h"
#include "hammock/location.h"
#include "hammock/ops/elementwise_list.h"
#include "hammock/scalar.h"

namespace hammock {

struct TensorImpl;
class Tensor;
class TensorArg;

/// `Slice(1, 5)`, `Slice(None, None, 2)`: a range along one dim; ends beyond the size are clamped.
struct Slice {
  std::optional<int64_t> start, stop;
  int64_t step = 1;
  Slice() = default;
  Slice(std::optional<int64_t> start, std::optional<int64_t> stop, int64_t step = 1)
      : start(start), stop(stop), step(step) {}
};
struct EllipsisType {};
inline constexpr EllipsisType Ellipsis;
inline constexpr std::nullopt_t None = std::nullopt;

/// One entry of an index: an integer, a Slice, Ellipsis, None (a new dim of size one), or a tensor
/// of integers or booleans.
using Index = std::variant<int64_t, Slice, EllipsisType, std::nullopt_t, Tensor, bool>;

/// An integer index with the line where it was given.
struct IndexArg {
  template <std::integral T>
  IndexArg(T index, Location at = Location::current())  // NOLINT: implicit on purpose
      : index(static_cast<int64_t>(index)), at(at) {}
  int64_t index;
  Location at;
};

class HAMMOCK_API Tensor {
 public:
  /// Undefined: using it in an op is a ValueError.
  Tensor() = default;
  Tensor(const Tensor& other) noexcept;
  Tensor(Tensor&& other) noexcept : impl_(std::exchange(other.impl_, nullptr)) {}
  Tensor& operator=(const Tensor& other) noexcept;
  Tensor& operator=(Tensor&& other) noexcept;
  ~Tensor();

  bool defined() const { return impl_ != nullptr; }
  /// Whether both handles are the same tensor.
  bool is_same(const Tensor& other) const { return impl_ == other.impl_; }

  // ---- Facts; none of these computes anything.
  const Shape& shape() const;
  Dims sizes() const { return shape().sizes(); }
  int64_t size(int64_t dim) const;
  int dim() const { return shape().rank(); }
  int64_t numel() const { return shape().numel(); }
  DType dtype() const { return shape().dtype(); }
  Device device() const;
  Dims strides() const;  ///< in elements
  int64_t stride(int64_t dim) const;
  int64_t storage_offset() const;
  bool is_contiguous() const;
  bool is_floating_point() const { return IsFloat(dtype()); }
  int64_t id() const;  ///< unique in the process
  /// Whether its value is on its device or being computed.
  bool is_pending() const;
  /// "f32[2,3] on cpu, pending, from add at model.cpp:12".
  std::string summary() const;
  /// Whether writing one may change the other.
  bool is_alias_of(const Tensor& other) const;

  // ---- Gradients; see hammock/autograd.h
  bool requires_grad() const;
  /// Makes a leaf one whose gradient `backward` accumulates, or an ordinary one again.
  Tensor& requires_grad_(bool requires_grad = true);
  /// Whether it was made by the user rather than by an op whose history is kept.
  bool is_leaf() const;
  /// What `backward` has accumulated; undefined if nothing.
  Tensor grad() const;
  void set_grad(const Tensor& grad);
  /// Keeps the gradient of a tensor that is not a leaf as well.
  void retain_grad();
  /// Differentiates this tensor with respect to all leaves it depends on and adds to their `grad`.
  /// A tensor of more than one element needs the gradient that arrives at it.
  void backward(Location at = Location::current()) const;
  void backward(const Tensor& gradient, std::optional<bool> retain_graph = std::nullopt,
                bool create_graph = false, Location at = Location::current()) const;
  /// Calls `hook` with each gradient of this tensor; a tensor it returns replaces the gradient.
  /// Returns a number for `remove_hook`.
  int64_t register_hook(std::function<Tensor(const Tensor& grad)> hook);
  void remove_hook(int64_t number);
  /// Cuts the history off this very tensor.
  Tensor& detach_();

  // ---- Reading; computes what is needed and waits for it.
  HostTensor host(Location at = Location::current()) const;
  Scalar item(Location at = Location::current()) const;
  template <class T>
  T item(Location at = Location::current()) const;
  template <class T>
  std::vector<T> to_vector(Location at = Location::current()) const;

  // ---- Indexing
  Tensor operator[](const IndexArg& index) const;
  Tensor index(const std::vector<Index>& indices, Location at = Location::current()) const;
  /// Writes `value`, broadcast, to the indexed elements.
  void index_put_(const std::vector<Index>& indices, const TensorArg& value,
                  Location at = Location::current());

#include "hammock/tensor_methods.inc"

  // ---- For the runtime
  Value value() const;
  TensorImpl* impl() const { return impl_; }
  static Tensor FromImpl(TensorImpl* impl) {
    Tensor result;
    result.impl_ = impl;
    return result;
  }
  /// A tensor of a node's output, e.g. one made by an IrBuilder.
  static Tensor FromValue(Value value);

 private:
  TensorImpl* impl_ = nullptr;
};

/// The last operand of an operator: a tensor or a number, with the line where it was given.
class HAMMOCK_API TensorArg {
 public:
  TensorArg(const Tensor& tensor, Location at = Location::current())  // NOLINT: implicit on purpose
      : tensor_(&tensor), at_(at) {}
  template <class T>
  requires std::is_arithmetic_v<T> || std::same_as<T, Half> || std::same_as<T, BFloat16> TensorArg(
      T value, Location at = Location::current())
      : scalar_(value), at_(at) {}                                   // NOLINT
  TensorArg(const Scalar& value, Location at = Location::current())  // NOLINT
      : scalar_(value), at_(at) {}

  bool is_tensor() const { return tensor_ != nullptr; }
  const Tensor& tensor() const { return *tensor_; }
  const Scalar& scalar() const { return scalar_; }
  const Location& at() const { return at_; }

 private:
  const Tensor* tensor_ = nullptr;
  Scalar scalar_;
  Location at_;
};

/// An operand that must be a tensor, with the line where it was given.
struct TensorAt {
  TensorAt(const Tensor& tensor, Location at = Location::current())  // NOLINT: implicit on purpose
      : tensor(tensor), at(at) {}
  const Tensor& tensor;
  Location at;
};

template <class T>
T Tensor::item(Location at) const {
  Scalar value = item(at);
  if constexpr (std::same_as<T, bool>) {
    return value.ToBool();
  } else if constexpr (std::integral<T>) {
    return static_cast<T>(value.ToInt());
  } else {
    return static_cast<T>(value.ToDouble());
  }
}

template <class T>
std::vector<T> Tensor::to_vector(Location at) const {
  HostTensor values = host(at);
  if (values.dtype() != DTypeOf<T>) values = values.To(DTypeOf<T>);
  auto span = values.values<T>();
  return std::vector<T>(span.begin(), span.end());
}

/// Values, as far as they fit; computes.
HAMMOCK_API std::ostream& operator<<(std::ostream& os, const TensorAt& tensor);

}  // namespace hammock
