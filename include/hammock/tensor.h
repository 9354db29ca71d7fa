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

#include <iosfwd>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "hammock/callback.h"
#include "hammock/device.h"
#include "hammock/error.h"
#include "hammock/export.h"
#include "hammock/host_tensor.h"
#include "hammock/ir/shape.h"
#include "hammock/location.h"
#include "hammock/ops/elementwise_list.h"
#include "hammock/scalar.h"

namespace hammock {

struct TensorImpl;
class RowIterator;
class Tensor;
class TensorArg;
struct Value;

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
  /// A handle with a name becomes another tensor; nothing is written.
  Tensor& operator=(const Tensor& other) & noexcept;
  Tensor& operator=(Tensor&& other) & noexcept;
  /// `x[0] = y`, `x.narrow(0, 0, 2) = 1`: writes to the tensor behind a handle without a name, as
  /// `copy_` and `fill_` do. ValueError where no other tensor shares its memory, as of the copy
  /// that an index by tensors makes: nobody would see the value.
  Tensor operator=(const TensorArg& value) &&;
  ~Tensor();

  bool defined() const { return impl_ != nullptr; }
  /// Whether both handles are the same tensor.
  bool is_same(const Tensor& other) const { return impl_ == other.impl_; }

  // ---- Facts; none of these computes anything.
  const Shape& shape(Location at = Location::current()) const;
  Dims sizes(Location at = Location::current()) const { return shape(at).sizes(); }
  int64_t size(int64_t dim, Location at = Location::current()) const;
  int dim(Location at = Location::current()) const { return shape(at).rank(); }
  int64_t numel(Location at = Location::current()) const { return shape(at).numel(); }
  DType dtype(Location at = Location::current()) const { return shape(at).dtype(); }
  Device device(Location at = Location::current()) const;
  Dims strides(Location at = Location::current()) const;  ///< in elements
  int64_t stride(int64_t dim, Location at = Location::current()) const;
  int64_t storage_offset(Location at = Location::current()) const;
  bool is_contiguous(Location at = Location::current()) const;
  bool is_floating_point(Location at = Location::current()) const { return IsFloat(dtype(at)); }
  bool is_complex(Location at = Location::current()) const { return IsComplex(dtype(at)); }
  bool is_signed(Location at = Location::current()) const { return IsSigned(dtype(at)); }
  bool is_cuda(Location at = Location::current()) const { return device(at).type() == "cuda"; }
  int64_t id(Location at = Location::current()) const;  ///< unique in the process
  /// Whether its value is on its device or being computed.
  bool is_pending(Location at = Location::current()) const;
  /// "f32[2,3] on cpu, pending, from add at model.cpp:12".
  std::string summary() const;
  /// Whether writing one may change the other.
  bool is_alias_of(const Tensor& other) const;

  // ---- Gradients; see hammock/autograd.h
  bool requires_grad(Location at = Location::current()) const;
  /// Makes a leaf one whose gradient `backward` accumulates, or an ordinary one again.
  Tensor& requires_grad_(bool requires_grad = true, Location at = Location::current());
  /// Whether it was made by the user rather than by an op whose history is kept.
  bool is_leaf(Location at = Location::current()) const;
  /// The gradient that `backward` has accumulated; undefined if there is none.
  Tensor grad(Location at = Location::current()) const;
  void set_grad(const Tensor& grad, Location at = Location::current());
  /// Keeps the gradient of a tensor that is not a leaf as well.
  void retain_grad(Location at = Location::current());
  /// Differentiates this tensor with respect to all leaves it depends on and adds to their `grad`.
  /// A tensor of more than one element needs the gradient that arrives at it.
  void backward(Location at = Location::current()) const;
  void backward(const Tensor& gradient, std::optional<bool> retain_graph = std::nullopt,
                bool create_graph = false, Location at = Location::current()) const;
  /// Calls `hook` with each gradient of this tensor; a tensor it returns replaces the gradient.
  /// Returns a number for `remove_hook`.
  int64_t register_hook(Callback<Tensor(const Tensor& grad)> hook,
                        Location at = Location::current());
  void remove_hook(int64_t number, Location at = Location::current());
  /// Cuts the history off this very tensor.
  Tensor& detach_(Location at = Location::current());

