#pragma once
/// Pooling that is more than one function of one tensor; the common kinds are in activation.h.

#include <optional>
#include <string>
#include <vector>

#include "hammock/nn/activation.h"
#include "hammock/nn/layer.h"
#include "hammock/nn/sizes.h"

namespace hammock::nn {

struct LPPoolOptions {
  double norm_type;
  Sizes kernel_size;
  std::optional<Sizes> stride = std::nullopt;  ///< the kernel size if not given
  bool ceil_mode = false;
};
/// The norm of each window.
HAMMOCK_API Function LPPool1d(const LPPoolOptions& options, Location at = Location::current());
HAMMOCK_API Function LPPool2d(const LPPoolOptions& options, Location at = Location::current());
HAMMOCK_API Function LPPool3d(const LPPoolOptions& options, Location at = Location::current());

struct MaxUnpoolOptions {
  Sizes kernel_size;
  std::optional<Sizes> stride = std::nullopt;
  Sizes padding = 0;
};
/// Puts what `max_pool?d_with_indices` found back where it was, between zeros.
class HAMMOCK_API MaxUnpoolBase : public Module {
 public:
  using Options = MaxUnpoolOptions;
  Tensor forward(const TensorAt& input, const Tensor& indices,
                 const std::optional<std::vector<int64_t>>& output_size = std::nullopt);
  std::string extra_repr() const override;
  Options options;

 protected:
  MaxUnpoolBase(const char* class_name, int dims, Options options);

 private:
  int dims_;
};
template <int dims>
class MaxUnpoolImpl : public MaxUnpoolBase {
 public:
  explicit MaxUnpoolImpl(const Options& options)
      : MaxUnpoolBase(dims == 1   ? "MaxUnpool1d"
                      : dims == 2 ? "MaxUnpool2d"
                                  : "MaxUnpool3d",
                      dims, options) {}
  explicit MaxUnpoolImpl(int64_t kernel_size) : MaxUnpoolImpl(Options{kernel_size}) {}
};
using MaxUnpool1d = Layer<MaxUnpoolImpl<1>>;
using MaxUnpool2d = Layer<MaxUnpoolImpl<2>>;
using MaxUnpool3d = Layer<MaxUnpoolImpl<3>>;

struct FractionalMaxPoolOptions {
  Sizes kernel_size;
  /// One of both.
  std::optional<Sizes> output_size = std::nullopt;
  std::optional<std::vector<double>> output_ratio = std::nullopt;
  /// (batch, channel, dims) in [0, 1), instead of new ones at each call.
  std::optional<Tensor> random_samples = std::nullopt;
};
/// Max pooling of windows that lie at random distances, to a given size.
class HAMMOCK_API FractionalMaxPoolBase : public UnaryLayer {
 public:
  using Options = FractionalMaxPoolOptions;
  std::string extra_repr() const override;
  Options options;

 protected:
  Tensor Run(const Tensor& input) override;
  FractionalMaxPoolBase(const char* class_name, int dims, Options options);

 private:
  int dims_;
};
template <int dims>
class FractionalMaxPoolImpl : public FractionalMaxPoolBase {
 public:
  explicit FractionalMaxPoolImpl(const Options& options)
      : FractionalMaxPoolBase(dims == 2 ? "FractionalMaxPool2d" : "FractionalMaxPool3d", dims,
                              options) {}
};
using FractionalMaxPool2d = Layer<FractionalMaxPoolImpl<2>>;
using FractionalMaxPool3d = Layer<FractionalMaxPoolImpl<3>>;

}  // namespace hammock::nn
