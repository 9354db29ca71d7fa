#include "hammock/nn/activation.h"

#include <array>

#include "base/throw.h"
#include "hammock/ops.h"

namespace hammock::nn {

FunctionImpl::FunctionImpl(std::string class_name, std::function<Tensor(const Tensor&)> function,
                           std::string text)
    : UnaryLayer(std::move(class_name)), function_(std::move(function)), text_(std::move(text)) {}

// ---- Activations

Function ReLU() {
  return Function("ReLU", [](const Tensor& x) { return relu(x); });
}
Function ReLU6() {
  return Function("ReLU6", [](const Tensor& x) { return relu6(x); });
}
Function GELU(const std::string& approximate) {
  return Function(
      "GELU", [=](const Tensor& x) { return gelu(x, approximate); }, "approximate=" + approximate);
}
Function SiLU() {
  return Function("SiLU", [](const Tensor& x) { return silu(x); });
}
Function Mish() {
  return Function("Mish", [](const Tensor& x) { return mish(x); });
}
Function SELU() {
  return Function("SELU", [](const Tensor& x) { return selu(x); });
}
Function Hardswish() {
  return Function("Hardswish", [](const Tensor& x) { return hardswish(x); });
}
Function Hardsigmoid() {
  return Function("Hardsigmoid", [](const Tensor& x) { return hardsigmoid(x); });
}
Function LogSigmoid() {
  return Function("LogSigmoid", [](const Tensor& x) { return logsigmoid(x); });
}
Function Sigmoid() {
  return Function("Sigmoid", [](const Tensor& x) { return sigmoid(x); });
}
Function Softsign() {
  return Function("Softsign", [](const Tensor& x) { return softsign(x); });
}
Function Tanh() {
  return Function("Tanh", [](const Tensor& x) { return tanh(x); });
}
Function Tanhshrink() {
  return Function("Tanhshrink", [](const Tensor& x) { return tanhshrink(x); });
}
Function ELU(double alpha) {
  return Function(
      "ELU", [=](const Tensor& x) { return elu(x, alpha); }, fmt::format("alpha={}", alpha));
}
Function CELU(double alpha) {
  return Function(
      "CELU", [=](const Tensor& x) { return celu(x, alpha); }, fmt::format("alpha={}", alpha));
}
Function Softplus(double beta, double threshold) {
  return Function(
      "Softplus", [=](const Tensor& x) { return softplus(x, beta, threshold); },
      fmt::format("beta={}, threshold={}", beta, threshold));
}
Function LeakyReLU(double negative_slope) {
  return Function(
      "LeakyReLU", [=](const Tensor& x) { return leaky_relu(x, negative_slope); },
      fmt::format("negative_slope={}", negative_slope));
}
Function Hardtanh(double min_val, double max_val) {
  return Function(
      "Hardtanh", [=](const Tensor& x) { return hardtanh(x, min_val, max_val); },
      fmt::format("min_val={}, max_val={}", min_val, max_val));
}
Function Threshold(double limit, double value) {
  return Function(
      "Threshold", [=](const Tensor& x) { return threshold(x, limit, value); },
      fmt::format("threshold={}, value={}", limit, value));
}
Function Softshrink(double lambd) {
  return Function(
      "Softshrink", [=](const Tensor& x) { return softshrink(x, lambd); },
      fmt::format("lambd={}", lambd));
}
Function Hardshrink(double lambd) {
  return Function(
      "Hardshrink", [=](const Tensor& x) { return hardshrink(x, lambd); },
      fmt::format("lambd={}", lambd));
}
Function GLU(int64_t dim) {
  return Function(
      "GLU", [=](const Tensor& x) { return glu(x, dim); }, fmt::format("dim={}", dim));
}
Function Softmax(int64_t dim) {
  return Function(
      "Softmax", [=](const Tensor& x) { return softmax(x, dim); }, fmt::format("dim={}", dim));
}
Function Softmin(int64_t dim) {
  return Function(
      "Softmin", [=](const Tensor& x) { return softmin(x, dim); }, fmt::format("dim={}", dim));
}
Function LogSoftmax(int64_t dim) {
  return Function(
      "LogSoftmax", [=](const Tensor& x) { return log_softmax(x, dim); },
      fmt::format("dim={}", dim));
}
Function Softmax2d() {
  return Function("Softmax2d", [](const Tensor& x) { return softmax(x, -3); });
}

PReLUImpl::PReLUImpl(int64_t slopes, double init) : UnaryLayer("PReLU"), num_parameters(slopes) {
  weight = register_parameter("weight", full({num_parameters}, init));
}
Tensor PReLUImpl::Run(const Tensor& input) { return prelu(input, weight); }
std::string PReLUImpl::extra_repr() const {
  return fmt::format("num_parameters={}", num_parameters);
}

RReLUImpl::RReLUImpl(double low, double high) : UnaryLayer("RReLU"), lower(low), upper(high) {}
Tensor RReLUImpl::Run(const Tensor& input) { return rrelu(input, lower, upper, is_training()); }
std::string RReLUImpl::extra_repr() const {
  return fmt::format("lower={}, upper={}", lower, upper);
}

// ---- Pooling

namespace {

std::string PoolText(const Sizes& kernel, const Dims& stride, const Sizes& padding) {
  return fmt::format("kernel_size={}, stride={}, padding={}", ToString(kernel.dims()),
                     stride.empty() ? "kernel_size" : ToString(stride), ToString(padding.dims()));
}

using MaxPoolOp = Tensor (*)(const Tensor&, const Dims&, const Dims&, const Dims&, const Dims&,
                             bool, Location);
Function MaxPool(const char* name, MaxPoolOp op, const MaxPoolOptions& o) {
  Dims stride = o.stride ? o.stride->dims() : Dims();
  return Function(
      name,
      [=](const Tensor& x) {
        return op(x, o.kernel_size.dims(), stride, o.padding.dims(), o.dilation.dims(), o.ceil_mode,
                  Location::current());
      },
      PoolText(o.kernel_size, stride, o.padding));
}

using AvgPoolOp = Tensor (*)(const Tensor&, const Dims&, const Dims&, const Dims&, bool, bool,
                             std::optional<int64_t>, Location);
Function AvgPool(const char* name, AvgPoolOp op, const AvgPoolOptions& o) {
  Dims stride = o.stride ? o.stride->dims() : Dims();
  return Function(
      name,
      [=](const Tensor& x) {
        return op(x, o.kernel_size.dims(), stride, o.padding.dims(), o.ceil_mode,
                  o.count_include_pad, o.divisor_override, Location::current());
      },
      PoolText(o.kernel_size, stride, o.padding));
}

using AdaptiveOp = Tensor (*)(const Tensor&, const Dims&, Location);
Function Adaptive(const Location& at, const char* name, AdaptiveOp op, int dims,
                  const Sizes& output_size) {
  LocationScope scope(at);
  Dims sizes = output_size.Expanded(dims, name);
  return Function(
      name, [=](const Tensor& x) { return op(x, sizes, Location::current()); },
      "output_size=" + ToString(sizes));
}

Function Pad(const Location& at, const char* name, int dims, const Sizes& padding, const char* mode,
             double value = 0) {
  LocationScope scope(at);
  Dims pads = padding.Expanded(2 * dims, name);
  return Function(
      name, [=](const Tensor& x) { return pad(x, pads.vec(), mode, value); },
      "padding=" + ToString(pads));
}

}  // namespace

Function MaxPool1d(const MaxPoolOptions& o) { return MaxPool("MaxPool1d", max_pool1d, o); }
Function MaxPool2d(const MaxPoolOptions& o) { return MaxPool("MaxPool2d", max_pool2d, o); }
Function MaxPool3d(const MaxPoolOptions& o) { return MaxPool("MaxPool3d", max_pool3d, o); }
Function AvgPool1d(const AvgPoolOptions& o) { return AvgPool("AvgPool1d", avg_pool1d, o); }
Function AvgPool2d(const AvgPoolOptions& o) { return AvgPool("AvgPool2d", avg_pool2d, o); }
Function AvgPool3d(const AvgPoolOptions& o) { return AvgPool("AvgPool3d", avg_pool3d, o); }
Function AdaptiveMaxPool1d(const Sizes& sizes, Location at) {
  return Adaptive(at, "AdaptiveMaxPool1d", adaptive_max_pool1d, 1, sizes);
}
Function AdaptiveMaxPool2d(const Sizes& sizes, Location at) {
  return Adaptive(at, "AdaptiveMaxPool2d", adaptive_max_pool2d, 2, sizes);
}
Function AdaptiveMaxPool3d(const Sizes& sizes, Location at) {
  return Adaptive(at, "AdaptiveMaxPool3d", adaptive_max_pool3d, 3, sizes);
}
Function AdaptiveAvgPool1d(const Sizes& sizes, Location at) {
  return Adaptive(at, "AdaptiveAvgPool1d", adaptive_avg_pool1d, 1, sizes);
}
Function AdaptiveAvgPool2d(const Sizes& sizes, Location at) {
  return Adaptive(at, "AdaptiveAvgPool2d", adaptive_avg_pool2d, 2, sizes);
}
Function AdaptiveAvgPool3d(const Sizes& sizes, Location at) {
  return Adaptive(at, "AdaptiveAvgPool3d", adaptive_avg_pool3d, 3, sizes);
}

// ---- Padding

Function ConstantPad1d(const Sizes& padding, double value, Location at) {
  return Pad(at, "ConstantPad1d", 1, padding, "constant", value);
}
Function ConstantPad2d(const Sizes& padding, double value, Location at) {
  return Pad(at, "ConstantPad2d", 2, padding, "constant", value);
}
Function ConstantPad3d(const Sizes& padding, double value, Location at) {
  return Pad(at, "ConstantPad3d", 3, padding, "constant", value);
}
Function ZeroPad1d(const Sizes& padding, Location at) {
  return Pad(at, "ZeroPad1d", 1, padding, "constant");
}
Function ZeroPad2d(const Sizes& padding, Location at) {
  return Pad(at, "ZeroPad2d", 2, padding, "constant");
}
Function ZeroPad3d(const Sizes& padding, Location at) {
  return Pad(at, "ZeroPad3d", 3, padding, "constant");
}
Function CircularPad1d(const Sizes& padding, Location at) {
  return Pad(at, "CircularPad1d", 1, padding, "circular");
}
Function CircularPad2d(const Sizes& padding, Location at) {
  return Pad(at, "CircularPad2d", 2, padding, "circular");
}
Function CircularPad3d(const Sizes& padding, Location at) {
  return Pad(at, "CircularPad3d", 3, padding, "circular");
}
Function ReflectionPad1d(const Sizes& padding, Location at) {
  return Pad(at, "ReflectionPad1d", 1, padding, "reflect");
}
Function ReflectionPad2d(const Sizes& padding, Location at) {
  return Pad(at, "ReflectionPad2d", 2, padding, "reflect");
}
Function ReflectionPad3d(const Sizes& padding, Location at) {
  return Pad(at, "ReflectionPad3d", 3, padding, "reflect");
}
Function ReplicationPad1d(const Sizes& padding, Location at) {
  return Pad(at, "ReplicationPad1d", 1, padding, "replicate");
}
Function ReplicationPad2d(const Sizes& padding, Location at) {
  return Pad(at, "ReplicationPad2d", 2, padding, "replicate");
}
Function ReplicationPad3d(const Sizes& padding, Location at) {
  return Pad(at, "ReplicationPad3d", 3, padding, "replicate");
}

// ---- Resizing

namespace {

Function Resize(const char* name, const UpsampleOptions& o) {
  return Function(
      name,
      [=](const Tensor& x) {
        return interpolate(x, o.size, o.scale_factor, o.mode, o.align_corners);
      },
      "mode=" + o.mode);
}

}  // namespace

Function Upsample(const UpsampleOptions& o) { return Resize("Upsample", o); }
Function UpsamplingNearest2d(const UpsampleOptions& o) {
  return Resize("UpsamplingNearest2d", {.size = o.size, .scale_factor = o.scale_factor});
}
Function UpsamplingBilinear2d(const UpsampleOptions& o) {
  return Resize(
      "UpsamplingBilinear2d",
      {.size = o.size, .scale_factor = o.scale_factor, .mode = "bilinear", .align_corners = true});
}
Function PixelShuffle(int64_t factor) {
  return Function(
      "PixelShuffle", [=](const Tensor& x) { return pixel_shuffle(x, factor); },
      fmt::format("upscale_factor={}", factor));
}
Function PixelUnshuffle(int64_t factor) {
  return Function(
      "PixelUnshuffle", [=](const Tensor& x) { return pixel_unshuffle(x, factor); },
      fmt::format("downscale_factor={}", factor));
}

Function ChannelShuffle(int64_t groups) {
  return Function(
      "ChannelShuffle",
      [=](const Tensor& x) {
        if (x.dim() < 3 || groups < 1 || x.size(1) % groups != 0) {
          Throw(ErrorCode::kShapeMismatch, "ChannelShuffle: the channels of {} are not {} groups",
                x.shape().to_string(), groups);
        }
        return flatten(transpose(unflatten(x, 1, {groups, x.size(1) / groups}), 1, 2), 1, 2);
      },
      fmt::format("groups={}", groups));
}

// ---- Shapes

Function Unflatten(int64_t dim, const Dims& sizes) {
  return Function(
      "Unflatten", [=](const Tensor& x) { return unflatten(x, dim, sizes); },
      fmt::format("dim={}, unflattened_size={}", dim, ToString(sizes)));
}
Function Unfold(const WindowOptions& o) {
  return Function(
      "Unfold",
      [=](const Tensor& x) {
        return im2col(x, o.kernel_size.dims(), o.dilation.dims(), o.padding.dims(),
                      o.stride.dims());
      },
      "kernel_size=" + ToString(o.kernel_size.dims()));
}
Function Fold(const Sizes& output_size, const WindowOptions& o, Location at) {
  LocationScope scope(at);
  Dims sizes = output_size.Expanded(2, "Fold: output_size");
  return Function(
      "Fold",
      [=](const Tensor& x) {
        return fold(x, sizes, o.kernel_size.dims(), o.dilation.dims(), o.padding.dims(),
                    o.stride.dims());
      },
      fmt::format("output_size={}, kernel_size={}", ToString(sizes),
                  ToString(o.kernel_size.dims())));
}

}  // namespace hammock::nn
