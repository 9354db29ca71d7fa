#pragma once
/// Activations, pooling, padding and resizing: layers without parameters (but PReLU).

#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "hammock/nn/layer.h"
#include "hammock/nn/sizes.h"

namespace hammock::nn {

/// A layer that is a function; `text` are its arguments, for people.
class HAMMOCK_API FunctionImpl : public UnaryLayer {
 public:
  FunctionImpl(std::string class_name, std::function<Tensor(const Tensor&)> function,
               std::string text = "");
  std::string extra_repr() const override { return text_; }

 protected:
  Tensor Run(const Tensor& input) override { return function_(input); }

 private:
  std::function<Tensor(const Tensor&)> function_;
  std::string text_;
};
using Function = Layer<FunctionImpl>;

// ---- Activations. Each makes a layer: `nn::ReLU()`, `nn::LeakyReLU(0.2)`.
HAMMOCK_API Function ReLU();
HAMMOCK_API Function ReLU6();
HAMMOCK_API Function GELU(const std::string& approximate = "none");
HAMMOCK_API Function SiLU();
HAMMOCK_API Function Mish();
HAMMOCK_API Function SELU();
HAMMOCK_API Function Hardswish();
HAMMOCK_API Function Hardsigmoid();
HAMMOCK_API Function LogSigmoid();
HAMMOCK_API Function Sigmoid();
HAMMOCK_API Function Softsign();
HAMMOCK_API Function Tanh();
HAMMOCK_API Function Tanhshrink();
HAMMOCK_API Function ELU(double alpha = 1);
HAMMOCK_API Function CELU(double alpha = 1);
HAMMOCK_API Function Softplus(double beta = 1, double threshold = 20);
HAMMOCK_API Function LeakyReLU(double negative_slope = 0.01);
HAMMOCK_API Function Hardtanh(double min_val = -1, double max_val = 1);
HAMMOCK_API Function Threshold(double threshold, double value);
HAMMOCK_API Function Softshrink(double lambd = 0.5);
HAMMOCK_API Function Hardshrink(double lambd = 0.5);
HAMMOCK_API Function GLU(int64_t dim = -1);
HAMMOCK_API Function Softmax(int64_t dim);
HAMMOCK_API Function Softmin(int64_t dim);
HAMMOCK_API Function LogSoftmax(int64_t dim);
HAMMOCK_API Function Softmax2d();

class HAMMOCK_API PReLUImpl : public UnaryLayer {
 public:
  explicit PReLUImpl(int64_t num_parameters = 1, double init = 0.25);
  std::string extra_repr() const override;
  int64_t num_parameters;
  Parameter weight;

 protected:
  Tensor Run(const Tensor& input) override;
};
using PReLU = Layer<PReLUImpl>;

/// Draws its slope while training.
class HAMMOCK_API RReLUImpl : public UnaryLayer {
 public:
  explicit RReLUImpl(double lower = 1.0 / 8, double upper = 1.0 / 3);
  std::string extra_repr() const override;
  double lower, upper;

