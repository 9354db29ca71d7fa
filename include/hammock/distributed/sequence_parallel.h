#pragma once
/// Attention over sequences that are shared out among ranks: rank r has positions
/// [r * length, (r + 1) * length) of queries, keys and values, and gets its rows of the result.
///
///   Tensor y = distributed::ring_attention(q, k, v, /*is_causal=*/true);
///
/// Tensors are [..., heads, length, width], as those of scaled_dot_product_attention. Gradients are
/// those of the sum of all ranks' losses, each of which is of that rank's positions.

#include <optional>

#include "hammock/distributed.h"
#include "hammock/export.h"
#include "hammock/tensor.h"

namespace hammock::distributed {

/// Keys and values go round the ranks, one hop for each; what has come is merged by its
/// log-sum-exp. No rank ever has more than its part and one other of keys and values. Backward they
/// go round once more, with their gradients. Has no gradient of its gradient.
HAMMOCK_API Tensor ring_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                  bool is_causal = false,
                                  std::optional<double> scale = std::nullopt,
                                  const Group& group = world(), Location at = Location::current());

/// Sequences in parts become heads in parts, for attention over whole sequences, and back: four
/// all-to-alls. The number of heads must be divisible by that of the ranks.
HAMMOCK_API Tensor head_parallel_attention(const Tensor& query, const Tensor& key,
                                           const Tensor& value, bool is_causal = false,
                                           double dropout_p = 0.0,
                                           std::optional<double> scale = std::nullopt,
                                           const Group& group = world(),
                                           Location at = Location::current());

}  // namespace hammock::distributed
