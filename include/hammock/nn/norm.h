#pragma once
/// Normalisation.

#include <optional>

#include "hammock/nn/layer.h"
#include "hammock/nn/sizes.h"

namespace hammock::nn {

struct BatchNormOptions {
  int64_t num_features;
  double eps = 1e-5;
  std::optional<double> momentum = 0.1;  ///< none: an average over all batches so far
  bool affine = true, track_running_stats = true;
};

/// Of batches, or of each instance by itself.
class HAMMOCK_API BatchNormBase : public UnaryLayer {
 public:
  using Options = BatchNormOptions;
  std::string extra_repr() const override;
  void reset_running_stats();

  Options options;
  Parameter weight, bias;                                 ///< undefined unless affine
  Buffer running_mean, running_var, num_batches_tracked;  ///< undefined unless tracked

 protected:
  Tensor Run(const Tensor& input) override;
  BatchNormBase(const char* class_name, int dims, bool instance, Options options);

 private:
  void CheckInput(const Tensor& input) const;

  int dims_;  // spatial ones
  bool instance_;
};

template <int dims>
class BatchNormImpl : public BatchNormBase {
 public:
  explicit BatchNormImpl(const Options& options)
      : BatchNormBase(dims == 1   ? "BatchNorm1d"
                      : dims == 2 ? "BatchNorm2d"
                                  : "BatchNorm3d",
                      dims, false, options) {}
  explicit BatchNormImpl(int64_t num_features) : BatchNormImpl(Options{num_features}) {}
};
template <int dims>
class InstanceNormImpl : public BatchNormBase {
 public:
  explicit InstanceNormImpl(const Options& options)
      : BatchNormBase(dims == 1   ? "InstanceNorm1d"
                      : dims == 2 ? "InstanceNorm2d"
                                  : "InstanceNorm3d",
                      dims, true, options) {}
  /// Neither affine nor tracked, as in PyTorch.
  explicit InstanceNormImpl(int64_t num_features)
      : InstanceNormImpl(
            Options{.num_features = num_features, .affine = false, .track_running_stats = false}) {}
};

struct LayerNormOptions {
  Sizes normalized_shape;
  double eps = 1e-5;
  bool elementwise_affine = true;
};
class HAMMOCK_API LayerNormImpl : public UnaryLayer {
 public:
  using Options = LayerNormOptions;
  explicit LayerNormImpl(const Options& options);
  explicit LayerNormImpl(const Sizes& normalized_shape)
      : LayerNormImpl(Options{normalized_shape}) {}
  std::string extra_repr() const override;

  Options options;
  Parameter weight, bias;

 protected:
  Tensor Run(const Tensor& input) override;
};

struct RMSNormOptions {
  Sizes normalized_shape;
  std::optional<double> eps = std::nullopt;
  bool elementwise_affine = true;
};
class HAMMOCK_API RMSNormImpl : public UnaryLayer {
 public:
  using Options = RMSNormOptions;
  explicit RMSNormImpl(const Options& options);
  explicit RMSNormImpl(const Sizes& normalized_shape) : RMSNormImpl(Options{normalized_shape}) {}
  std::string extra_repr() const override;

  Options options;
  Parameter weight;

 protected:
  Tensor Run(const Tensor& input) override;
};

struct GroupNormOptions {
  int64_t num_groups, num_channels;
  double eps = 1e-5;
  bool affine = true;
};
class HAMMOCK_API GroupNormImpl : public UnaryLayer {
 public:
  using Options = GroupNormOptions;
  explicit GroupNormImpl(const Options& options);
  GroupNormImpl(int64_t num_groups, int64_t num_channels)
      : GroupNormImpl(Options{num_groups, num_channels}) {}
  std::string extra_repr() const override;

  Options options;
  Parameter weight, bias;

 protected:
  Tensor Run(const Tensor& input) override;
};

/// Divided by a power of the mean square of neighbouring channels.
class HAMMOCK_API LocalResponseNormImpl : public UnaryLayer {
 public:
  explicit LocalResponseNormImpl(int64_t size, double alpha = 1e-4, double beta = 0.75,
                                 double k = 1);
  std::string extra_repr() const override;

  int64_t size;
  double alpha, beta, k;

 protected:
  Tensor Run(const Tensor& input) override;
};

using BatchNorm1d = Layer<BatchNormImpl<1>>;
using BatchNorm2d = Layer<BatchNormImpl<2>>;
using BatchNorm3d = Layer<BatchNormImpl<3>>;
using InstanceNorm1d = Layer<InstanceNormImpl<1>>;
using InstanceNorm2d = Layer<InstanceNormImpl<2>>;
using InstanceNorm3d = Layer<InstanceNormImpl<3>>;
using LayerNorm = Layer<LayerNormImpl>;
using RMSNorm = Layer<RMSNormImpl>;
using GroupNorm = Layer<GroupNormImpl>;
using LocalResponseNorm = Layer<LocalResponseNormImpl>;

}  // namespace hammock::nn