 protected:
  Tensor Run(const Tensor& input) override;
};
using RReLU = Layer<RReLUImpl>;

// ---- Pooling
struct MaxPoolOptions {
  Sizes kernel_size;
  std::optional<Sizes> stride = std::nullopt;  ///< the kernel size if not given
  Sizes padding = 0, dilation = 1;
  bool ceil_mode = false;
};
struct AvgPoolOptions {
  Sizes kernel_size;
  std::optional<Sizes> stride = std::nullopt;
  Sizes padding = 0;
  bool ceil_mode = false, count_include_pad = true;
  std::optional<int64_t> divisor_override = std::nullopt;
};
HAMMOCK_API Function MaxPool1d(const MaxPoolOptions& options);
HAMMOCK_API Function MaxPool2d(const MaxPoolOptions& options);
HAMMOCK_API Function MaxPool3d(const MaxPoolOptions& options);
HAMMOCK_API Function AvgPool1d(const AvgPoolOptions& options);
HAMMOCK_API Function AvgPool2d(const AvgPoolOptions& options);
HAMMOCK_API Function AvgPool3d(const AvgPoolOptions& options);
#define HAMMOCK_POOL(name, options)                                                         \
  template <std::integral T>                                                                \
  Function name(T kernel_size, std::optional<Sizes> stride = std::nullopt,                  \
                const Sizes& padding = 0) {                                                 \
    return name(options{.kernel_size = kernel_size, .stride = stride, .padding = padding}); \
  }                                                                                         \
  template <std::integral T>                                                                \
  Function name(std::initializer_list<T> kernel_size) {                                     \
    Dims sizes(std::vector<int64_t>(kernel_size.begin(), kernel_size.end()));               \
    return name(options{.kernel_size = sizes});                                             \
  }
HAMMOCK_POOL(MaxPool1d, MaxPoolOptions)
HAMMOCK_POOL(MaxPool2d, MaxPoolOptions)
HAMMOCK_POOL(MaxPool3d, MaxPoolOptions)
HAMMOCK_POOL(AvgPool1d, AvgPoolOptions)
HAMMOCK_POOL(AvgPool2d, AvgPoolOptions)
HAMMOCK_POOL(AvgPool3d, AvgPoolOptions)
#undef HAMMOCK_POOL
// A size of -1 keeps that of the input.
HAMMOCK_API Function AdaptiveMaxPool1d(const Sizes& output_size, Location at = Location::current());
HAMMOCK_API Function AdaptiveMaxPool2d(const Sizes& output_size, Location at = Location::current());
HAMMOCK_API Function AdaptiveMaxPool3d(const Sizes& output_size, Location at = Location::current());
HAMMOCK_API Function AdaptiveAvgPool1d(const Sizes& output_size, Location at = Location::current());
HAMMOCK_API Function AdaptiveAvgPool2d(const Sizes& output_size, Location at = Location::current());
HAMMOCK_API Function AdaptiveAvgPool3d(const Sizes& output_size, Location at = Location::current());

// ---- Padding: one number for all sides, or (left, right[, top, bottom[, front, back]])
HAMMOCK_API Function ConstantPad1d(const Sizes& padding, double value,
                                   Location at = Location::current());
HAMMOCK_API Function ConstantPad2d(const Sizes& padding, double value,
                                   Location at = Location::current());
HAMMOCK_API Function ConstantPad3d(const Sizes& padding, double value,
                                   Location at = Location::current());
HAMMOCK_API Function ZeroPad1d(const Sizes& padding, Location at = Location::current());
HAMMOCK_API Function ZeroPad2d(const Sizes& padding, Location at = Location::current());
HAMMOCK_API Function ZeroPad3d(const Sizes& padding, Location at = Location::current());
HAMMOCK_API Function CircularPad1d(const Sizes& padding, Location at = Location::current());
HAMMOCK_API Function CircularPad2d(const Sizes& padding, Location at = Location::current());
HAMMOCK_API Function CircularPad3d(const Sizes& padding, Location at = Location::current());
HAMMOCK_API Function ReflectionPad1d(const Sizes& padding, Location at = Location::current());
HAMMOCK_API Function ReflectionPad2d(const Sizes& padding, Location at = Location::current());
HAMMOCK_API Function ReflectionPad3d(const Sizes& padding, Location at = Location::current());
HAMMOCK_API Function ReplicationPad1d(const Sizes& padding, Location at = Location::current());
HAMMOCK_API Function ReplicationPad2d(const Sizes& padding, Location at = Location::current());
HAMMOCK_API Function ReplicationPad3d(const Sizes& padding, Location at = Location::current());

// ---- Resizing
struct UpsampleOptions {
  std::optional<Dims> size = std::nullopt;
  std::optional<std::vector<double>> scale_factor = std::nullopt;
  std::string mode = "nearest";
  std::optional<bool> align_corners = std::nullopt;
};
HAMMOCK_API Function Upsample(const UpsampleOptions& options);
/// To the size, or by the factor, that is given; the first resizes as "nearest", the second as
/// "bilinear" with aligned corners.
HAMMOCK_API Function UpsamplingNearest2d(const UpsampleOptions& options);
HAMMOCK_API Function UpsamplingBilinear2d(const UpsampleOptions& options);
HAMMOCK_API Function PixelShuffle(int64_t upscale_factor);
HAMMOCK_API Function PixelUnshuffle(int64_t downscale_factor);
/// Channels of `groups` groups in turn.
HAMMOCK_API Function ChannelShuffle(int64_t groups);

// ---- Shapes
HAMMOCK_API Function Unflatten(int64_t dim, const Dims& unflattened_size);
struct WindowOptions {
  Sizes kernel_size;
  Sizes dilation = 1, padding = 0, stride = 1;
};
/// Windows of images as columns, and their sums where they overlap.
HAMMOCK_API Function Unfold(const WindowOptions& options);
HAMMOCK_API Function Fold(const Sizes& output_size, const WindowOptions& options,
                          Location at = Location::current());

}  // namespace hammock::nn
