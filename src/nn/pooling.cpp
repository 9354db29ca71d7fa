#include "hammock/nn/pooling.h"

#include <cmath>
#include <limits>

#include "base/throw.h"
#include "hammock/ops.h"
#include "nn/call_forward.h"

namespace hammock::nn {

// ---- Norms

namespace {

Tensor MaxPooled(int dims, const Tensor& x, const Dims& kernel, const Dims& stride, bool ceil) {
  static constexpr decltype(&max_pool1d) kPool[] = {max_pool1d, max_pool2d, max_pool3d};
  return kPool[dims - 1](x, kernel, stride, {0}, {1}, ceil, Location::current());
}

Tensor AvgPooled(int dims, const Tensor& x, const Dims& kernel, const Dims& stride, bool ceil) {
  static constexpr decltype(&avg_pool1d) kPool[] = {avg_pool1d, avg_pool2d, avg_pool3d};
  return kPool[dims - 1](x, kernel, stride, {0}, ceil, true, std::nullopt, Location::current());
}

Function LPPool(const char* name, int dims, const LPPoolOptions& o, const Location& at) {
  LocationScope scope(at);
  if (o.norm_type == 0)
    Throw(ErrorCode::kValue, "{}: norm_type is 0, expected another number", name);
  Dims kernel = o.kernel_size.Expanded(dims, "kernel_size");
  Dims stride = o.stride ? o.stride->dims() : Dims();
  double count = 1;
  for (int64_t size : kernel) count *= static_cast<double>(size);
  auto pooled = [=](const Tensor& x) {
    if (std::isinf(o.norm_type)) {
      double sign = o.norm_type > 0 ? 1 : -1;
      return MaxPooled(dims, abs(x) * sign, kernel, stride, o.ceil_mode) * sign;
    }
    Tensor sums = AvgPooled(dims, pow(x, o.norm_type), kernel, stride, o.ceil_mode) * count;
    return pow(sign(sums) * relu(abs(sums)), 1 / o.norm_type);
  };
  return Function(name, pooled,
                  fmt::format("norm_type={}, kernel_size={}", o.norm_type, ToString(kernel)));
}

}  // namespace

Function LPPool1d(const LPPoolOptions& options, Location at) {
  return LPPool("LPPool1d", 1, options, at);
}
Function LPPool2d(const LPPoolOptions& options, Location at) {
  return LPPool("LPPool2d", 2, options, at);
}
Function LPPool3d(const LPPoolOptions& options, Location at) {
  return LPPool("LPPool3d", 3, options, at);
}

// ---- The reverse of max pooling

MaxUnpoolBase::MaxUnpoolBase(const char* class_name, int dims, Options given)
    : Module(class_name), options(std::move(given)), dims_(dims) {
  define("forward(Tensor input, Tensor indices, int[]? output_size=None) -> Tensor",
         &MaxUnpoolBase::forward);
}

Tensor MaxUnpoolBase::forward(const TensorAt& input, const Tensor& indices,
                              const std::optional<std::vector<int64_t>>& output_size) {
  static constexpr decltype(&max_unpool1d) kUnpool[] = {max_unpool1d, max_unpool2d, max_unpool3d};
  Dims stride = options.stride ? options.stride->dims() : Dims();
  return CallForward(*this, input.at, [&] {
    return kUnpool[dims_ - 1](input.tensor, indices, options.kernel_size.dims(), stride,
                              options.padding.dims(), output_size, Location::current());
  });
}

std::string MaxUnpoolBase::extra_repr() const {
  return "kernel_size=" + ToString(options.kernel_size.dims());
}

// ---- Fractional max pooling

namespace {

/// The greatest of each window along `dim`; windows begin where PyTorch has them for these samples
/// of each channel.
Tensor PooledAlong(int dim, const Tensor& x, const Tensor& samples, int64_t output,
                   int64_t kernel) {
  const int64_t last = x.size(dim) - kernel;
  Tensor u = unsqueeze(samples, -1).to(DType::kF64);
  Tensor starts = full({x.size(0), x.size(1), 1}, last, DType::kI64, x.device());
  if (output > 1) {
    double alpha = static_cast<double>(last) / static_cast<double>(output - 1);
    Tensor number = arange(output - 1, DType::kF64, x.device());
    Tensor inner = floor((number + u) * alpha) - floor(u * alpha);
    starts = cat({inner.to(DType::kI64), starts}, -1);
  }
  Tensor index = unsqueeze(starts, -1) + arange(kernel, DType::kI64, x.device());
  Dims at = {x.size(0), x.size(1)}, sizes = x.sizes();
  for (int d = 2; d < x.dim(); ++d) at.push_back(d == dim ? output * kernel : 1);
  sizes[dim] = output * kernel;
  Tensor windows = gather(x, dim, expand(reshape(index, at), sizes));
  return amax(unflatten(windows, dim, {output, kernel}), {dim + 1});
}

}  // namespace

FractionalMaxPoolBase::FractionalMaxPoolBase(const char* class_name, int dims, Options given)
    : UnaryLayer(class_name), options(std::move(given)), dims_(dims) {
  if (options.output_size.has_value() == options.output_ratio.has_value()) {
    Throw(ErrorCode::kValue, "{}: needs either output_size or output_ratio", class_name);
  }
  if (options.output_ratio && options.output_ratio->size() == 1) {
    options.output_ratio->resize(static_cast<size_t>(dims), options.output_ratio->front());
  }
  if (options.output_ratio && options.output_ratio->size() != static_cast<size_t>(dims)) {
    Throw(ErrorCode::kValue, "{}: output_ratio has {} numbers, expected {}", class_name,
          options.output_ratio->size(), dims);
  }
}

int64_t FractionalMaxPoolBase::OutputSize(int dim, int64_t input_size) const {
  if (options.output_size) return options.output_size->at(dim);
  double ratio = (*options.output_ratio)[dim];
  return static_cast<int64_t>(static_cast<double>(input_size) * ratio);
}

Tensor FractionalMaxPoolBase::Run(const Tensor& input) {
  if (input.dim() == dims_ + 1) return squeeze(Run(unsqueeze(input, 0)), 0);
  if (input.dim() != dims_ + 2) {
    Throw(ErrorCode::kShapeMismatch, "{}: the input is {}, expected {} dims", class_name(),
          input.shape().to_string(), dims_ + 2);
  }
  Tensor samples = options.random_samples
                       ? *options.random_samples
                       : rand({input.size(0), input.size(1), dims_}, DType::kF64, input.device());
  Tensor x = input;
  for (int dim = 0; dim < dims_; ++dim) {
    int64_t kernel = options.kernel_size.at(dim), output = OutputSize(dim, input.size(dim + 2));
    if (output < 1 || output + kernel - 1 > input.size(dim + 2)) {
      Throw(ErrorCode::kShapeMismatch, "{}: {} windows of {} do not fit into {}", class_name(),
            output, kernel, input.shape().to_string());
    }
    // PyTorch's samples of images are in the order (width, height).
    int sample = dims_ == 2 ? 1 - dim : dim;
    x = PooledAlong(dim + 2, x, select(samples, -1, sample), output, kernel);
  }
  return x;
}

std::string FractionalMaxPoolBase::extra_repr() const {
  return "kernel_size=" + ToString(options.kernel_size.dims());
}

}  // namespace hammock::nn
