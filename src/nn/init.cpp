#include "hammock/nn/init.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/throw.h"
#include "hammock/autograd.h"
#include "hammock/ops.h"

namespace hammock::nn::init {
namespace {

double FanOf(const Tensor& tensor, const std::string& mode) {
  auto [in, out] = calculate_fan_in_and_fan_out(tensor);
  if (mode == "fan_in") return static_cast<double>(in);
  if (mode == "fan_out") return static_cast<double>(out);
  Throw(ErrorCode::kValue, "init: mode '{}' is not fan_in or fan_out", mode);
}

/// The standard deviation that keeps the scale of values through the layer.
double KaimingStd(const Tensor& tensor, double a, const std::string& mode,
                  const std::string& nonlinearity) {
  return calculate_gain(nonlinearity, a) / std::sqrt(FanOf(tensor, mode));
}

double XavierStd(const Tensor& tensor, double gain) {
  auto [in, out] = calculate_fan_in_and_fan_out(tensor);
  return gain * std::sqrt(2.0 / static_cast<double>(in + out));
}

Tensor Fill(Tensor& tensor, const Tensor& values) {
  NoGradGuard no_grad;
  tensor.copy_(values.to(tensor.dtype()));
  return tensor;
}

void CheckRank(const char* what, const Tensor& tensor, int rank) {
  if (tensor.dim() != rank) {
    Throw(ErrorCode::kValue, "{}: needs {} dims, got {}", what, rank, tensor.shape().to_string());
  }
}

}  // namespace

Tensor uniform_(Tensor tensor, double a, double b, Location at) {
  LocationScope scope(at);
  NoGradGuard no_grad;
  return hammock::uniform_(tensor, a, b);
}

Tensor normal_(Tensor tensor, double mean, double std, Location at) {
  LocationScope scope(at);
  NoGradGuard no_grad;
  return hammock::normal_(tensor, mean, std);
}

Tensor trunc_normal_(Tensor tensor, double mean, double std, double a, double b, Location at) {
  LocationScope scope(at);
  if (!(a < b)) Throw(ErrorCode::kValue, "trunc_normal_: a is {} and b {}, needs a < b", a, b);
  // By the inverse of the distribution function, within the part of it that [a, b] has.
  auto below = [&](double x) { return std::erfc((mean - x) / std / std::numbers::sqrt2) / 2; };
  Tensor part =
      rand(tensor.sizes(), DType::kF64, tensor.device()) * (below(b) - below(a)) + below(a);
  return Fill(tensor, clamp(erfinv(part * 2.0 - 1.0) * (std * std::numbers::sqrt2) + mean, a, b));
}

Tensor constant_(Tensor tensor, double value, Location at) {
  LocationScope scope(at);
  NoGradGuard no_grad;
  return tensor.fill_(value);
}
Tensor ones_(Tensor tensor, Location at) { return constant_(std::move(tensor), 1, at); }
Tensor zeros_(Tensor tensor, Location at) { return constant_(std::move(tensor), 0, at); }

Tensor eye_(Tensor tensor, Location at) {
  LocationScope scope(at);
  CheckRank("eye_", tensor, 2);
  return Fill(tensor, eye(tensor.size(0), tensor.size(1), DType::kF32, tensor.device()));
}

Tensor dirac_(Tensor tensor, int64_t groups, Location at) {
  LocationScope scope(at);
  if (tensor.dim() < 3 || tensor.dim() > 5 || groups < 1 || tensor.size(0) % groups != 0) {
    Throw(ErrorCode::kValue, "dirac_: needs 3 to 5 dims, the first a multiple of {} groups, got {}",
          groups, tensor.shape().to_string());
  }
  HostTensor values(tensor.shape().With(DType::kF32));
  std::fill_n(static_cast<float*>(values.mutable_data()), values.numel(), 0.0f);
  int64_t per_group = tensor.size(0) / groups;
  Dims strides = ContiguousStrides(tensor.sizes());
  int64_t centre = 0;
  for (int dim = 2; dim < tensor.dim(); ++dim) centre += tensor.size(dim) / 2 * strides[dim];
  for (int64_t group = 0; group < groups; ++group) {
    for (int64_t i = 0; i < std::min(per_group, tensor.size(1)); ++i) {
      values.set((group * per_group + i) * strides[0] + i * strides[1] + centre, Scalar(1.0));
    }
  }
  return Fill(tensor, from_host(std::move(values), tensor.device()));
}

Tensor xavier_uniform_(Tensor tensor, double gain, Location at) {
  LocationScope scope(at);
  double bound = std::sqrt(3.0) * XavierStd(tensor, gain);
  return uniform_(std::move(tensor), -bound, bound);
}

Tensor xavier_normal_(Tensor tensor, double gain, Location at) {
  LocationScope scope(at);
  double std = XavierStd(tensor, gain);
  return normal_(std::move(tensor), 0, std);
}

Tensor kaiming_uniform_(Tensor tensor, double a, const std::string& mode,
                        const std::string& nonlinearity, Location at) {
  LocationScope scope(at);
  double bound = std::sqrt(3.0) * KaimingStd(tensor, a, mode, nonlinearity);
  return uniform_(std::move(tensor), -bound, bound);
}

Tensor kaiming_normal_(Tensor tensor, double a, const std::string& mode,
                       const std::string& nonlinearity, Location at) {
  LocationScope scope(at);
  double std = KaimingStd(tensor, a, mode, nonlinearity);
  return normal_(std::move(tensor), 0, std);
}

Tensor orthogonal_(Tensor tensor, double gain, Location at) {
  LocationScope scope(at);
  if (tensor.dim() < 2) {
    Throw(ErrorCode::kValue, "orthogonal_: {} has fewer than 2 dims", tensor.shape().to_string());
  }
  if (tensor.numel() == 0) return tensor;
  int64_t rows = tensor.size(0), columns = tensor.numel() / rows;
  Tensor flat =
      randn({std::max(rows, columns), std::min(rows, columns)}, DType::kF32, tensor.device());
  auto [q, r] = linalg_qr(flat);
  Tensor signed_q = q * sign(diagonal(r));  // makes the draw even over all such matrices
  if (rows < columns) signed_q = transpose(signed_q, 0, 1);
  return Fill(tensor, reshape(signed_q * gain, tensor.sizes()));
}

Tensor sparse_(Tensor tensor, double sparsity, double std, Location at) {
  LocationScope scope(at);
  CheckRank("sparse_", tensor, 2);
  int64_t rows = tensor.size(0);
  auto zeros = static_cast<int64_t>(std::ceil(sparsity * static_cast<double>(rows)));
  Tensor order = argsort(argsort(rand(tensor.sizes(), DType::kF32, tensor.device()), 0), 0);
  Tensor values = randn(tensor.sizes(), DType::kF32, tensor.device()) * std;
  return Fill(tensor, where(order.lt(zeros), 0.0, values));
}

double calculate_gain(const std::string& nonlinearity, std::optional<double> param, Location at) {
  LocationScope scope(at);
  static constexpr const char* kOne[] = {"linear",           "conv1d",           "conv2d",
                                         "conv3d",           "conv_transpose1d", "conv_transpose2d",
                                         "conv_transpose3d", "sigmoid"};
  if (std::find(std::begin(kOne), std::end(kOne), nonlinearity) != std::end(kOne)) return 1;
  if (nonlinearity == "tanh") return 5.0 / 3;
  if (nonlinearity == "relu") return std::numbers::sqrt2;
  if (nonlinearity == "selu") return 0.75;
  if (nonlinearity == "leaky_relu") {
    double slope = param.value_or(0.01);
    return std::sqrt(2 / (1 + slope * slope));
  }
  Throw(ErrorCode::kValue, "calculate_gain: nonlinearity '{}' is not known", nonlinearity);
}

std::pair<int64_t, int64_t> calculate_fan_in_and_fan_out(const Tensor& tensor, Location at) {
  LocationScope scope(at);
  if (tensor.dim() < 2) {
    Throw(ErrorCode::kValue, "init: {} has fewer than 2 dims, so no fan",
          tensor.shape().to_string());
  }
  int64_t window = 1;
  for (int dim = 2; dim < tensor.dim(); ++dim) window *= tensor.size(dim);
  return {tensor.size(1) * window, tensor.size(0) * window};
}

}  // namespace hammock::nn::init
