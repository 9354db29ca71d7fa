#include "hammock/nn/pooling.h"

#include "base/throw.h"
#include "hammock/ops.h"
#include "nn/call_forward.h"

namespace hammock::nn {

// ---- Norms

namespace {

Function LPPool(const char* name, int dims, const LPPoolOptions& o, const Location& at) {
  LocationScope scope(at);
  if (o.norm_type == 0)
    Throw(ErrorCode::kValue, "{}: norm_type is 0, expected another number", name);
  Dims kernel = o.kernel_size.Expanded(dims, "kernel_size");
  Dims stride = o.stride ? o.stride->dims() : Dims();
  auto pooled = [=](const Tensor& x) {
    static constexpr decltype(&lp_pool1d) kPool[] = {lp_pool1d, lp_pool2d, lp_pool3d};
    return kPool[dims - 1](x, o.norm_type, kernel, stride, o.ceil_mode, Location::current());
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

Tensor FractionalMaxPoolBase::Run(const Tensor& input) {
  FractionalWindows windows{.random_samples = options.random_samples};
  if (options.output_size) windows.output_size = options.output_size->dims();
  if (options.output_ratio) windows.output_ratio = *options.output_ratio;
  auto pool = dims_ == 2 ? fractional_max_pool2d : fractional_max_pool3d;
  return pool(input, options.kernel_size.dims(), windows, Location::current());
}

std::string FractionalMaxPoolBase::extra_repr() const {
  return "kernel_size=" + ToString(options.kernel_size.dims());
}

}  // namespace hammock::nn
