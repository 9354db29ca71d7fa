// Pooling over one, two or three dims.

#include "base/throw.h"
#include "hammock/ops/elementwise.h"
#include "hammock/ops/matmul.h"
#include "ir/primitives.h"
#include "ops/kit/compose.h"
#include "ops/nn/window.h"
#include "ops/primitives/families.h"

namespace hammock {

using namespace ops;  // NOLINT: the writer's kit of this folder

namespace {

using Both = std::tuple<Tensor, Tensor>;

struct PoolWindow {
  Dims kernel, stride, padding, dilation;
  Dims high;  // padding behind, with what ceil_mode adds
  Dims out;   // sizes of the pooled dims
};

/// PyTorch's output size: with ceil_mode a window may start in the input or its front padding.
int64_t PooledSize(int64_t padded, int64_t reach, int64_t stride, int64_t size, int64_t padding,
                   bool ceil_mode) {
  int64_t extra = ceil_mode ? stride - 1 : 0;
  int64_t out = (padded - reach + extra) / stride + 1;
  if (ceil_mode && (out - 1) * stride >= size + padding) --out;
  return out;
}

PoolWindow MakeWindow(const char* op, int rank, const Tensor& self, const Dims& kernel_size,
                      const Dims& stride, const Dims& padding, const Dims& dilation,
                      bool ceil_mode) {
  if (self.dim() != rank + 1 && self.dim() != rank + 2) {
    Throw(ErrorCode::kShapeMismatch, "{}: needs {} or {} dims, got {}", op, rank + 1, rank + 2,
          self.shape().to_string());
  }
  PoolWindow w;
  w.kernel = PerDim(op, "kernel_size", kernel_size, rank);
  w.stride = stride.empty() ? w.kernel : PerDim(op, "stride", stride, rank);
  w.padding = PerDim(op, "padding", padding, rank);
  w.dilation = PerDim(op, "dilation", dilation, rank);
  for (int i = 0; i < rank; ++i) {
    int64_t size = self.size(self.dim() - rank + i);
    int64_t reach = w.dilation[i] * (w.kernel[i] - 1) + 1;
    if (w.kernel[i] < 1 || w.stride[i] < 1 || w.dilation[i] < 1 || w.padding[i] < 0 ||
        w.padding[i] > w.kernel[i] / 2) {
      Throw(
          ErrorCode::kValue,
          "{}: kernel_size {}, stride {} and dilation {} must be at least 1, padding {} from 0 to "
          "half the kernel",
          op, w.kernel[i], w.stride[i], w.dilation[i], w.padding[i]);
    }
    int64_t padded = size + 2 * w.padding[i];
    int64_t out = padded < reach && !ceil_mode
                      ? 0
                      : PooledSize(padded, reach, w.stride[i], size, w.padding[i], ceil_mode);
    if (out < 1) {
      Throw(ErrorCode::kShapeMismatch, "{}: a window of {} does not fit {} padded by {}", op, reach,
            self.shape().to_string(), w.padding[i]);
    }
    // Padding that the windows need at the end, which ceil_mode may make more than the padding.
    int64_t needed = (out - 1) * w.stride[i] + reach - size - w.padding[i];
    w.high.push_back(std::max(needed, w.padding[i]));
    w.out.push_back(out);
  }
  return w;
}

Tensor Windows(const char* kind, const Tensor& x, const PoolWindow& w, const Dims& low,
               const Dims& high) {
  return Apply(kReduceWindow, Location(), {x}, {kind, w.kernel, w.stride, low, high, w.dilation});
}

Tensor Trimmed(Tensor x, const PoolWindow& w) {
  for (int i = 0; i < w.out.size(); ++i) {
    x = Sliced(x, x.dim() - w.out.size() + i, 0, w.out[i]);
  }
  return x;
}

Both MaxPool(const char* op, int rank, const Tensor& self, const Dims& kernel_size,
             const Dims& stride, const Dims& padding, const Dims& dilation, bool ceil_mode,
             bool indices) {
  PoolWindow w = MakeWindow(op, rank, self, kernel_size, stride, padding, dilation, ceil_mode);
  Tensor values = Trimmed(Windows("max", self, w, w.padding, w.high), w);
  if (!indices) return {values, Tensor()};
  Tensor maxima = Apply(kReduceWindowArg, Location(), {self},
                        {w.kernel, w.stride, w.padding, w.high, w.dilation});
  return {values, Trimmed(maxima, w)};
}

Tensor AvgPool(const char* op, int rank, const Tensor& self, const Dims& kernel_size,
               const Dims& stride, const Dims& padding, bool ceil_mode, bool count_include_pad,
               std::optional<int64_t> divisor_override) {
  if (divisor_override && *divisor_override == 0) {
    Throw(ErrorCode::kValue, "{}: divisor_override must not be zero", op);
  }
  PoolWindow w =
      MakeWindow(op, rank, self, kernel_size, stride, padding, Dims::Filled(rank, 1), ceil_mode);
  Tensor x = Casted(self, WideFloat(self.dtype()));
  Tensor total = Trimmed(Windows("sum", x, w, w.padding, w.high), w);
  Tensor divisor;
  if (divisor_override) {
    divisor = ConstantLike(*divisor_override, x);
  } else {
    // How many elements (with count_include_pad also of the padding) each window covers.
    Dims sizes, low, high;
    for (int i = 0; i < rank; ++i) {
      int64_t size = self.size(self.dim() - rank + i);
      int64_t counted = count_include_pad ? 2 * w.padding[i] : 0;
      sizes.push_back(size + counted);
      low.push_back(count_include_pad ? 0 : w.padding[i]);
      high.push_back(w.high[i] - (count_include_pad ? w.padding[i] : 0));
    }
    divisor = Trimmed(Windows("sum", Filled(sizes, int64_t{1}, x.dtype(), x), w, low, high), w);
  }
  Tensor result =
      IsFloat(x.dtype()) ? total / divisor : Apply(kTruncDivide, Location(), {total, divisor});
  return Casted(result, self.dtype());
}

}  // namespace

#define HAMMOCK_POOL(dims, rank)                                                                  \
  Tensor max_pool##dims(const Tensor& self, const Dims& kernel_size, const Dims& stride,          \
                        const Dims& padding, const Dims& dilation, bool ceil_mode, Location at) { \
    LocationScope scope(at);                                                                      \
    return std::get<0>(MaxPool("max_pool" #dims, rank, self, kernel_size, stride, padding,        \
                               dilation, ceil_mode, false));                                      \
  }                                                                                               \
  std::tuple<Tensor, Tensor> max_pool##dims##_with_indices(                                       \
      const Tensor& self, const Dims& kernel_size, const Dims& stride, const Dims& padding,       \
      const Dims& dilation, bool ceil_mode, Location at) {                                        \
    LocationScope scope(at);                                                                      \
    return MaxPool("max_pool" #dims, rank, self, kernel_size, stride, padding, dilation,          \
                   ceil_mode, true);                                                              \
  }                                                                                               \
  Tensor avg_pool##dims(const Tensor& self, const Dims& kernel_size, const Dims& stride,          \
                        const Dims& padding, bool ceil_mode, bool count_include_pad,              \
                        std::optional<int64_t> divisor_override, Location at) {                   \
    LocationScope scope(at);                                                                      \
    return AvgPool("avg_pool" #dims, rank, self, kernel_size, stride, padding, ceil_mode,         \
                   count_include_pad, divisor_override);                                          \
  }
