#pragma once
/// New tensors: from host memory, filled, and counting. Without a dtype they have the one that
/// PyTorch gives them.
///
///   Tensor x = tensor({{1.0, 2.0}, {3.0, 4.0}});       // f32[2,2]
///   Tensor y = zeros({4, 8}, bf16);
///   Tensor z = arange(0, 10, 2);                       // i64[5]

#include <concepts>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "hammock/export.h"
#include "hammock/ops/random.h"
#include "hammock/ops/view.h"
#include "hammock/tensor.h"

namespace hammock {

// ---- From host memory

/// Copies the elements, so that `host` may be written at once.
HAMMOCK_API Tensor from_host(const HostTensor& host, const Device& device = Device(), HAMMOCK_AT);
/// Takes over memory that no other handle shares; borrowed memory and other is copied.
HAMMOCK_API Tensor from_host(HostTensor&& host, const Device& device = Device(), HAMMOCK_AT);
/// Copies row-major elements, so that the buffer may be filled again at once; `deleter` runs as
/// soon as they are copied. Writes to the tensor never reach the buffer.
HAMMOCK_API Tensor from_blob(const void* data, const Dims& size, DType dtype,
                             std::function<void()> deleter = {}, const Device& device = Device(),
                             HAMMOCK_AT);

/// The caller's promise that memory stays valid and unchanged until `release` runs, which may be on
/// any thread. A null `release`: as long as the program uses tensors.
///
///   Tensor weights = from_blob(mapped, {n}, f32, BorrowedMemory([file] { file->Close(); }));
struct BorrowedMemory {
  explicit BorrowedMemory(std::function<void()> release) : release(std::move(release)) {}
  std::function<void()> release;
};
/// Reads row-major elements where they are, when they are needed, without a copy. The option
/// `check_borrowed` finds memory that was changed too early.
HAMMOCK_API Tensor from_blob(const void* data, const Dims& size, DType dtype, BorrowedMemory memory,
                             const Device& device = Device(), HAMMOCK_AT);
/// ValueError unless `size` holds that many elements.
HAMMOCK_API void CheckElementCount(size_t count, const Dims& size, const Location& at);
/// A 0-d tensor: f32, i64 or bool unless given a dtype.
HAMMOCK_API Tensor tensor(const Scalar& value, std::optional<DType> dtype = std::nullopt,
                          const Device& device = Device(), HAMMOCK_AT);
/// As `tensor`, but f32 unless given a dtype, as in PyTorch.
HAMMOCK_API Tensor scalar_tensor(const Scalar& value, std::optional<DType> dtype = std::nullopt,
                                 const Device& device = Device(), HAMMOCK_AT);

/// Copies, and casts where a dtype is given.
template <class T>
Tensor tensor(const std::vector<T>& values, const Dims& size,
              std::optional<DType> dtype = std::nullopt, const Device& device = Device(),
              HAMMOCK_AT) {
  CheckElementCount(values.size(), size, at);
  HostTensor host = HostTensor::From(values, size, at);
  if (dtype) host = host.To(*dtype);
  return from_host(std::move(host), device, at);
}
template <class T>
Tensor tensor(const std::vector<T>& values, std::optional<DType> dtype = std::nullopt,
              const Device& device = Device(), HAMMOCK_AT) {
  return tensor(values, Dims{static_cast<int64_t>(values.size())}, dtype, device, at);
}
/// Adopts the vector's memory.
template <class T>
requires(!std::same_as<T, bool>) Tensor
    tensor(std::vector<T>&& values, const Dims& size, const Device& device = Device(), HAMMOCK_AT) {
  CheckElementCount(values.size(), size, at);
  auto owner = std::make_shared<std::vector<T>>(std::move(values));
  T* data = owner->data();
  std::shared_ptr<void> bytes(std::move(owner), data);
  return from_host(HostTensor(Shape(DTypeOf<T>, size), std::move(bytes)), device, at);
}

/// A number or a list of literals, nested to any depth.
class HAMMOCK_API TensorLiteral {
 public:
  template <class T>
  requires std::is_arithmetic_v<T> || std::same_as<T, Half> || std::same_as<T, BFloat16>
  TensorLiteral(T value) : value_(value) {}  // NOLINT
  template <ComplexNumber T>
  TensorLiteral(const T& value) : value_(value) {}            // NOLINT
  TensorLiteral(const Scalar& value) : value_(value) {}       // NOLINT
  TensorLiteral(std::initializer_list<TensorLiteral> items);  // NOLINT

