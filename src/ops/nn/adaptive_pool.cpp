// Pooling to given sizes, and the reverse of max pooling.

#include "base/throw.h"
#include "hammock/ops/elementwise.h"
#include "hammock/ops/matmul.h"
#include "hammock/ops/pool.h"
#include "hammock/ops/reduce.h"
#include "ir/primitives.h"
#include "ops/kit/compose.h"
#include "ops/kit/index_steps.h"
#include "ops/kit/reduce_steps.h"
#include "ops/nn/window.h"
#include "ops/primitives/families.h"

namespace hammock {

using namespace ops;  // NOLINT: the writer's kit of this folder

namespace {

using Both = std::tuple<Tensor, Tensor>;

/// Sizes of the pooled dims; -1 keeps the input's.
Dims OutputSizes(const char* op, const Tensor& self, Dims sizes, int rank) {
  if (self.dim() != rank + 1 && self.dim() != rank + 2) {
    Throw(ErrorCode::kShapeMismatch, "{}: needs {} or {} dims, got {}", op, rank + 1, rank + 2,
          self.shape().to_string());
  }
  if (sizes.size() == 1) sizes = Dims::Filled(rank, sizes[0]);
  if (sizes.size() != rank) {
    Throw(ErrorCode::kValue, "{}: output_size needs one number or {}, got {}", op, rank,
          ToString(sizes));
  }
  for (int i = 0; i < rank; ++i) {
    int64_t own = self.size(self.dim() - rank + i);
    if (sizes[i] == -1) sizes[i] = own;
    if (own == 0 || sizes[i] < 0) {
      Throw(ErrorCode::kShapeMismatch, "{}: cannot pool {} to sizes of {}", op,
            self.shape().to_string(), ToString(sizes));
    }
  }
  return sizes;
}

bool Divides(const Tensor& self, const Dims& sizes) {
  for (int i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0 || self.size(self.dim() - sizes.size() + i) % sizes[i] != 0) return false;
  }
  return true;
}

Dims Kernel(const Tensor& self, const Dims& sizes) {
  Dims kernel;
  for (int i = 0; i < sizes.size(); ++i) {
    kernel.push_back(self.size(self.dim() - sizes.size() + i) / sizes[i]);
  }
  return kernel;
}

/// Windows of one dim: result i covers [i * in / out, ceil((i + 1) * in / out)).
struct AdaptiveWindows {
  int64_t count, widest;
  Tensor start, length;  // i64[count, 1]
};

AdaptiveWindows WindowsOf(int64_t in, int64_t out, const Tensor& like) {
  Tensor i = CountingAlong(0, 2, out, like);
  Tensor size = ConstantLike(in, i), parts = ConstantLike(out, i);
  Tensor start = floor_divide(i * size, parts);
  Tensor end = floor_divide((i + ConstantLike(1, i)) * size + ConstantLike(out - 1, i), parts);
  int64_t widest = 0;
  for (int64_t k = 0; k < out; ++k) {
    widest = std::max(widest, ((k + 1) * in + out - 1) / out - k * in / out);
  }
  return {out, widest, start, end - start};
}

/// Dim `dim` replaced by (windows, elements); narrow windows repeat their last element.
Tensor Unrolled(const Tensor& x, int dim, const AdaptiveWindows& w) {
  Tensor k = CountingAlong(1, 2, w.widest, x);
  Tensor last = w.length - ConstantLike(1, k);
  Tensor index = Reshaped(w.start + minimum(k, last), {w.count * w.widest});
  Dims sizes = x.sizes();
  sizes[dim] = w.count;
  sizes.insert(dim + 1, w.widest);
  return Reshaped(Rows(x, index, dim), sizes);
}

/// A matrix as dims `dim` and `dim` + 1 of `rank` dims.
Tensor AsDims(const Tensor& matrix, int dim, int rank) {
  Dims sizes = Dims::Filled(rank, 1);
  sizes[dim] = matrix.size(0);
  sizes[dim + 1] = matrix.size(1);
  return Reshaped(matrix, sizes);
}

Tensor AverageDim(const Tensor& x, int dim, int64_t out) {
  AdaptiveWindows w = WindowsOf(x.size(dim), out, x);
  Tensor parts = Unrolled(x, dim, w);
  Tensor inside = lt(CountingAlong(1, 2, w.widest, x), w.length);
  parts = where(AsDims(inside, dim, parts.dim()), parts, ConstantLike(0, parts));
  Tensor total = Reduce(kReduceSum, parts, {dim + 1}, true);
  Tensor mean = total / Casted(AsDims(w.length, dim, parts.dim()), x.dtype());
  Dims sizes = x.sizes();
  sizes[dim] = out;
  return Reshaped(mean, sizes);
}

Tensor AdaptiveAverage(const Tensor& self, const Dims& sizes) {
  Tensor x = Casted(self, WideFloat(self.dtype()));
  for (int i = 0; i < sizes.size(); ++i) x = AverageDim(x, self.dim() - sizes.size() + i, sizes[i]);
  return Casted(x, self.dtype());
}

/// One window over all: a mean, which unlike a window is the same op at all sizes.
Tensor WholeAverage(const Tensor& self, int rank) {
  Dims dims;
  for (int d = self.dim() - rank; d < self.dim(); ++d) dims.push_back(d);
  return Casted(mean(Casted(self, WideFloat(self.dtype())), dims, true), self.dtype());
}

/// Largest elements with their indices, taken from the last dim to the first, so that of equal ones
/// the first counts.
Both AdaptiveMax(const Tensor& self, const Dims& sizes) {
  int first = self.dim() - sizes.size();
  Tensor values = self;
  Dims own = Dims::Filled(first, 1);
  int64_t count = 1;
  for (int i = first; i < self.dim(); ++i) {
    own.push_back(self.size(i));
    count *= self.size(i);
  }
  Tensor indices = Broadcasted(Reshaped(Counting(count, self), own), self.sizes());
  for (int dim = self.dim() - 1; dim >= first; --dim) {
    AdaptiveWindows w = WindowsOf(self.size(dim), sizes[dim - first], self);
    Tensor parts = Unrolled(values, dim, w), from = Unrolled(indices, dim, w);
    Tensor best = Apply(kArgMax, Location(), {parts}, {dim + 1, true});
    Dims left = values.sizes();
    left[dim] = w.count;
    auto pick = [&](const Tensor& x) {
      return Reshaped(Apply(kGather, Location(), {x, best}, {dim + 1}), left);
    };
    values = pick(parts);
    indices = pick(from);
  }
  return {values, indices};
}

Tensor WithoutElements(const Tensor& self, const Dims& sizes, DType dtype) {
  Dims all = self.sizes();
  for (int i = 0; i < sizes.size(); ++i) all[self.dim() - sizes.size() + i] = sizes[i];
  return Filled(all, int64_t{0}, dtype, self);
}

bool IsEmpty(const Tensor& self, const Dims& sizes) {
  return self.numel() == 0 || Contains(sizes, 0);
}

// ---- The reverse of max pooling

Dims UnpooledSizes(const char* op, const Tensor& input, const Dims& kernel, const Dims& stride,
                   const Dims& padding, const std::optional<std::vector<int64_t>>& output_size) {
  int rank = kernel.size();
  Dims sizes;
  for (int i = 0; i < rank; ++i) {
    int64_t size = input.size(input.dim() - rank + i);
    sizes.push_back((size - 1) * stride[i] + kernel[i] - 2 * padding[i]);
  }
  if (!output_size) return sizes;
  Dims wanted(*output_size);
  while (wanted.size() > rank && output_size->size() == static_cast<size_t>(rank) + 2) {
    wanted.erase(0);
  }
  bool fits = wanted.size() == rank;
  for (int i = 0; fits && i < rank; ++i) {
    fits = wanted[i] > sizes[i] - stride[i] && wanted[i] < sizes[i] + stride[i];
  }
  if (!fits) {
    Throw(ErrorCode::kShapeMismatch,
          "{}: output_size {} must be less than a stride {} away from {} in each dim", op,
          ToString(wanted), ToString(stride), ToString(sizes));
  }
  return wanted;
}

Tensor MaxUnpool(const char* op, int rank, const Tensor& input, const Tensor& indices,
                 const Dims& kernel_size, const Dims& strides, const Dims& paddings,
                 const std::optional<std::vector<int64_t>>& output_size) {
  if ((input.dim() != rank + 1 && input.dim() != rank + 2) || indices.sizes() != input.sizes() ||
      indices.dtype() != DType::kI64) {
    Throw(ErrorCode::kShapeMismatch,
          "{}: needs input of {} or {} dims and i64 indices of the same sizes, got {} and {}", op,
          rank + 1, rank + 2, input.shape().to_string(), indices.shape().to_string());
  }
  Dims kernel = PerDim(op, "kernel_size", kernel_size, rank);
  Dims stride = strides.empty() ? kernel : PerDim(op, "stride", strides, rank);
  for (int64_t step : stride) {
    if (step < 1) Throw(ErrorCode::kValue, "{}: stride must be at least 1, got {}", op, step);
  }
  Dims sizes =
      UnpooledSizes(op, input, kernel, stride, PerDim(op, "padding", paddings, rank), output_size);
  Dims result = input.sizes();
  int64_t outer = 1, in = 1, out = 1;
  for (int i = 0; i < input.dim(); ++i) {
    int d = i - (input.dim() - rank);
    (d < 0 ? outer : in) *= input.size(i);
    if (d < 0) continue;
    result[i] = sizes[d];
    out *= sizes[d];
  }
  CheckSizes(op, result);
  Tensor zeros = Filled({outer, out}, int64_t{0}, input.dtype(), input);
  Tensor placed =
      Scattered(zeros, Reshaped(indices, {outer, in}), Reshaped(input, {outer, in}), 1, "none");
  return Reshaped(placed, result);
}

}  // namespace