  // ---- Reading; computes what is needed and waits for it.
  HostTensor host(Location at = Location::current()) const;
  Scalar item(Location at = Location::current()) const;
  /// As a C++ number: a fraction is truncated; ValueError where the value does not fit.
  template <class Element>
  Element item(Location at = Location::current()) const;
  /// Row-major elements, cast as `to` casts.
  template <class Element>
  std::vector<Element> to_vector(Location at = Location::current()) const;
  /// The row-major elements of a tensor in host memory, to read. They keep their values, and live
  /// until the tensor dies or `data_ptr` is called after a write to it. TypeError for another
  /// element type, NotSupported on a device with memory of its own.
  template <class Element>
  const Element* data_ptr(Location at = Location::current()) const {
    return static_cast<const Element*>(HostData(DTypeOf<Element>, at));
  }

  // ---- Indexing
  Tensor operator[](const IndexArg& index) const;
  /// Rows, as in `for (Tensor row : x)`; each is a view. ValueError for a 0-d tensor.
  RowIterator begin(Location at = Location::current()) const;
  RowIterator end() const;
  Tensor index(const std::vector<Index>& indices, Location at = Location::current()) const;
  /// Writes `value`, broadcast, to the indexed elements.
  void index_put_(const std::vector<Index>& indices, const TensorArg& value,
                  Location at = Location::current());

#include "hammock/tensor_methods.inc"

  // ---- For the runtime
  Value value(Location at = Location::current()) const;
  TensorImpl* impl() const { return impl_; }
  static Tensor FromImpl(TensorImpl* impl) {
    Tensor result;
    result.impl_ = impl;
    return result;
  }
  /// A tensor of a node's output, e.g. one made by an IrBuilder.
  static Tensor FromValue(Value value);

 private:
  const void* HostData(DType element, Location at) const;

  TensorImpl* impl_ = nullptr;
};

/// Goes through the rows of a tensor.
class HAMMOCK_API RowIterator {
 public:
  using value_type = Tensor;
  using difference_type = int64_t;

  RowIterator() = default;
  RowIterator(const Tensor& tensor, int64_t row, const Location& at)
      : tensor_(tensor), row_(row), at_(at) {}
  Tensor operator*() const;
  RowIterator& operator++() {
    ++row_;
    return *this;
  }
  RowIterator operator++(int) {
    RowIterator before = *this;
    ++row_;
    return before;
  }
  bool operator==(const RowIterator& other) const { return row_ == other.row_; }

 private:
  Tensor tensor_;
  int64_t row_ = 0;
  Location at_;
};

/// The last operand of an operator: a tensor or a number, with the line where it was given.
class HAMMOCK_API TensorArg {
 public:
  TensorArg(const Tensor& tensor, Location at = Location::current())  // NOLINT: implicit on purpose
      : tensor_(&tensor), at_(at) {}
  template <class T>
  requires std::is_arithmetic_v<T> || std::same_as<T, Half> || std::same_as<T, BFloat16> TensorArg(
      T value, Location at = Location::current())
      : scalar_(value), at_(at) {}  // NOLINT
  template <ComplexNumber T>
  TensorArg(const T& value, Location at = Location::current())  // NOLINT
      : scalar_(value), at_(at) {}
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

template <class Element>
Element Tensor::item(Location at) const {
  LocationScope scope(at);
  return item(at).As<Element>("item");
}

template <class Element>
std::vector<Element> Tensor::to_vector(Location at) const {
  HostTensor values = host(at);
  if (values.dtype() != DTypeOf<Element>) values = values.To(DTypeOf<Element>);
  auto span = values.values<Element>();
  return std::vector<Element>(span.begin(), span.end());
}

/// Values in aligned columns, summarised past 1000 of them, and the type: "[1, 2] : i64[2]".
/// Computes. See print.h for options.
HAMMOCK_API std::ostream& operator<<(std::ostream& os, const TensorAt& tensor);

}  // namespace hammock
