#include "hammock/nn/norm.h"

#include "base/throw.h"
#include "hammock/autograd.h"
#include "hammock/ops.h"
#include "nn/given.h"

namespace hammock::nn {

BatchNormBase::BatchNormBase(const char* class_name, int dims, bool instance, Options given)
    : UnaryLayer(class_name), options(given), dims_(dims), instance_(instance) {
  Dims sizes = {options.num_features};
  if (options.affine) {
    weight = register_parameter("weight", ones(sizes));
    bias = register_parameter("bias", zeros(sizes));
  }
  if (options.track_running_stats) {
    running_mean = register_buffer("running_mean", zeros(sizes));
    running_var = register_buffer("running_var", ones(sizes));
    num_batches_tracked = register_buffer("num_batches_tracked", zeros({}, DType::kI64));
  }
}

void BatchNormBase::reset_running_stats() {
  if (!options.track_running_stats) return;
  NoGradGuard no_grad;
  running_mean.zero_();
  running_var.fill_(1.0);
  num_batches_tracked.zero_();
}

void BatchNormBase::CheckInput(const Tensor& input) const {
  // BatchNorm1d takes batches of features, too; InstanceNorm takes single instances.
  int full = dims_ + 2;
  bool fits = input.dim() == full || (!instance_ && dims_ == 1 && input.dim() == 2) ||
              (instance_ && input.dim() == full - 1);
  if (!fits) {
    Throw(ErrorCode::kShapeMismatch, "{}: the input is {}, expected {} dims", class_name(),
          input.shape().to_string(), full);
  }
}

namespace {

/// The running statistics become the average over all batches. The share of this one stays a
/// tensor: to read the count would wait for the steps before.
Tensor RunAveraging(BatchNormBase& layer, const Tensor& input) {
  Tensor mean = layer.running_mean.clone(), var = layer.running_var.clone();
  Tensor result = batch_norm(input, mean, var, Given(layer.weight), Given(layer.bias), true, 1,
                             layer.options.eps);  // they are those of the batch
  NoGradGuard no_grad;
  Tensor share = reciprocal(layer.num_batches_tracked.to(mean.dtype()));
  layer.running_mean.add_((mean - layer.running_mean) * share);
  layer.running_var.add_((var - layer.running_var) * share);
  return result;
}

}  // namespace

Tensor BatchNormBase::Run(const Tensor& input) {
  CheckInput(input);
  bool batch_statistics = is_training() || !options.track_running_stats;
  double momentum = options.momentum.value_or(0);
  if (is_training() && options.track_running_stats && !instance_) {
    {
      NoGradGuard no_grad;
      num_batches_tracked.add_(1);
    }
    if (!options.momentum) return RunAveraging(*this, input);
  }
  if (instance_) {
    Tensor batch = input.dim() == dims_ + 2 ? input : unsqueeze(input, 0);
    Tensor result = instance_norm(batch, Given(running_mean), Given(running_var), Given(weight),
                                  Given(bias), batch_statistics, momentum, options.eps);
    return input.dim() == dims_ + 2 ? result : squeeze(result, 0);
  }
  return batch_norm(input, Given(running_mean), Given(running_var), Given(weight), Given(bias),
                    batch_statistics, momentum, options.eps);
}

std::string BatchNormBase::extra_repr() const {
  return fmt::format("{}, eps={}, momentum={}, affine={}, track_running_stats={}",
                     options.num_features, options.eps,
                     options.momentum ? fmt::format("{}", *options.momentum) : "none",
                     options.affine, options.track_running_stats);
}

LayerNormImpl::LayerNormImpl(const Options& given) : UnaryLayer("LayerNorm"), options(given) {
  if (!options.elementwise_affine) return;
  weight = register_parameter("weight", ones(options.normalized_shape.dims()));
  bias = register_parameter("bias", zeros(options.normalized_shape.dims()));
}

Tensor LayerNormImpl::Run(const Tensor& input) {
  return layer_norm(input, options.normalized_shape.dims(), Given(weight), Given(bias),
                    options.eps);
}

std::string LayerNormImpl::extra_repr() const {
  return fmt::format("{}, eps={}, elementwise_affine={}", ToString(options.normalized_shape.dims()),
                     options.eps, options.elementwise_affine);
}

RMSNormImpl::RMSNormImpl(const Options& given) : UnaryLayer("RMSNorm"), options(given) {
  if (!options.elementwise_affine) return;
  weight = register_parameter("weight", ones(options.normalized_shape.dims()));
}

Tensor RMSNormImpl::Run(const Tensor& input) {
  return rms_norm(input, options.normalized_shape.dims(), Given(weight), options.eps);
}

std::string RMSNormImpl::extra_repr() const {
  return fmt::format("{}, eps={}, elementwise_affine={}", ToString(options.normalized_shape.dims()),
                     options.eps ? fmt::format("{}", *options.eps) : "none",
                     options.elementwise_affine);
}

GroupNormImpl::GroupNormImpl(const Options& given) : UnaryLayer("GroupNorm"), options(given) {
  if (options.num_groups < 1 || options.num_channels % options.num_groups != 0) {
    Throw(ErrorCode::kValue, "GroupNorm: {} channels cannot be parted into {} groups",
          options.num_channels, options.num_groups);
  }
  if (!options.affine) return;
  weight = register_parameter("weight", ones({options.num_channels}));
  bias = register_parameter("bias", zeros({options.num_channels}));
}

Tensor GroupNormImpl::Run(const Tensor& input) {
  return group_norm(input, options.num_groups, Given(weight), Given(bias), options.eps);
}

std::string GroupNormImpl::extra_repr() const {
  return fmt::format("{}, {}, eps={}, affine={}", options.num_groups, options.num_channels,
                     options.eps, options.affine);
}

LocalResponseNormImpl::LocalResponseNormImpl(int64_t neighbours, double factor, double power,
                                             double offset)
    : UnaryLayer("LocalResponseNorm"), size(neighbours), alpha(factor), beta(power), k(offset) {}

Tensor LocalResponseNormImpl::Run(const Tensor& input) {
  return local_response_norm(input, size, alpha, beta, k);
}

std::string LocalResponseNormImpl::extra_repr() const {
  return fmt::format("{}, alpha={}, beta={}, k={}", size, alpha, beta, k);
}

}  // namespace hammock::nn