 private:
  friend class LiteralReader;
  Scalar value_;
  bool list_ = false;
  std::vector<TensorLiteral> items_;
};

/// `tensor({{1, 2}, {3, 4.5}})`: all bools give bool, integers i64, one float makes all f32 and
/// one complex number all c64, as in Python. ValueError where rows differ in length.
HAMMOCK_API Tensor tensor(std::initializer_list<TensorLiteral> values,
                          std::optional<DType> dtype = std::nullopt,
                          const Device& device = Device(), HAMMOCK_AT);

// ---- Filled

#define HAMMOCK_OPTIONS                                                       \
  std::optional<DType> dtype = std::nullopt, const Device &device = Device(), \
                       Location at = Location::current()
/// Where the dtype or device is not given it is that of `self`.
#define HAMMOCK_OPTIONS_LIKE                                                                    \
  std::optional<DType> dtype = std::nullopt, const std::optional<Device>&device = std::nullopt, \
                       HAMMOCK_AT

HAMMOCK_API Tensor zeros(const Dims& size, HAMMOCK_OPTIONS);
HAMMOCK_API Tensor ones(const Dims& size, HAMMOCK_OPTIONS);
/// Zeros: no value is ever undefined.
HAMMOCK_API Tensor empty(const Dims& size, HAMMOCK_OPTIONS);
/// Sizes one by one: `zeros(2, 3)`.
#define HAMMOCK_SIZED(name)                                                               \
  template <std::integral... Rest>                                                        \
  requires(sizeof...(Rest) > 0) Tensor name(const IndexArg& first, Rest... rest) {        \
    return name(Dims{first.index, static_cast<int64_t>(rest)...}, std::nullopt, Device(), \
                first.at);                                                                \
  }
HAMMOCK_SIZED(zeros)
HAMMOCK_SIZED(ones)
HAMMOCK_SIZED(empty)
#undef HAMMOCK_SIZED
/// The value is a parameter: another one does not recompile.
HAMMOCK_API Tensor full(const Dims& size, const Scalar& fill_value, HAMMOCK_OPTIONS);
/// Zeros whose elements lie `stride` apart, as in PyTorch.
HAMMOCK_API Tensor empty_strided(const Dims& size, const Dims& stride, HAMMOCK_OPTIONS);
/// Gives a tensor that shares its memory with no other new sizes: the first elements stay, more are
/// zero.
HAMMOCK_API Tensor& resize_(Tensor& self, const Dims& size, HAMMOCK_AT);
HAMMOCK_API Tensor zeros_like(const Tensor& self, HAMMOCK_OPTIONS_LIKE);
HAMMOCK_API Tensor ones_like(const Tensor& self, HAMMOCK_OPTIONS_LIKE);
HAMMOCK_API Tensor full_like(const Tensor& self, const Scalar& fill_value, HAMMOCK_OPTIONS_LIKE);
HAMMOCK_API Tensor empty_like(const Tensor& self, HAMMOCK_OPTIONS_LIKE);
/// The value, a number or a 0-d tensor, in the shape and dtype of `self`.
HAMMOCK_API Tensor fill(const Tensor& self, const TensorArg& value, HAMMOCK_AT);
HAMMOCK_API Tensor new_zeros(const Tensor& self, const Dims& size, HAMMOCK_OPTIONS_LIKE);
HAMMOCK_API Tensor new_ones(const Tensor& self, const Dims& size, HAMMOCK_OPTIONS_LIKE);
HAMMOCK_API Tensor new_full(const Tensor& self, const Dims& size, const Scalar& fill_value,
                            HAMMOCK_OPTIONS_LIKE);
HAMMOCK_API Tensor new_empty(const Tensor& self, const Dims& size, HAMMOCK_OPTIONS_LIKE);

// ---- Counting

/// i64 if all three are integers, else f32. `end` is not part of it.
HAMMOCK_API Tensor arange(const Scalar& end, HAMMOCK_OPTIONS);
HAMMOCK_API Tensor arange(const Scalar& start, const Scalar& end, const Scalar& step = 1,
                          HAMMOCK_OPTIONS);
/// `steps` values from `start` to `end`, both included.
HAMMOCK_API Tensor linspace(const Scalar& start, const Scalar& end, int64_t steps, HAMMOCK_OPTIONS);
HAMMOCK_API Tensor logspace(const Scalar& start, const Scalar& end, int64_t steps,
                            double base = 10.0, HAMMOCK_OPTIONS);
HAMMOCK_API Tensor eye(int64_t n, HAMMOCK_OPTIONS);
HAMMOCK_API Tensor eye(int64_t n, int64_t m, HAMMOCK_OPTIONS);
/// Row and column indices of the triangle on and below (above) the diagonal: i64[2,count].
HAMMOCK_API Tensor tril_indices(int64_t row, int64_t col, int64_t offset = 0, HAMMOCK_OPTIONS);
HAMMOCK_API Tensor triu_indices(int64_t row, int64_t col, int64_t offset = 0, HAMMOCK_OPTIONS);

HAMMOCK_API Tensor hann_window(int64_t window_length, bool periodic = true, HAMMOCK_OPTIONS);
HAMMOCK_API Tensor hamming_window(int64_t window_length, bool periodic = true, double alpha = 0.54,
                                  double beta = 0.46, HAMMOCK_OPTIONS);
HAMMOCK_API Tensor bartlett_window(int64_t window_length, bool periodic = true, HAMMOCK_OPTIONS);
HAMMOCK_API Tensor blackman_window(int64_t window_length, bool periodic = true, HAMMOCK_OPTIONS);

}  // namespace hammock
