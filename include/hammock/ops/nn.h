#pragma once

#include <optional>
#include <tuple>
#include <vector>

#include "hammock/export.h"
#include "hammock/ops/view.h"
#include "hammock/random.h"
#include "hammock/tensor.h"

namespace hammock {

// ---- normalisation

HAMMOCK_API Tensor softmax(const Tensor& self, int64_t dim,
                           std::optional<DType> dtype = std::nullopt, HAMMOCK_AT);
HAMMOCK_API Tensor log_softmax(const Tensor& self, int64_t dim,
                               std::optional<DType> dtype = std::nullopt, HAMMOCK_AT);
HAMMOCK_API Tensor softmin(const Tensor& self, int64_t dim,
                           std::optional<DType> dtype = std::nullopt, HAMMOCK_AT);
/// Normalises the last dims, whose sizes are `normalized_shape`.
HAMMOCK_API Tensor layer_norm(const Tensor& input, const Dims& normalized_shape,
                              const std::optional<Tensor>& weight = std::nullopt,
                              const std::optional<Tensor>& bias = std::nullopt, double eps = 1e-5,
                              HAMMOCK_AT);
/// (layer_norm, mean, reciprocal standard deviation).
HAMMOCK_API std::tuple<Tensor, Tensor, Tensor> native_layer_norm(
    const Tensor& input, const Dims& normalized_shape, const std::optional<Tensor>& weight,
    const std::optional<Tensor>& bias, double eps, HAMMOCK_AT);
/// Without `eps`, the distance from one to the next value of the dtype.
HAMMOCK_API Tensor rms_norm(const Tensor& input, const Dims& normalized_shape,
                            const std::optional<Tensor>& weight = std::nullopt,
                            std::optional<double> eps = std::nullopt, HAMMOCK_AT);

// Losses. `reduction` is none, mean or sum.
HAMMOCK_API Tensor mse_loss(const Tensor& input, const Tensor& target,
                            const std::string& reduction = "mean", HAMMOCK_AT);
HAMMOCK_API Tensor l1_loss(const Tensor& input, const Tensor& target,
                           const std::string& reduction = "mean", HAMMOCK_AT);
/// `input` holds log-probabilities of classes along dim 1 (dim 0 without a batch).
HAMMOCK_API Tensor nll_loss(const Tensor& input, const Tensor& target,
                            const std::optional<Tensor>& weight = std::nullopt,
                            int64_t ignore_index = -100, const std::string& reduction = "mean",
                            HAMMOCK_AT);
/// `target` holds class indices, or probabilities of the shape of `input`.
HAMMOCK_API Tensor cross_entropy(const Tensor& input, const Tensor& target,
                                 const std::optional<Tensor>& weight = std::nullopt,
                                 int64_t ignore_index = -100,
                                 const std::string& reduction = "mean",
                                 double label_smoothing = 0.0, HAMMOCK_AT);

}  // namespace hammock