HAMMOCK_POOL(1d, 1)
HAMMOCK_POOL(2d, 2)
HAMMOCK_POOL(3d, 3)
#undef HAMMOCK_POOL

namespace {

using MaxPoolFn = Both (*)(const Tensor&, const Dims&, const Dims&, const Dims&, const Dims&, bool,
                           Location);

/// As nn.functional's max_pool: the indices come only when asked for.
template <MaxPoolFn F>
Any CallMaxPool(std::span<const Any> args) {
  auto dims = [&](int i) { return args[i].IsNone() ? Dims() : Dims(args[i].ToInts()); };
  bool indices = args[6].ToBool();
  auto [values, maxima] = F(args[0].ToTensor(), dims(1), dims(2), dims(3), dims(4),
                            args[5].ToBool(), Location::current());
  if (!indices) return Any(values);
  return Any::Tuple({values, maxima});
}

template <Tensor (*F)(const Tensor&, const Dims&, const Dims&, const Dims&, bool, bool,
                      std::optional<int64_t>, Location)>
struct AvgPoolOf {
  static Tensor Call(const Tensor& self, const Dims& kernel_size, std::optional<Dims> stride,
                     const Dims& padding, bool ceil_mode, bool count_include_pad,
                     std::optional<int64_t> divisor_override) {
    return F(self, kernel_size, stride.value_or(Dims()), padding, ceil_mode, count_include_pad,
             divisor_override, Location::current());
  }
};

#define HAMMOCK_POOL(dims, rank)                                                                \
  constinit const OpDef k_max_pool##dims = {                                                    \
      .schema = "max_pool" #dims "(Tensor self, int[" #rank "] kernel_size, int[" #rank         \
                "]? stride=[], int[" #rank "] padding=0, int[" #rank                            \
                "] dilation=1, bool ceil_mode=False, bool return_indices=False) -> Any",        \
      .doc = "Largest element of each window, with its index where asked for.",                 \
      .call = CallMaxPool<max_pool##dims##_with_indices>};                                      \
  constinit const OpDef k_max_pool##dims##_with_indices = {                                     \
      .schema = "max_pool" #dims "_with_indices(Tensor self, int[" #rank                        \
                "] kernel_size, int[" #rank "] stride=[], int[" #rank "] padding=0, int[" #rank \
                "] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)",                      \
      .doc = "Largest element of each window and its flat index.",                              \
      .call = Box<max_pool##dims##_with_indices>};                                              \
  constinit const OpDef k_avg_pool##dims = {                                                    \
      .schema = "avg_pool" #dims "(Tensor self, int[" #rank "] kernel_size, int[" #rank         \
                "]? stride=[], int[" #rank                                                      \
                "] padding=0, bool ceil_mode=False, bool count_include_pad=True, int? "         \
                "divisor_override=None) -> Tensor",                                             \
      .doc = "Mean of each window.",                                                            \
      .call = Box<AvgPoolOf<avg_pool##dims>::Call>};
HAMMOCK_POOL(1d, 1)
HAMMOCK_POOL(2d, 2)
HAMMOCK_POOL(3d, 3)
#undef HAMMOCK_POOL

}  // namespace

std::span<const OpDef* const> ops::PoolOps() {
  static constexpr const OpDef* kOps[] = {
      &k_max_pool1d, &k_max_pool1d_with_indices, &k_avg_pool1d,
      &k_max_pool2d, &k_max_pool2d_with_indices, &k_avg_pool2d,
      &k_max_pool3d, &k_max_pool3d_with_indices, &k_avg_pool3d,
  };
  return kOps;
}

}  // namespace hammock