#define HAMMOCK_POOL(dims, rank)                                                                 \
  Tensor adaptive_avg_pool##dims(const Tensor& self, const Dims& output_size, Location at) {     \
    LocationScope scope(at);                                                                     \
    NeedFloat("adaptive_avg_pool" #dims, self);                                                  \
    Dims sizes = OutputSizes("adaptive_avg_pool" #dims, self, output_size, rank);                \
    if (IsEmpty(self, sizes)) return WithoutElements(self, sizes, self.dtype());                 \
    if (sizes == Dims::Filled(rank, 1)) return WholeAverage(self, rank);                         \
    if (Divides(self, sizes)) return avg_pool##dims(self, Kernel(self, sizes));                  \
    return AdaptiveAverage(self, sizes);                                                         \
  }                                                                                              \
  std::tuple<Tensor, Tensor> adaptive_max_pool##dims##_with_indices(                             \
      const Tensor& self, const Dims& output_size, Location at) {                                \
    LocationScope scope(at);                                                                     \
    NeedFloat("adaptive_max_pool" #dims, self);                                                  \
    Dims sizes = OutputSizes("adaptive_max_pool" #dims, self, output_size, rank);                \
    if (IsEmpty(self, sizes)) {                                                                  \
      return {WithoutElements(self, sizes, self.dtype()),                                        \
              WithoutElements(self, sizes, DType::kI64)};                                        \
    }                                                                                            \
    if (Divides(self, sizes)) return max_pool##dims##_with_indices(self, Kernel(self, sizes));   \
    return AdaptiveMax(self, sizes);                                                             \
  }                                                                                              \
  Tensor adaptive_max_pool##dims(const Tensor& self, const Dims& output_size, Location at) {     \
    return std::get<0>(adaptive_max_pool##dims##_with_indices(self, output_size, at));           \
  }                                                                                              \
  Tensor max_unpool##dims(const Tensor& input, const Tensor& indices, const Dims& kernel_size,   \
                          const Dims& stride, const Dims& padding,                               \
                          const std::optional<std::vector<int64_t>>& output_size, Location at) { \
    LocationScope scope(at);                                                                     \
    return MaxUnpool("max_unpool" #dims, rank, input, indices, kernel_size, stride, padding,     \
                     output_size);                                                               \
  }
HAMMOCK_POOL(1d, 1)
HAMMOCK_POOL(2d, 2)
HAMMOCK_POOL(3d, 3)
#undef HAMMOCK_POOL

namespace {

/// One number or a list in which none keeps the size.
Dims SizesFrom(const Any& value) {
  Dims sizes;
  for (const Any& item : value.ToList()) {
    if (!item.IsNone() && item.ToInt() < 0) {
      Throw(ErrorCode::kValue, "adaptive pooling: output_size must be at least 0, got {}",
            value.to_string());
    }
    sizes.push_back(item.IsNone() ? -1 : item.ToInt());
  }
  return sizes;
}

template <Tensor (*F)(const Tensor&, const Dims&, Location)>
Any CallAverage(std::span<const Any> args) {
  return Any(F(args[0].ToTensor(), SizesFrom(args[1]), Location::current()));
}

/// As nn.functional's: the indices come only when asked for.
template <Both (*F)(const Tensor&, const Dims&, Location)>
Any CallMax(std::span<const Any> args) {
  auto [values, indices] = F(args[0].ToTensor(), SizesFrom(args[1]), Location::current());
  if (!args[2].ToBool()) return Any(values);
  return Any::Tuple({values, indices});
}

template <Tensor (*F)(const Tensor&, const Tensor&, const Dims&, const Dims&, const Dims&,
                      const std::optional<std::vector<int64_t>>&, Location)>
struct UnpoolOf {
  static Tensor Call(const Tensor& input, const Tensor& indices, const Dims& kernel_size,
                     std::optional<Dims> stride, const Dims& padding,
                     std::optional<std::vector<int64_t>> output_size) {
    return F(input, indices, kernel_size, stride.value_or(Dims()), padding, output_size,
             Location::current());
  }
};

#define HAMMOCK_POOL(dims, rank)                                                                  \
  constinit const OpDef k_adaptive_avg_pool##dims = {                                             \
      .schema = "adaptive_avg_pool" #dims "(Tensor self, int?[" #rank "] output_size) -> Tensor", \
      .doc = "Means of windows that divide the input into `output_size` parts.",                  \
      .call = CallAverage<adaptive_avg_pool##dims>};                                              \
  constinit const OpDef k_adaptive_max_pool##dims = {                                             \
      .schema = "adaptive_max_pool" #dims "(Tensor self, int?[" #rank                             \
                "] output_size, bool return_indices=False) -> Any",                               \
      .doc = "Largest elements of windows that divide the input into `output_size` parts.",       \
      .call = CallMax<adaptive_max_pool##dims##_with_indices>};                                   \
  constinit const OpDef k_max_unpool##dims = {                                                    \
      .schema = "max_unpool" #dims "(Tensor input, Tensor indices, int[" #rank                    \
                "] kernel_size, int[" #rank "]? stride=None, int[" #rank                          \
                "] padding=0, int[]? output_size=None) -> Tensor",                                \
      .doc = "Zeros with the values at the indices that max pooling gave.",                       \
      .call = Box<UnpoolOf<max_unpool##dims>::Call>};
HAMMOCK_POOL(1d, 1)
HAMMOCK_POOL(2d, 2)
HAMMOCK_POOL(3d, 3)
#undef HAMMOCK_POOL

}  // namespace

std::span<const OpDef* const> ops::AdaptivePoolOps() {
  static constexpr const OpDef* kOps[] = {
      &k_adaptive_avg_pool1d, &k_adaptive_max_pool1d, &k_max_unpool1d,
      &k_adaptive_avg_pool2d, &k_adaptive_max_pool2d, &k_max_unpool2d,
      &k_adaptive_avg_pool3d, &k_adaptive_max_pool3d, &k_max_unpool3d,
  };
  return kOps;
}

}  // namespace hammock
