#pragma once
/// Normalisation of batches, groups, instances and channels; layer_norm and softmax are in nn.h.

#include <optional>
#include <tuple>

#include "hammock/export.h"
#include "hammock/ops/view.h"
#include "hammock/tensor.h"

namespace hammock {

/// Each channel (dim 1) to mean 0 and variance 1: those of the batch while `training`, else the
/// running ones. Training writes the running ones, which may be absent.
HAMMOCK_API Tensor batch_norm(const Tensor& input, const std::optional<Tensor>& running_mean,
                              const std::optional<Tensor>& running_var,
                              const std::optional<Tensor>& weight = std::nullopt,
                              const std::optional<Tensor>& bias = std::nullopt,
                              bool training = false, double momentum = 0.1, double eps = 1e-5,
                              HAMMOCK_AT);
/// (batch_norm, mean, reciprocal standard deviation); the last two are empty unless `training`.
HAMMOCK_API std::tuple<Tensor, Tensor, Tensor> native_batch_norm(
    const Tensor& input, const std::optional<Tensor>& weight, const std::optional<Tensor>& bias,
    const std::optional<Tensor>& running_mean, const std::optional<Tensor>& running_var,
    bool training, double momentum, double eps, HAMMOCK_AT);
/// As batch_norm, with statistics of each sample; the running ones are means over the batch.
HAMMOCK_API Tensor instance_norm(const Tensor& input,
                                 const std::optional<Tensor>& running_mean = std::nullopt,
                                 const std::optional<Tensor>& running_var = std::nullopt,
                                 const std::optional<Tensor>& weight = std::nullopt,
                                 const std::optional<Tensor>& bias = std::nullopt,
                                 bool use_input_stats = true, double momentum = 0.1,
                                 double eps = 1e-5, HAMMOCK_AT);
/// Channels in `num_groups` groups, each normalised with all its positions.
HAMMOCK_API Tensor group_norm(const Tensor& input, int64_t num_groups,
                              const std::optional<Tensor>& weight = std::nullopt,
                              const std::optional<Tensor>& bias = std::nullopt, double eps = 1e-5,
                              HAMMOCK_AT);
/// (group_norm, mean, reciprocal standard deviation) of `N` samples, `C` channels, `HxW` positions.
HAMMOCK_API std::tuple<Tensor, Tensor, Tensor> native_group_norm(
    const Tensor& input, const std::optional<Tensor>& weight, const std::optional<Tensor>& bias,
    int64_t N, int64_t C, int64_t HxW, int64_t group, double eps, HAMMOCK_AT);
/// Divided by (k + alpha * mean square of `size` neighbouring channels) to the power of beta.
HAMMOCK_API Tensor local_response_norm(const Tensor& input, int64_t size, double alpha = 1e-4,
                                       double beta = 0.75, double k = 1.0, HAMMOCK_AT);
/// Slices along `dim` whose norm is above `maxnorm` are scaled down to it.
HAMMOCK_API Tensor renorm(const Tensor& self, const Scalar& p, int64_t dim, const Scalar& maxnorm,
                          HAMMOCK_AT);

}  // namespace hammock
