#pragma once
/// Attention and transformers. Sequences are (length, batch, features), or with `batch_first`
/// (batch, length, features).

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "hammock/nn/containers.h"
#include "hammock/nn/dropout.h"
#include "hammock/nn/layer.h"
#include "hammock/nn/linear.h"
#include "hammock/nn/norm.h"

namespace hammock::nn {

struct MultiheadAttentionOptions {
  int64_t embed_dim, num_heads;
  double dropout = 0;
  bool bias = true, add_bias_kv = false, add_zero_attn = false;
  std::optional<int64_t> kdim = std::nullopt, vdim = std::nullopt;
  bool batch_first = false;
};
/// Arguments of a call of attention besides query, key and value.
struct AttentionCall {
  std::optional<Tensor> key_padding_mask = std::nullopt;
  bool need_weights = true;
  std::optional<Tensor> attn_mask = std::nullopt;
  bool average_attn_weights = true;
};
class HAMMOCK_API MultiheadAttentionImpl : public Module {
 public:
  using Options = MultiheadAttentionOptions;
  explicit MultiheadAttentionImpl(const Options& options);
  MultiheadAttentionImpl(int64_t embed_dim, int64_t num_heads)
      : MultiheadAttentionImpl(Options{embed_dim, num_heads}) {}
  /// (output, weights); the weights are undefined unless needed.
  std::tuple<Tensor, Tensor> forward(const TensorAt& query, const Tensor& key, const Tensor& value,
                                     const AttentionCall& call = {});

  Options options;
  Parameter in_proj_weight, in_proj_bias;                 ///< of query, key and value of one size
  Parameter q_proj_weight, k_proj_weight, v_proj_weight;  ///< of other sizes
  Parameter bias_k, bias_v;
  Linear out_proj;
};
using MultiheadAttention = Layer<MultiheadAttentionImpl>;

struct TransformerLayerOptions {
  int64_t d_model, nhead;
  int64_t dim_feedforward = 2048;
  double dropout = 0.1;
  std::string activation = "relu";  ///< or gelu
  double layer_norm_eps = 1e-5;
  bool batch_first = false, norm_first = false;
};

class HAMMOCK_API TransformerEncoderLayerImpl : public Module {
 public:
  using Options = TransformerLayerOptions;
  explicit TransformerEncoderLayerImpl(const Options& options);
  Tensor forward(const TensorAt& src, const std::optional<Tensor>& src_mask = std::nullopt,
                 const std::optional<Tensor>& src_key_padding_mask = std::nullopt);

  Options options;
  MultiheadAttention self_attn;
  Linear linear1, linear2;
  LayerNorm norm1, norm2;
  Dropout dropout, dropout1, dropout2;
};
using TransformerEncoderLayer = Layer<TransformerEncoderLayerImpl>;

class HAMMOCK_API TransformerDecoderLayerImpl : public Module {
 public:
  using Options = TransformerLayerOptions;
  explicit TransformerDecoderLayerImpl(const Options& options);
  Tensor forward(const TensorAt& tgt, const Tensor& memory,
                 const std::optional<Tensor>& tgt_mask = std::nullopt,
                 const std::optional<Tensor>& memory_mask = std::nullopt,
                 const std::optional<Tensor>& tgt_key_padding_mask = std::nullopt,
                 const std::optional<Tensor>& memory_key_padding_mask = std::nullopt);

  Options options;
  MultiheadAttention self_attn, multihead_attn;
  Linear linear1, linear2;
  LayerNorm norm1, norm2, norm3;
  Dropout dropout, dropout1, dropout2, dropout3;
};
using TransformerDecoderLayer = Layer<TransformerDecoderLayerImpl>;

/// Layers one after another, each with parameters of its own.
class HAMMOCK_API TransformerEncoderImpl : public Module {
 public:
  TransformerEncoderImpl(const TransformerLayerOptions& layer, int64_t num_layers,
                         bool final_norm = false);
  Tensor forward(const TensorAt& src, const std::optional<Tensor>& mask = std::nullopt,
                 const std::optional<Tensor>& src_key_padding_mask = std::nullopt);

  ModuleList layers;
  LayerNorm norm = nullptr;
};
using TransformerEncoder = Layer<TransformerEncoderImpl>;

class HAMMOCK_API TransformerDecoderImpl : public Module {
 public:
  TransformerDecoderImpl(const TransformerLayerOptions& layer, int64_t num_layers,
                         bool final_norm = false);
  Tensor forward(const TensorAt& tgt, const Tensor& memory,
                 const std::optional<Tensor>& tgt_mask = std::nullopt,
                 const std::optional<Tensor>& memory_mask = std::nullopt,
                 const std::optional<Tensor>& tgt_key_padding_mask = std::nullopt,
                 const std::optional<Tensor>& memory_key_padding_mask = std::nullopt);

  ModuleList layers;
  LayerNorm norm = nullptr;
};
using TransformerDecoder = Layer<TransformerDecoderImpl>;

struct TransformerOptions {
  int64_t d_model = 512, nhead = 8, num_encoder_layers = 6, num_decoder_layers = 6;
  int64_t dim_feedforward = 2048;
  double dropout = 0.1;
  std::string activation = "relu";
  double layer_norm_eps = 1e-5;
  bool batch_first = false, norm_first = false;
};
class HAMMOCK_API TransformerImpl : public Module {
 public:
  using Options = TransformerOptions;
  explicit TransformerImpl(const Options& options = {});
  Tensor forward(const TensorAt& src, const Tensor& tgt,
                 const std::optional<Tensor>& src_mask = std::nullopt,
                 const std::optional<Tensor>& tgt_mask = std::nullopt,
                 const std::optional<Tensor>& memory_mask = std::nullopt);
  /// -inf above the diagonal: each position sees itself and those before it.
  static Tensor generate_square_subsequent_mask(int64_t size, Location at = Location::current());

  TransformerEncoder encoder;
  TransformerDecoder decoder;
};
using Transformer = Layer<TransformerImpl>;

}  // namespace hammock::nn
