#pragma once
/// Losses and distances; cross_entropy, nll_loss, mse_loss and l1_loss are in nn.h.
///
/// `reduction` is none, mean or sum. The arithmetic is that of f32 for f16 and bf16.
///
///   Tensor loss = binary_cross_entropy_with_logits(scores, labels);

#include <optional>
#include <string>
#include <vector>

#include "hammock/export.h"
#include "hammock/ops/view.h"
#include "hammock/tensor.h"

namespace hammock {

// ---- Element by element

/// `input` holds probabilities; logarithms are not below -100.
HAMMOCK_API Tensor binary_cross_entropy(const Tensor& input, const Tensor& target,
                                        const std::optional<Tensor>& weight = std::nullopt,
                                        const std::string& reduction = "mean", HAMMOCK_AT);
/// `input` holds scores whose sigmoid is the probability; `pos_weight` weighs positive targets.
HAMMOCK_API Tensor binary_cross_entropy_with_logits(
    const Tensor& input, const Tensor& target, const std::optional<Tensor>& weight = std::nullopt,
    const std::string& reduction = "mean", const std::optional<Tensor>& pos_weight = std::nullopt,
    HAMMOCK_AT);
/// `input` holds log-probabilities, `target` probabilities (or their logarithms). `reduction` may
/// also be batchmean: the sum over the size of dim 0.
HAMMOCK_API Tensor kl_div(const Tensor& input, const Tensor& target,
                          const std::string& reduction = "mean", bool log_target = false,
                          HAMMOCK_AT);
/// Quadratic below a distance of `beta`, linear above.
HAMMOCK_API Tensor smooth_l1_loss(const Tensor& input, const Tensor& target,
                                  const std::string& reduction = "mean", double beta = 1.0,
                                  HAMMOCK_AT);
HAMMOCK_API Tensor huber_loss(const Tensor& input, const Tensor& target,
                              const std::string& reduction = "mean", double delta = 1.0,
                              HAMMOCK_AT);
/// `target` drawn from normal distributions of mean `input` and variance `var`, at least `eps`.
HAMMOCK_API Tensor gaussian_nll_loss(const Tensor& input, const Tensor& target, const Tensor& var,
                                     bool full = false, double eps = 1e-6,
                                     const std::string& reduction = "mean", HAMMOCK_AT);
HAMMOCK_API Tensor poisson_nll_loss(const Tensor& input, const Tensor& target,
                                    bool log_input = true, bool full = false, double eps = 1e-8,
                                    const std::string& reduction = "mean", HAMMOCK_AT);
/// `target` is 1 or -1.
HAMMOCK_API Tensor soft_margin_loss(const Tensor& input, const Tensor& target,
                                    const std::string& reduction = "mean", HAMMOCK_AT);
HAMMOCK_API Tensor hinge_embedding_loss(const Tensor& input, const Tensor& target,
                                        double margin = 1.0, const std::string& reduction = "mean",
                                        HAMMOCK_AT);
HAMMOCK_API Tensor margin_ranking_loss(const Tensor& input1, const Tensor& input2,
                                       const Tensor& target, double margin = 0.0,
                                       const std::string& reduction = "mean", HAMMOCK_AT);

// ---- Vectors

HAMMOCK_API Tensor cosine_similarity(const Tensor& x1, const Tensor& x2, int64_t dim = 1,
                                     double eps = 1e-8, HAMMOCK_AT);
/// Norm of x1 - x2 + eps along the last dim.
HAMMOCK_API Tensor pairwise_distance(const Tensor& x1, const Tensor& x2, double p = 2.0,
                                     double eps = 1e-6, bool keepdim = false, HAMMOCK_AT);
/// Distances of all pairs of rows, in the order (0,1), (0,2), ..., (1,2), ...
HAMMOCK_API Tensor pdist(const Tensor& self, double p = 2.0, HAMMOCK_AT);
/// Divided by the norm along `dim`, which counts as at least `eps`.
HAMMOCK_API Tensor normalize(const Tensor& self, double p = 2.0, int64_t dim = 1,
                             double eps = 1e-12, HAMMOCK_AT);
HAMMOCK_API Tensor cosine_embedding_loss(const Tensor& input1, const Tensor& input2,
                                         const Tensor& target, double margin = 0.0,
                                         const std::string& reduction = "mean", HAMMOCK_AT);
HAMMOCK_API Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive,
                                       const Tensor& negative, double margin = 1.0, double p = 2.0,
                                       double eps = 1e-6, bool swap = false,
                                       const std::string& reduction = "mean", HAMMOCK_AT);

// ---- Classes

/// As nll_loss, for images; `reduction` is 0 for none, 1 for mean, 2 for sum.
HAMMOCK_API Tensor nll_loss2d(const Tensor& self, const Tensor& target,
                              const std::optional<Tensor>& weight = std::nullopt,
                              int64_t reduction = 1, int64_t ignore_index = -100, HAMMOCK_AT);
/// `p` is 1 or 2.
HAMMOCK_API Tensor multi_margin_loss(const Tensor& input, const Tensor& target, const Scalar& p = 1,
                                     const Scalar& margin = 1.0,
                                     const std::optional<Tensor>& weight = std::nullopt,
                                     const std::string& reduction = "mean", HAMMOCK_AT);
/// `target` lists classes, up to the first -1.
HAMMOCK_API Tensor multilabel_margin_loss(const Tensor& input, const Tensor& target,
                                          const std::string& reduction = "mean", HAMMOCK_AT);
HAMMOCK_API Tensor multilabel_soft_margin_loss(const Tensor& input, const Tensor& target,
                                               const std::optional<Tensor>& weight = std::nullopt,
                                               const std::string& reduction = "mean", HAMMOCK_AT);

// ---- Sequences

/// Negated log-likelihood of `targets` under all alignments with `log_probs` (time, batch, class).
/// `targets` is (batch, length), or all targets one after the other; then lengths are read.
HAMMOCK_API Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets,
                            const Tensor& input_lengths, const Tensor& target_lengths,
                            int64_t blank = 0, const std::string& reduction = "mean",
                            bool zero_infinity = false, HAMMOCK_AT);
HAMMOCK_API Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets,
                            const std::vector<int64_t>& input_lengths,
                            const std::vector<int64_t>& target_lengths, int64_t blank = 0,
                            const std::string& reduction = "mean", bool zero_infinity = false,
                            HAMMOCK_AT);

}  // namespace hammock
