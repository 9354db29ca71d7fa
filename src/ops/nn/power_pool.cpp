// Pooling by norms, and max pooling by windows at random positions.

#include "hammock/ops/power_pool.h"

#include <cmath>

#include "base/throw.h"
#include "hammock/ops/create.h"
#include "hammock/ops/elementwise.h"
#include "hammock/ops/index.h"
#include "hammock/ops/matmul.h"
#include "hammock/ops/nn.h"
#include "hammock/ops/random.h"
#include "hammock/ops/reduce.h"
#include "hammock/ops/shape.h"
#include "ops/primitives/elementwise_kit.h"
#include "ops/primitives/families.h"

namespace hammock {

using namespace ops;  // NOLINT: the op writer's kit

namespace {

/// One number stands for all dims.
Dims ForAll(const char* op, const Dims& sizes, int dims, const char* what) {
  if (sizes.size() == 1) return Dims::Filled(dims, sizes[0]);
  if (sizes.size() == dims) return sizes;
  Throw(ErrorCode::kValue, "{}: {} has {} numbers, expected {}", op, what, sizes.size(), dims);
}

// ---- Norms

Tensor LpPool(const char* op, int dims, const Tensor& self, double norm_type,
              const Dims& kernel_size, const Dims& stride, bool ceil_mode) {
  static constexpr decltype(&max_pool1d) kMax[] = {max_pool1d, max_pool2d, max_pool3d};
  static constexpr decltype(&avg_pool1d) kAvg[] = {avg_pool1d, avg_pool2d, avg_pool3d};
  if (norm_type == 0) {
    Throw(ErrorCode::kValue, "{}: norm_type is 0, expected another number", op);
  }
  Dims kernel = ForAll(op, kernel_size, dims, "kernel_size");
  if (std::isinf(norm_type)) {
    double sign = norm_type > 0 ? 1 : -1;
    return mul(
        kMax[dims - 1](mul(abs(self), sign), kernel, stride, {0}, {1}, ceil_mode, Location()),
        sign);
  }
  double count = 1;
  for (int64_t size : kernel) count *= static_cast<double>(size);
  Tensor powers = pow(self, norm_type);
  Tensor means =
      kAvg[dims - 1](powers, kernel, stride, {0}, ceil_mode, true, std::nullopt, Location());
  Tensor sums = mul(means, count);
  return pow(mul(sign(sums), relu(abs(sums))), 1 / norm_type);
}

// ---- Random windows

/// Where the windows along one dim begin, as PyTorch has it for these samples: i64[N,C,output].
Tensor Starts(const Tensor& samples, int64_t size, int64_t output, int64_t kernel) {
  const int64_t last = size - kernel;
  Tensor end = Filled({samples.size(0), samples.size(1), 1}, last, DType::kI64, samples);
  if (output == 1) return end;
  double alpha = static_cast<double>(last) / static_cast<double>(output - 1);
  Tensor u = Casted(unsqueeze(samples, -1), DType::kF64);
  Tensor number = Casted(Counting(output - 1, samples), DType::kF64);
  Tensor inner = sub(floor(mul(add(number, u), alpha)), floor(mul(u, alpha)));
  return cat({Casted(inner, DType::kI64), end}, -1);
}

std::tuple<Tensor, Tensor> FractionalPool(const char* op, int dims, const Tensor& self,
                                          const Dims& kernel_size,
                                          const FractionalWindows& windows) {
  if (self.dim() == dims + 1) {
    auto [values, indices] = FractionalPool(op, dims, unsqueeze(self, 0), kernel_size, windows);
    return {squeeze(values, 0), squeeze(indices, 0)};
  }
  if (self.dim() != dims + 2) {
    Throw(ErrorCode::kShapeMismatch, "{}: the input is {}, expected {} dims", op,
          self.shape().to_string(), dims + 2);
  }
  if (windows.output_size.has_value() != windows.output_ratio.empty()) {
    Throw(ErrorCode::kValue, "{}: needs either output_size or output_ratio", op);
  }
  Dims kernel = ForAll(op, kernel_size, dims, "kernel_size");
  std::vector<double> ratio = windows.output_ratio;
  if (ratio.size() == 1) ratio.resize(static_cast<size_t>(dims), ratio[0]);
  if (!windows.output_size && ratio.size() != static_cast<size_t>(dims)) {
    Throw(ErrorCode::kValue, "{}: output_ratio has {} numbers, expected {}", op, ratio.size(),
          dims);
  }
  const int64_t batch = self.size(0), channels = self.size(1);
  Tensor samples = windows.random_samples
                       ? *windows.random_samples
                       : rand({batch, channels, dims}, DType::kF64, self.device());
  if (samples.sizes() != Dims{batch, channels, dims}) {
    Throw(ErrorCode::kShapeMismatch, "{}: samples {} must have the sizes {}", op,
          samples.shape().to_string(), ToString(Dims{batch, channels, dims}));
  }

  // The flat position of every element of every window: [N, C, out..., kernel...].
  Tensor position;
  Dims out;
  int64_t reach = 1;
  for (int dim = 0; dim < dims; ++dim) {
    const int64_t size = self.size(dim + 2);
    const int64_t output =
        windows.output_size
            ? ForAll(op, *windows.output_size, dims, "output_size")[dim]
            : static_cast<int64_t>(static_cast<double>(size) * ratio[static_cast<size_t>(dim)]);
    if (output < 1 || output + kernel[dim] - 1 > size) {
      Throw(ErrorCode::kShapeMismatch, "{}: {} windows of {} do not fit into {}", op, output,
            kernel[dim], self.shape().to_string());
    }
    // PyTorch's samples of images are in the order (width, height).
    int sample = dims == 2 ? 1 - dim : dim;
    Tensor starts = Starts(select(samples, -1, sample), size, output, kernel[dim]);
    Dims start_sizes = {batch, channels}, offset_sizes = {1, 1};
    for (int d = 0; d < 2 * dims; ++d) {
      start_sizes.push_back(d == dim ? output : 1);
      offset_sizes.push_back(d == dims + dim ? kernel[dim] : 1);
    }
    Tensor along =
        add(Reshaped(starts, start_sizes), Reshaped(Counting(kernel[dim], self), offset_sizes));
    position = position.defined() ? add(mul(position, size), along) : along;
    out.push_back(output);
    reach *= kernel[dim];
  }
  int64_t outputs = 1;
  for (int64_t size : out) outputs *= size;
  Tensor flat = Reshaped(position, {batch, channels, outputs * reach});
  Tensor x = flatten(self, 2);
  auto by_window = [&](const Tensor& t) { return Reshaped(t, {batch, channels, outputs, reach}); };
  auto [values, which] = max(by_window(gather(x, 2, flat)), 3, true);
  Tensor indices = gather(by_window(flat), 3, which);
  Dims sizes = {batch, channels};
  for (int64_t size : out) sizes.push_back(size);
  return {Reshaped(values, sizes), Reshaped(indices, sizes)};
}

}  // namespace

#define HAMMOCK_DEFINE(rank)                                                                   \
  Tensor lp_pool##rank##d(const Tensor& self, double norm_type, const Dims& kernel_size,       \
                          const Dims& stride, bool ceil_mode, Location at) {                   \
    LocationScope scope(at);                                                                   \
    return LpPool("lp_pool" #rank "d", rank, self, norm_type, kernel_size, stride, ceil_mode); \
  }
HAMMOCK_DEFINE(1)
HAMMOCK_DEFINE(2)
HAMMOCK_DEFINE(3)
#undef HAMMOCK_DEFINE

#define HAMMOCK_DEFINE(rank)                                                                       \
  std::tuple<Tensor, Tensor> fractional_max_pool##rank##d_with_indices(                            \
      const Tensor& self, const Dims& kernel_size, const FractionalWindows& windows,               \
      Location at) {                                                                               \
    LocationScope scope(at);                                                                       \
    return FractionalPool("fractional_max_pool" #rank "d", rank, self, kernel_size, windows);      \
  }                                                                                                \
  Tensor fractional_max_pool##rank##d(const Tensor& self, const Dims& kernel_size,                 \
                                      const FractionalWindows& windows, Location at) {             \
    return std::get<0>(fractional_max_pool##rank##d_with_indices(self, kernel_size, windows, at)); \
  }
HAMMOCK_DEFINE(2)
HAMMOCK_DEFINE(3)
#undef HAMMOCK_DEFINE

// ---- Records

namespace {

template <auto F>
struct LpPoolOf {
  static Tensor Call(const Tensor& self, double norm_type, const Dims& kernel_size,
                     std::optional<Dims> stride, bool ceil_mode) {
    return F(self, norm_type, kernel_size, stride.value_or(Dims()), ceil_mode, Location::current());
  }
};

template <auto F>
struct FractionalOf {
  static std::tuple<Tensor, Tensor> Both(const Tensor& self, const Dims& kernel_size,
                                         const std::optional<Dims>& output_size,
                                         const std::optional<std::vector<double>>& output_ratio,
                                         bool, const std::optional<Tensor>& samples) {
    return F(self, kernel_size,
             {output_size, output_ratio.value_or(std::vector<double>()), samples},
             Location::current());
  }
  /// As nn.functional's: the indices come only when asked for.
  static Any Call(const Tensor& self, const Dims& kernel_size,
                  const std::optional<Dims>& output_size,
                  const std::optional<std::vector<double>>& output_ratio, bool return_indices,
                  const std::optional<Tensor>& samples) {
    auto [values, indices] = Both(self, kernel_size, output_size, output_ratio, true, samples);
    return return_indices ? Any::Tuple({values, indices}) : Any(values);
  }
};

#define LP_POOL(rank)                                                                       \
  {.schema = "lp_pool" #rank "d(Tensor self, float norm_type, int[" #rank                   \
             "] kernel_size, int[" #rank "]? stride=None, bool ceil_mode=False) -> Tensor", \
   .doc = "The norm of each window.",                                                       \
   .call = Box<LpPoolOf<lp_pool##rank##d>::Call>},
#define FRACTIONAL(rank, suffix, returns, form)                                             \
  {.schema = "fractional_max_pool" #rank "d" suffix "(Tensor self, int[" #rank              \
             "] kernel_size, int[" #rank                                                    \
             "]? output_size=None, float[]? output_ratio=None, bool return_indices=False, " \
             "Tensor? _random_samples=None) -> " returns,                                   \
   .doc = "The greatest of each window; windows begin at pseudorandom positions.",          \
   .call = Box<FractionalOf<fractional_max_pool##rank##d_with_indices>::form>},

constinit const OpDef kFunctions[] = {
    LP_POOL(1) LP_POOL(2) LP_POOL(3) FRACTIONAL(2, "", "Any", Call)
        FRACTIONAL(2, "_with_indices", "(Tensor, Tensor)", Both) FRACTIONAL(3, "", "Any", Call)
            FRACTIONAL(3, "_with_indices", "(Tensor, Tensor)", Both)};

}  // namespace

std::span<const OpDef* const> ops::PowerPoolOps() {
  static const auto list = Listed({}, kFunctions);
  return list;
}

}  // namespace hammock
