#include "hammock/ops/create.h"
#include "hammock/ir/storage_types.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "base/throw.h"
#include "hammock/ops/elementwise.h"
#include "ir/borrowed.h"
#include "ir/node_access.h"
#include "ir/primitives.h"
#include "ops/primitives/elementwise_kit.h"
#include "ops/primitives/families.h"
#include "trace/layout.h"
#include "trace/tensor_impl.h"

namespace hammock {

using namespace ops;  // NOLINT: records and the op writer's kit

// ---- from host memory

namespace {

void CheckImport(const char* op, const Shape& shape) {
  CheckSizes(op, shape.sizes());
  CheckPacked(op, shape);
}

void CheckHost(const HostTensor& host) {
  if (!host.defined())
    Throw(ErrorCode::kUninitializedTensor, "from_host: the host tensor is empty");
  CheckImport("from_host", host.shape());
}

Shape ShapeOfBlob(const void* data, const Dims& size, DType dtype) {
  Shape shape(dtype, size);
  CheckImport("from_blob", shape);
  if (!data && shape.numel() > 0) {
    Throw(ErrorCode::kValue, "from_blob: null data for {}", shape.to_string());
  }
  return shape;
}

/// A leaf of memory that nobody else writes.
Tensor LeafOf(HostTensor host, const Device& device, const Location& at) {
  NodePtr leaf = Node::Make(kDeviceData, {}, {}, std::span(&host.shape(), 1), device.id(),
                            CurrentLocation(at));
  NodeAccess::MakePayload(leaf.get()).host = std::move(host);
  if (Context().made_leaves) Context().made_leaves->push_back(leaf);
  return NewTensor(leaf.release(), 0, true);
}

}  // namespace

Tensor from_host(const HostTensor& host, const Device& device, Location at) {
  LocationScope scope(at);
  CheckHost(host);
  return LeafOf(HostTensor::Copy(host.shape(), host.data()), device, at);
}

Tensor from_host(HostTensor&& host, const Device& device, Location at) {
  LocationScope scope(at);
  CheckHost(host);
  bool own = host.unique() && !IsBorrowed(host);
  return LeafOf(own ? std::move(host) : HostTensor::Copy(host.shape(), host.data()), device, at);
}

Tensor from_blob(const void* data, const Dims& size, DType dtype, std::function<void()> deleter,
                 const Device& device, Location at) {
  LocationScope scope(at);
  HostTensor copy = HostTensor::Copy(ShapeOfBlob(data, size, dtype), data);
  if (deleter) deleter();
  return LeafOf(std::move(copy), device, at);
}

Tensor from_blob(const void* data, const Dims& size, DType dtype, BorrowedMemory memory,
                 const Device& device, Location at) {
  LocationScope scope(at);
  // Data that was uploaded is never written.
  return LeafOf(HostTensor::Borrow(ShapeOfBlob(data, size, dtype), const_cast<void*>(data),
                                   std::move(memory.release)),
                device, at);
}

TensorLiteral::TensorLiteral(std::initializer_list<TensorLiteral> items)
    : list_(true), items_(items) {}

void CheckElementCount(size_t count, const Dims& size, const Location& at) {
  LocationScope scope(at);
  CheckSizes("tensor", size);
  int64_t wanted = Shape(DType::kBool, size).numel();
  if (static_cast<int64_t>(count) == wanted) return;
  Throw(ErrorCode::kShapeMismatch, "tensor: {} elements given, size {} holds {}", count,
        ToString(size), wanted);
}

namespace {

DType DefaultDType(const Scalar& value) {
  if (value.IsComplex()) return kDefaultComplex;
  if (value.IsFloating()) return kDefaultFloat;
  return value.IsBool() ? DType::kBool : DType::kI64;
}

}  // namespace

Tensor tensor(const Scalar& value, std::optional<DType> dtype, const Device& device, Location at) {
  LocationScope scope(at);
  return from_host(HostTensor::From(value.To(dtype.value_or(DefaultDType(value)))), device, at);
}

/// Puts a literal's elements in a row and checks that it is a box.
class LiteralReader {
 public:
  explicit LiteralReader(std::initializer_list<TensorLiteral> values) { Read(values, 0); }

