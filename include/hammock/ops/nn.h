#pragma once
/// Functions of neural networks: activations here, normalisation at the end.

#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "hammock/export.h"
#include "hammock/ops/view.h"
#include "hammock/random.h"
#include "hammock/tensor.h"

namespace hammock {

// ---- activations

HAMMOCK_API Tensor relu(const Tensor& self, HAMMOCK_AT);
HAMMOCK_API Tensor relu6(const Tensor& self, HAMMOCK_AT);
/// Exact with erf, or by `approximate` "tanh".
HAMMOCK_API Tensor gelu(const Tensor& self, const std::string& approximate = "none", HAMMOCK_AT);
HAMMOCK_API Tensor silu(const Tensor& self, HAMMOCK_AT);
HAMMOCK_API Tensor mish(const Tensor& self, HAMMOCK_AT);
HAMMOCK_API Tensor selu(const Tensor& self, HAMMOCK_AT);
HAMMOCK_API Tensor hardswish(const Tensor& self, HAMMOCK_AT);
HAMMOCK_API Tensor hardsigmoid(const Tensor& self, HAMMOCK_AT);
HAMMOCK_API Tensor log_sigmoid(const Tensor& self, HAMMOCK_AT);
HAMMOCK_API Tensor logsigmoid(const Tensor& self, HAMMOCK_AT);
HAMMOCK_API Tensor softsign(const Tensor& self, HAMMOCK_AT);
HAMMOCK_API Tensor tanhshrink(const Tensor& self, HAMMOCK_AT);
/// scale * x where positive, scale * alpha * (exp(input_scale * x) - 1) elsewhere.
HAMMOCK_API Tensor elu(const Tensor& self, const Scalar& alpha = 1, const Scalar& scale = 1,
                       const Scalar& input_scale = 1, HAMMOCK_AT);
HAMMOCK_API Tensor celu(const Tensor& self, const Scalar& alpha = 1.0, HAMMOCK_AT);
HAMMOCK_API Tensor softplus(const Tensor& self, const Scalar& beta = 1,
                            const Scalar& threshold = 20, HAMMOCK_AT);
HAMMOCK_API Tensor leaky_relu(const Tensor& self, const Scalar& negative_slope = 0.01, HAMMOCK_AT);
HAMMOCK_API Tensor hardtanh(const Tensor& self, const Scalar& min_val = -1,
                            const Scalar& max_val = 1, HAMMOCK_AT);
/// `value` where self <= threshold.
HAMMOCK_API Tensor threshold(const Tensor& self, const Scalar& threshold, const Scalar& value,
                             HAMMOCK_AT);
HAMMOCK_API Tensor softshrink(const Tensor& self, const Scalar& lambd = 0.5, HAMMOCK_AT);
HAMMOCK_API Tensor hardshrink(const Tensor& self, const Scalar& lambd = 0.5, HAMMOCK_AT);
/// One weight, or one per channel (dim 1).
HAMMOCK_API Tensor prelu(const Tensor& self, const Tensor& weight, HAMMOCK_AT);
/// First half along `dim` times the sigmoid of the second.
HAMMOCK_API Tensor glu(const Tensor& self, int64_t dim = -1, HAMMOCK_AT);
/// leaky_relu whose slope is drawn from [lower, upper) while training, else their mean.
HAMMOCK_API Tensor rrelu(const Tensor& self, const Scalar& lower = 0.125,
                         const Scalar& upper = 1.0 / 3.0, bool training = false,
                         const std::optional<Generator>& generator = std::nullopt, HAMMOCK_AT);
/// While training, each element is zero with probability `p` and scaled by 1 / (1 - p) otherwise;
/// else `self` itself.
HAMMOCK_API Tensor dropout(const Tensor& self, double p = 0.5, bool training = true, HAMMOCK_AT);

HAMMOCK_API Tensor& relu_(Tensor& self, HAMMOCK_AT);
HAMMOCK_API Tensor& relu6_(Tensor& self, HAMMOCK_AT);
HAMMOCK_API Tensor& silu_(Tensor& self, HAMMOCK_AT);
HAMMOCK_API Tensor& mish_(Tensor& self, HAMMOCK_AT);
HAMMOCK_API Tensor& selu_(Tensor& self, HAMMOCK_AT);
HAMMOCK_API Tensor& hardswish_(Tensor& self, HAMMOCK_AT);
HAMMOCK_API Tensor& hardsigmoid_(Tensor& self, HAMMOCK_AT);
HAMMOCK_API Tensor& elu_(Tensor& self, const Scalar& alpha = 1, const Scalar& scale = 1,
                         const Scalar& input_scale = 1, HAMMOCK_AT);
HAMMOCK_API Tensor& celu_(Tensor& self, const Scalar& alpha = 1.0, HAMMOCK_AT);
HAMMOCK_API Tensor& leaky_relu_(Tensor& self, const Scalar& negative_slope = 0.01, HAMMOCK_AT);
HAMMOCK_API Tensor& hardtanh_(Tensor& self, const Scalar& min_val = -1, const Scalar& max_val = 1,
                              HAMMOCK_AT);
HAMMOCK_API Tensor& threshold_(Tensor& self, const Scalar& threshold, const Scalar& value,
                               HAMMOCK_AT);
HAMMOCK_API Tensor& dropout_(Tensor& self, double p = 0.5, bool training = true, HAMMOCK_AT);

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
                                 int64_t ignore_index = -100, const std::string& reduction = "mean",
                                 double label_smoothing = 0.0, HAMMOCK_AT);

}  // namespace hammock
