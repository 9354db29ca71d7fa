#pragma once
/// Attention, and bags of embeddings.

#include <optional>
#include <string>
#include <tuple>

#include "hammock/export.h"
#include "hammock/ops/view.h"
#include "hammock/tensor.h"

namespace hammock {

/// softmax(query @ key.t() * scale + attn_mask) @ value over the last two dims; without `scale`,
/// one over the root of their last size. A bool mask says what takes part.
HAMMOCK_API Tensor scaled_dot_product_attention(
    const Tensor& query, const Tensor& key, const Tensor& value,
    const std::optional<Tensor>& attn_mask = std::nullopt, double dropout_p = 0.0,
    bool is_causal = false, std::optional<double> scale = std::nullopt, HAMMOCK_AT);
/// (the above, the weights); PyTorch 1.13 returns the weights whether they are needed or not.
HAMMOCK_API std::tuple<Tensor, Tensor> _scaled_dot_product_attention(
    const Tensor& query, const Tensor& key, const Tensor& value,
    const std::optional<Tensor>& attn_mask = std::nullopt, double dropout_p = 0.0,
    bool need_attn_weights = false, bool is_causal = false, HAMMOCK_AT);

/// Arguments of multi_head_attention_forward besides its inputs and weights.
struct AttentionOptions {
  std::optional<Tensor> bias_k, bias_v;
  bool add_zero_attn = false;
  double dropout_p = 0.0;
  bool training = true;
  std::optional<Tensor> key_padding_mask;
  bool need_weights = true;
  std::optional<Tensor> attn_mask;
  bool use_separate_proj_weight = false;
  std::optional<Tensor> q_proj_weight, k_proj_weight, v_proj_weight;
  std::optional<Tensor> static_k, static_v;
  bool average_attn_weights = true;
};

/// (output, weights); inputs are (length, batch, embed) or (length, embed). Without need_weights
/// the second is undefined; without out_proj_weight the output is not projected.
HAMMOCK_API std::tuple<Tensor, Tensor> multi_head_attention_forward(
    const Tensor& query, const Tensor& key, const Tensor& value, int64_t embed_dim_to_check,
    int64_t num_heads, const std::optional<Tensor>& in_proj_weight,
    const std::optional<Tensor>& in_proj_bias, const Tensor& out_proj_weight,
    const std::optional<Tensor>& out_proj_bias, const AttentionOptions& options = {}, HAMMOCK_AT);

/// Sums, means or maxima of rows of `weight`, by bags: the rows of a matrix `input`, or the parts
/// of a vector that start at `offsets`. With `max_norm` the rows in use are renormed in place.
HAMMOCK_API Tensor embedding_bag(const Tensor& input, const Tensor& weight,
                                 const std::optional<Tensor>& offsets = std::nullopt,
                                 std::optional<double> max_norm = std::nullopt,
                                 double norm_type = 2.0, bool scale_grad_by_freq = false,
                                 const std::string& mode = "mean", bool sparse = false,
                                 const std::optional<Tensor>& per_sample_weights = std::nullopt,
                                 bool include_last_offset = false,
                                 std::optional<int64_t> padding_idx = std::nullopt, HAMMOCK_AT);

}  // namespace hammock