  HostTensor To(std::optional<DType> dtype) const {
    HostTensor host(Shape(dtype.value_or(OwnDType()), sizes_));
    for (size_t i = 0; i < numbers_.size(); ++i) {
      host.set(static_cast<int64_t>(i), numbers_[i].To(host.dtype()));
    }
    return host;
  }

 private:
  void Read(std::span<const TensorLiteral> items, int depth) {
    int64_t count = static_cast<int64_t>(items.size());
    if (depth == sizes_.size()) {
      if (!numbers_.empty()) ThrowRagged();
      sizes_.push_back(count);
    }
    if (sizes_[depth] != count) ThrowRagged();
    for (const TensorLiteral& item : items) {
      if (item.list_) {
        Read(item.items_, depth + 1);
      } else {
        if (depth + 1 != sizes_.size()) ThrowRagged();
        numbers_.push_back(item.value_);
      }
    }
  }

  [[noreturn]] static void ThrowRagged() {
    Throw(ErrorCode::kShapeMismatch, "tensor: the rows of the literal differ in length or depth");
  }

  DType OwnDType() const {
    DType result = numbers_.empty() ? kDefaultFloat : DType::kBool;
    for (const Scalar& number : numbers_) {
      DType own = DefaultDType(number);
      if (own > result) result = own;  // bool, i64, f32, c64
    }
    return result;
  }

  Dims sizes_;
  std::vector<Scalar> numbers_;
};

Tensor tensor(std::initializer_list<TensorLiteral> values, std::optional<DType> dtype,
              const Device& device, Location at) {
  LocationScope scope(at);
  return from_host(LiteralReader(values).To(dtype), device, at);
}

Tensor scalar_tensor(const Scalar& value, std::optional<DType> dtype, const Device& device,
                     Location at) {
  LocationScope scope(at);
  return tensor(value, dtype.value_or(kDefaultFloat), device, at);
}

// ---- filled

namespace {

/// A constant, part of the key.
Tensor Baked(const Dims& size, const Scalar& value, DType dtype, const Device& device,
             const Location& at) {
  LocationScope scope(at);
  Tensor element = ApplyOn(kConstant, at, device, {value.To(dtype), dtype});
  return Apply(kBroadcast, at, {element}, {size});
}

/// A number on a device. A node of numbers alone goes to the default device; the choice between
/// two equal numbers by a constant that lives on `device` takes it there.
Tensor LiftOn(const Scalar& value, DType dtype, const Device& device, const Location& at) {
  Tensor lifted = Lift(value, dtype);
  if (device == Device()) return lifted;
  Tensor here = ApplyOn(kConstant, at, device, {Scalar(true), DType::kBool});
  return Apply(kWhere, at, {here, lifted, lifted});
}

Tensor Lifted(const Dims& size, const Scalar& value, DType dtype, const Device& device,
              const Location& at) {
  LocationScope scope(at);
  CheckSizes("full", size);
  return Apply(kBroadcast, at, {LiftOn(value, dtype, device, at)}, {size});
}

Tensor Iota(int64_t size, DType dtype, const Device& device, const Location& at) {
  return ApplyOn(kIota, at, device, {size, dtype});
}

}  // namespace

Tensor zeros(const Dims& size, std::optional<DType> dtype, const Device& device, Location at) {
  LocationScope scope(at);
  CheckSizes("zeros", size);
  return Baked(size, 0, dtype.value_or(kDefaultFloat), device, at);
}

Tensor ones(const Dims& size, std::optional<DType> dtype, const Device& device, Location at) {
  LocationScope scope(at);
  CheckSizes("ones", size);
  return Baked(size, 1, dtype.value_or(kDefaultFloat), device, at);
}

Tensor full(const Dims& size, const Scalar& fill_value, std::optional<DType> dtype,
            const Device& device, Location at) {
  LocationScope scope(at);
  return Lifted(size, fill_value, dtype.value_or(DefaultDType(fill_value)), device, at);
}

Tensor empty(const Dims& size, std::optional<DType> dtype, const Device& device, Location at) {
  LocationScope scope(at);
  CheckSizes("empty", size);
  return Baked(size, 0, dtype.value_or(kDefaultFloat), device, at);
}

Tensor new_zeros(const Tensor& self, const Dims& size, std::optional<DType> dtype,
                 const std::optional<Device>& device, Location at) {
  LocationScope scope(at);
  return zeros(size, dtype.value_or(self.dtype()), device ? *device : self.device(), at);
}

Tensor new_ones(const Tensor& self, const Dims& size, std::optional<DType> dtype,
                const std::optional<Device>& device, Location at) {
  LocationScope scope(at);
  return ones(size, dtype.value_or(self.dtype()), device ? *device : self.device(), at);
}

Tensor new_full(const Tensor& self, const Dims& size, const Scalar& fill_value,
                std::optional<DType> dtype, const std::optional<Device>& device, Location at) {
  LocationScope scope(at);
  return full(size, fill_value, dtype.value_or(self.dtype()), device ? *device : self.device(), at);
}

Tensor new_empty(const Tensor& self, const Dims& size, std::optional<DType> dtype,
                 const std::optional<Device>& device, Location at) {
  LocationScope scope(at);
  return empty(size, dtype.value_or(self.dtype()), device ? *device : self.device(), at);
}

Tensor zeros_like(const Tensor& self, std::optional<DType> dtype,
                  const std::optional<Device>& device, Location at) {
  LocationScope scope(at);
  return LikeLayout(new_zeros(self, self.sizes(), dtype, device, at), self);
}

Tensor ones_like(const Tensor& self, std::optional<DType> dtype,
                 const std::optional<Device>& device, Location at) {
  LocationScope scope(at);
  return LikeLayout(new_ones(self, self.sizes(), dtype, device, at), self);
}

Tensor full_like(const Tensor& self, const Scalar& fill_value, std::optional<DType> dtype,
                 const std::optional<Device>& device, Location at) {
  LocationScope scope(at);
  return LikeLayout(new_full(self, self.sizes(), fill_value, dtype, device, at), self);
}

Tensor empty_like(const Tensor& self, std::optional<DType> dtype,
                  const std::optional<Device>& device, Location at) {
  LocationScope scope(at);
  return LikeLayout(new_empty(self, self.sizes(), dtype, device, at), self);
}

Tensor& fill_(Tensor& self, const TensorArg& value, Location at) {
  LocationScope scope(at);
  if (!value.is_tensor()) return WriteInPlace("fill_", self, Lift(value.scalar(), self.dtype()));
  if (value.tensor().dim() != 0) {
    Throw(ErrorCode::kShapeMismatch, "fill_: value is {}, needs a number or a 0-d tensor",
          value.tensor().shape().to_string());
  }
  return WriteInPlace("fill_", self, Casted(value.tensor(), self.dtype()));
}

Tensor fill(const Tensor& self, const TensorArg& value, Location at) {
  LocationScope scope(at);
  Tensor copy = empty_like(self, std::nullopt, std::nullopt, at);
  return fill_(copy, value, at);
}

// ---- counting

namespace {

[[noreturn]] void BadRange(const Scalar& start, const Scalar& end, const Scalar& step) {
  Throw(ErrorCode::kValue,
        "arange: no range from {} to {} by {}: bounds must be finite, the step "
        "not zero and toward the end",
        start.to_string(), end.to_string(), step.to_string());
}

[[noreturn]] void LongRange(const Scalar& start, const Scalar& end, const Scalar& step) {
  Throw(ErrorCode::kValue,
        "arange: from {} to {} by {} are more elements than a tensor can have; take a larger step",
        start.to_string(), end.to_string(), step.to_string());
}

/// How many values arange gives, computed as PyTorch does: exactly for integers, in f64 for floats.
int64_t RangeSize(const Scalar& start, const Scalar& end, const Scalar& step, bool integral) {
  double first = start.ToDouble(), last = end.ToDouble(), stride = step.ToDouble();
  bool zero = integral ? step.ToInt() == 0 : stride == 0;
  bool backward = (stride > 0 && last < first) || (stride < 0 && last > first);
  if (zero || backward || !std::isfinite(first) || !std::isfinite(last) || std::isnan(stride)) {
    BadRange(start, end, step);
  }
  if (integral) {
    __int128 by = step.ToInt(), span = __int128{end.ToInt()} - start.ToInt();
    __int128 size = (span + by - (by > 0 ? 1 : -1)) / by;
    if (size > std::numeric_limits<int64_t>::max()) LongRange(start, end, step);
    return static_cast<int64_t>(size);
  }
  double size = std::ceil((last - first) / stride);
  if (!(size >= 0)) BadRange(start, end, step);
  if (size >= 9e18) LongRange(start, end, step);
  return static_cast<int64_t>(size);
}

}  // namespace

Tensor arange(const Scalar& start, const Scalar& end, const Scalar& step,
              std::optional<DType> dtype, const Device& device, Location at) {
  LocationScope scope(at);
  bool floating = start.IsFloating() || end.IsFloating() || step.IsFloating();
  DType result = dtype.value_or(floating ? kDefaultFloat : DType::kI64);
  // As in PyTorch, only i64 counts by integers.
  int64_t size = RangeSize(start, end, step, result == DType::kI64);
  // Bounds are parameters. Floats are computed in f64, so that only the cast rounds.
  DType wide = IsFloat(result) ? DType::kF64 : DType::kI64;
  Tensor steps = mul(Iota(size, wide, device, at), Lift(step, wide));
  return Casted(add(steps, Lift(start, wide)), result);
}

Tensor arange(const Scalar& end, std::optional<DType> dtype, const Device& device, Location at) {
  LocationScope scope(at);
  return arange(end.IsFloating() ? Scalar(0.0) : Scalar(0), end, 1, dtype, device, at);
}

namespace {

/// From the nearer end, so that both are exact; in f64.
Tensor Spaced(const char* op, const Scalar& start, const Scalar& end, int64_t steps, DType result,
              const Device& device, const Location& at) {
  if (steps < 0) Throw(ErrorCode::kNegativeSize, "{}: steps {} must not be negative", op, steps);
  bool integral = !IsFloat(result);
  double first = integral ? static_cast<double>(start.ToInt()) : start.ToDouble();
  double last = integral ? static_cast<double>(end.ToInt()) : end.ToDouble();
  double step = steps > 1 ? (last - first) / static_cast<double>(steps - 1) : 0;
  Tensor index = Iota(steps, DType::kF64, device, at);
  Tensor by = Lift(step, DType::kF64);
  Tensor front = add(mul(index, by), Lift(first, DType::kF64));
  Tensor rest = sub(Constant(steps - 1, DType::kF64), index);
  Tensor back = sub(Lift(steps > 1 ? last : first, DType::kF64), mul(rest, by));
  return where(lt(index, Constant(steps / 2, DType::kF64)), front, back);
}

}  // namespace

Tensor linspace(const Scalar& start, const Scalar& end, int64_t steps, std::optional<DType> dtype,
                const Device& device, Location at) {
  LocationScope scope(at);
  const bool is_complex = start.IsComplex() || end.IsComplex();
  DType result = dtype.value_or(is_complex ? kDefaultComplex : kDefaultFloat);
  if (is_complex) {
    DType part = RealOf(result);
    return complex(linspace(start.ToDouble(), end.ToDouble(), steps, part, device, at),
                   linspace(start.imag(), end.imag(), steps, part, device, at), at);
  }
  return Casted(Spaced("linspace", start, end, steps, result, device, at), result);
}

Tensor logspace(const Scalar& start, const Scalar& end, int64_t steps, double base,
                std::optional<DType> dtype, const Device& device, Location at) {
  LocationScope scope(at);
  DType result = dtype.value_or(kDefaultFloat);
  Tensor exponents = Spaced("logspace", start, end, steps, result, device, at);
  return Casted(pow(Lift(base, DType::kF64), exponents), result);
}

Tensor eye(int64_t n, int64_t m, std::optional<DType> dtype, const Device& device, Location at) {
  LocationScope scope(at);
  CheckSizes("eye", {n, m});
  Tensor rows = Reshaped(Iota(n, DType::kI64, device, at), {n, 1});
  return Casted(eq(rows, Iota(m, DType::kI64, device, at)), dtype.value_or(kDefaultFloat));
}

Tensor eye(int64_t n, std::optional<DType> dtype, const Device& device, Location at) {
  return eye(n, n, dtype, device, at);
}

namespace {

template <class InTriangle>
Tensor Triangle(const char* op, int64_t row, int64_t col, std::optional<DType> dtype,
                const Device& device, const Location& at, InTriangle&& in_triangle) {
  CheckSizes(op, {row, col});
  std::vector<int64_t> rows, columns;
  for (int64_t i = 0; i < row; ++i) {
    for (int64_t j = 0; j < col; ++j) {
      if (!in_triangle(i, j)) continue;
      rows.push_back(i);
      columns.push_back(j);
    }
  }
  int64_t count = static_cast<int64_t>(rows.size());
  rows.insert(rows.end(), columns.begin(), columns.end());
  return tensor(rows, Dims{2, count}, dtype, device, at);
}

}  // namespace

Tensor tril_indices(int64_t row, int64_t col, int64_t offset, std::optional<DType> dtype,
                    const Device& device, Location at) {
  LocationScope scope(at);
  return Triangle("tril_indices", row, col, dtype, device, at,
                  [&](int64_t i, int64_t j) { return j <= i + offset; });
}

Tensor triu_indices(int64_t row, int64_t col, int64_t offset, std::optional<DType> dtype,
                    const Device& device, Location at) {
  LocationScope scope(at);
  return Triangle("triu_indices", row, col, dtype, device, at,
                  [&](int64_t i, int64_t j) { return j >= i + offset; });
}

// ---- windows

namespace {

struct Window {
  const char* op;
  int64_t length;
  bool periodic;
  std::optional<DType> dtype;
  const Device& device;
  const Location& at;
};

/// `shape` maps positions in [0, 1] to weights; computed in f64 and rounded once.
template <class F>
Tensor MakeWindow(const Window& window, F&& shape) {
  LocationScope scope(window.at);
  DType result = window.dtype.value_or(kDefaultFloat);
  if (!IsFloat(result)) {
    Throw<TypeError>(ErrorCode::kDTypeMismatch, "{}: dtype {} is not floating", window.op,
                     NameOf(result));
  }
  CheckSizes(window.op, {window.length});
  if (window.length == 1) return ones({1}, result, window.device, window.at);
  // A periodic window is the symmetric one that is longer by one, without its last weight.
  double span = static_cast<double>(window.periodic ? window.length : window.length - 1);
  Tensor index = Iota(window.length, DType::kF64, window.device, window.at);
  return Casted(shape(div(index, Constant(span, DType::kF64))), result);
}

Tensor Cosine(const Tensor& position, double turns) {
  return cos(mul(position, Constant(2 * std::numbers::pi * turns, DType::kF64)));
}

Tensor C(double value) { return Constant(value, DType::kF64); }

}  // namespace

Tensor hamming_window(int64_t window_length, bool periodic, double alpha, double beta,
                      std::optional<DType> dtype, const Device& device, Location at) {
  LocationScope scope(at);
  return MakeWindow({"hamming_window", window_length, periodic, dtype, device, at},
                    [&](const Tensor& x) { return sub(C(alpha), mul(Cosine(x, 1), C(beta))); });
}

Tensor hann_window(int64_t window_length, bool periodic, std::optional<DType> dtype,
                   const Device& device, Location at) {
  LocationScope scope(at);
  return MakeWindow({"hann_window", window_length, periodic, dtype, device, at},
                    [](const Tensor& x) { return sub(C(0.5), mul(Cosine(x, 1), C(0.5))); });
}

Tensor bartlett_window(int64_t window_length, bool periodic, std::optional<DType> dtype,
                       const Device& device, Location at) {
  LocationScope scope(at);
  return MakeWindow({"bartlett_window", window_length, periodic, dtype, device, at},
                    [](const Tensor& x) { return sub(C(1), abs(sub(mul(x, C(2)), C(1)))); });
}

Tensor blackman_window(int64_t window_length, bool periodic, std::optional<DType> dtype,
                       const Device& device, Location at) {
  LocationScope scope(at);
  return MakeWindow({"blackman_window", window_length, periodic, dtype, device, at},
                    [](const Tensor& x) {
                      Tensor first = sub(C(0.42), mul(Cosine(x, 1), C(0.5)));
                      return add(first, mul(Cosine(x, 2), C(0.08)));
                    });
}

// ---- records

namespace ops {
namespace {

using FillFn = Tensor (*)(const Dims&, std::optional<DType>, const Device&, Location);
using RangeFn = Tensor (*)(const Scalar&, const Scalar&, const Scalar&, std::optional<DType>,
                           const Device&, Location);
using EndFn = Tensor (*)(const Scalar&, std::optional<DType>, const Device&, Location);
using SquareFn = Tensor (*)(int64_t, std::optional<DType>, const Device&, Location);
using RectangleFn = Tensor (*)(int64_t, int64_t, std::optional<DType>, const Device&, Location);

Tensor StartEnd(const Scalar& start, const Scalar& end, std::optional<DType> dtype,
                const Device& device, Location at) {
  return arange(start, end, 1, dtype, device, at);
}

Tensor Hamming(int64_t length, bool periodic, std::optional<DType> dtype, const Device& device,
               Location at) {
  return hamming_window(length, periodic, 0.54, 0.46, dtype, device, at);
}

Tensor HammingAlpha(int64_t length, bool periodic, double alpha, std::optional<DType> dtype,
                    const Device& device, Location at) {
  return hamming_window(length, periodic, alpha, 0.46, dtype, device, at);
}

#define OPTIONS ", *, ScalarType? dtype=None, Device? device=None) -> Tensor"
#define FUNCTION(text, what, function) \
  { .schema = text OPTIONS, .doc = what, .call = Box<function> }

constinit const OpDef kFunctions[] = {
    FUNCTION("zeros(int[] size", "Zeros.", FillFn(zeros)),
    FUNCTION("ones(int[] size", "Ones.", FillFn(ones)),
    FUNCTION("full(int[] size, Scalar fill_value", "One value everywhere.", full),
    FUNCTION("empty(int[] size", "Zeros: no value is ever undefined.", FillFn(empty)),
    FUNCTION("zeros_like(Tensor self", "Zeros of the shape of `self`.", zeros_like),
    FUNCTION("ones_like(Tensor self", "Ones of the shape of `self`.", ones_like),
    FUNCTION("full_like(Tensor self, Scalar fill_value", "One value, in the shape of `self`.",
             full_like),
    FUNCTION("empty_like(Tensor self", "Zeros of the shape of `self`.", empty_like),
    FUNCTION("new_zeros(Tensor self, int[] size", "Zeros of the dtype of `self`.", new_zeros),
    FUNCTION("new_ones(Tensor self, int[] size", "Ones of the dtype of `self`.", new_ones),
    FUNCTION("new_full(Tensor self, int[] size, Scalar fill_value",
             "One value, in the dtype of `self`.", new_full),
    FUNCTION("new_empty(Tensor self, int[] size", "Zeros of the dtype of `self`.", new_empty),
    {.schema = "fill(Tensor self, Tensor value) -> Tensor",
     .doc = "One value, in the shape and dtype of `self`.",
     .call = Box<fill>},
    FUNCTION("scalar_tensor(Scalar s", "A 0-d tensor.", scalar_tensor),
    FUNCTION("arange(Scalar end", "0, 1, ... below `end`.", EndFn(arange)),
    FUNCTION("arange.start(Scalar start, Scalar end", "From `start`, below `end`.", StartEnd),
    FUNCTION("arange.start_step(Scalar start, Scalar end, Scalar step", "From `start` by `step`.",
             RangeFn(arange)),
    FUNCTION("linspace(Scalar start, Scalar end, int steps",
             "Evenly spaced from `start` to `end`, both included.", linspace),
    FUNCTION("logspace(Scalar start, Scalar end, int steps, float base=10.0",
             "Powers of `base` with evenly spaced exponents.", logspace),
    FUNCTION("eye(int n", "Ones on the diagonal.", SquareFn(eye)),
    FUNCTION("eye.m(int n, int m", "Ones on the diagonal.", RectangleFn(eye)),
    FUNCTION("hann_window(int window_length, bool periodic=True", "Hann window.", hann_window),
    FUNCTION("hamming_window(int window_length, bool periodic=True", "Hamming window.", Hamming),
    FUNCTION("hamming_window.alpha(int window_length, bool periodic, float alpha",
             "Hamming window.", HammingAlpha),
    FUNCTION("hamming_window.beta(int window_length, bool periodic, float alpha, float beta",
             "Hamming window.", hamming_window),
    FUNCTION("bartlett_window(int window_length, bool periodic=True", "Triangular window.",
             bartlett_window),
    FUNCTION("blackman_window(int window_length, bool periodic=True", "Blackman window.",
             blackman_window),
    FUNCTION("tril_indices(int row, int col, int offset=0", "Indices of the lower triangle.",
             tril_indices),
    FUNCTION("triu_indices(int row, int col, int offset=0", "Indices of the upper triangle.",
             triu_indices),
};
#undef FUNCTION
#undef OPTIONS

}  // namespace

std::span<const OpDef* const> CreateOps() {
  static const auto list = Listed({}, kFunctions);
  return list;
}

}  // namespace ops
}  // namespace hammock
