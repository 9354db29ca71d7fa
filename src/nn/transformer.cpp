#include "hammock/nn/transformer.h"

#include <limits>

#include "base/throw.h"
#include "hammock/nn/init.h"
#include "hammock/ops.h"
#include "nn/call_forward.h"
#include "nn/given.h"

namespace hammock::nn {
namespace {

Tensor Activated(const std::string& name, const Tensor& x) {
  return name == "gelu" ? gelu(x) : relu(x);
}

constexpr char kDecoderForward[] =
    "forward(Tensor tgt, Tensor memory, Tensor? tgt_mask=None, Tensor? memory_mask=None, "
    "Tensor? tgt_key_padding_mask=None, Tensor? memory_key_padding_mask=None) -> Tensor";

void CheckActivation(const std::string& name) {
  if (name != "relu" && name != "gelu") {
    Throw(ErrorCode::kValue, "transformer: activation '{}' is not relu or gelu", name);
  }
}

MultiheadAttention AttentionOf(const TransformerLayerOptions& o) {
  return MultiheadAttention({.embed_dim = o.d_model,
                             .num_heads = o.nhead,
                             .dropout = o.dropout,
                             .batch_first = o.batch_first});
}

LayerNorm NormOf(const TransformerLayerOptions& o) {
  return LayerNorm({.normalized_shape = o.d_model, .eps = o.layer_norm_eps});
}

Tensor Attended(const MultiheadAttention& attention, const Tensor& query, const Tensor& memory,
                const std::optional<Tensor>& mask, const std::optional<Tensor>& padding) {
  auto optional = [](const std::optional<Tensor>& tensor) { return tensor ? Any(*tensor) : Any(); };
  // By name: another module may have taken its place.
  return attention
      ->run_method("forward", {query, memory, memory, optional(padding), false, optional(mask)})
      .ToList()
      .at(0)
      .ToTensor();
}

/// The layers one after another, whatever has taken the place of one.
template <class... Rest>
Tensor RunStack(const ModuleList& layers, Tensor x, const Rest&... rest) {
  for (const auto& [name, layer] : layers->named_children()) {
    x = detail::CallReplacement<Tensor>(*layer, Location::current(), x, rest...);
  }
  return x;
}

/// x + block(norm(x)), or norm(x + block(x)).
template <class Block>
Tensor Residual(const Tensor& x, bool norm_first, const LayerNorm& norm, Block block) {
  return norm_first ? x + block(norm->forward(x)) : norm->forward(x + block(x));
}

}  // namespace

// ---- Attention

MultiheadAttentionImpl::MultiheadAttentionImpl(const Options& given)
    : Module("MultiheadAttention"), options(given), out_proj(nullptr) {
  int64_t size = options.embed_dim;
  if (options.num_heads < 1 || size % options.num_heads != 0) {
    Throw(ErrorCode::kValue, "MultiheadAttention: {} features cannot be parted into {} heads", size,
          options.num_heads);
  }
  int64_t key_size = options.kdim.value_or(size), value_size = options.vdim.value_or(size);
  auto add = [&](Parameter& member, const char* name, const Dims& sizes) {
    member = register_parameter(name, empty(sizes));
    init::xavier_uniform_(member);
  };
  if (key_size == size && value_size == size) {
    add(in_proj_weight, "in_proj_weight", {3 * size, size});
  } else {
    add(q_proj_weight, "q_proj_weight", {size, size});
    add(k_proj_weight, "k_proj_weight", {size, key_size});
    add(v_proj_weight, "v_proj_weight", {size, value_size});
  }
  if (options.bias) in_proj_bias = register_parameter("in_proj_bias", zeros({3 * size}));
  if (options.add_bias_kv) {
    bias_k = register_parameter("bias_k", empty({1, 1, size}));
    bias_v = register_parameter("bias_v", empty({1, 1, size}));
    init::xavier_normal_(bias_k);
    init::xavier_normal_(bias_v);
  }
  out_proj = register_module("out_proj", Linear(size, size, options.bias));
  if (options.bias) init::zeros_(out_proj->bias);
  define(
      "forward(Tensor query, Tensor key, Tensor value, Tensor? key_padding_mask=None, "
      "bool need_weights=True, Tensor? attn_mask=None, bool average_attn_weights=True) -> "
      "(Tensor, Tensor?)",
      [](Module& self, const std::vector<Any>& args) {
        auto optional = [&](size_t i) {
          return args[i].IsNone() ? std::nullopt : std::optional(args[i].ToTensor());
        };
        auto [output, weights] = dynamic_cast<MultiheadAttentionImpl&>(self).forward(
            args[0].ToTensor(), args[1].ToTensor(), args[2].ToTensor(),
            {.key_padding_mask = optional(3),
             .need_weights = args[4].ToBool(),
             .attn_mask = optional(5),
             .average_attn_weights = args[6].ToBool()});
        return Any::Tuple({output, weights.defined() ? Any(weights) : Any()});
      });
}

std::tuple<Tensor, Tensor> MultiheadAttentionImpl::forward(const TensorAt& given, const Tensor& key,
                                                           const Tensor& value,
                                                           const AttentionCall& call) {
  return CallForward(*this, given.at, [&]() -> std::tuple<Tensor, Tensor> {
    const Tensor& query = given.tensor;
    bool swap = options.batch_first && query.dim() == 3;
    auto time_first = [&](const Tensor& x) { return swap ? transpose(x, 0, 1) : x; };
    AttentionOptions rest;
    rest.bias_k = Given(bias_k);
    rest.bias_v = Given(bias_v);
    rest.add_zero_attn = options.add_zero_attn;
    rest.dropout_p = options.dropout;
    rest.training = is_training();
    rest.key_padding_mask = call.key_padding_mask;
    rest.need_weights = call.need_weights;
    rest.attn_mask = call.attn_mask;
    rest.average_attn_weights = call.average_attn_weights;
    rest.use_separate_proj_weight = !in_proj_weight.defined();
    rest.q_proj_weight = Given(q_proj_weight);
    rest.k_proj_weight = Given(k_proj_weight);
    rest.v_proj_weight = Given(v_proj_weight);
    auto [output, weights] = multi_head_attention_forward(
        time_first(query), time_first(key), time_first(value), options.embed_dim, options.num_heads,
        Given(in_proj_weight), Given(in_proj_bias), Tensor(), std::nullopt, rest);
    // The layer, not its weight: another may have taken its place.
    return {time_first(out_proj(output)), weights};
  });
}

// ---- Layers

TransformerEncoderLayerImpl::TransformerEncoderLayerImpl(const Options& given)
    : Module("TransformerEncoderLayer"),
      options(given),
      self_attn(register_module("self_attn", AttentionOf(given))),
      linear1(register_module("linear1", Linear(given.d_model, given.dim_feedforward))),
      linear2(register_module("linear2", Linear(given.dim_feedforward, given.d_model))),
      norm1(register_module("norm1", NormOf(given))),
      norm2(register_module("norm2", NormOf(given))),
      dropout(register_module("dropout", Dropout(given.dropout))),
      dropout1(register_module("dropout1", Dropout(given.dropout))),
      dropout2(register_module("dropout2", Dropout(given.dropout))) {
  CheckActivation(options.activation);
  define("forward(Tensor src, Tensor? src_mask=None, Tensor? src_key_padding_mask=None) -> Tensor",
         &TransformerEncoderLayerImpl::forward);
}

Tensor TransformerEncoderLayerImpl::forward(const TensorAt& given,
                                            const std::optional<Tensor>& src_mask,
                                            const std::optional<Tensor>& src_key_padding_mask) {
  return CallForward(*this, given.at, [&]() -> Tensor {
    const Tensor& src = given.tensor;
    auto attend = [&](const Tensor& x) {
      return dropout1(Attended(self_attn, x, x, src_mask, src_key_padding_mask));
    };
    auto feed = [&](const Tensor& x) {
      return dropout2(linear2(dropout(Activated(options.activation, linear1(x)))));
    };
    Tensor x = Residual(src, options.norm_first, norm1, attend);
    return Residual(x, options.norm_first, norm2, feed);
  });
}

TransformerDecoderLayerImpl::TransformerDecoderLayerImpl(const Options& given)
    : Module("TransformerDecoderLayer"),
      options(given),
      self_attn(register_module("self_attn", AttentionOf(given))),
      multihead_attn(register_module("multihead_attn", AttentionOf(given))),
      linear1(register_module("linear1", Linear(given.d_model, given.dim_feedforward))),
      linear2(register_module("linear2", Linear(given.dim_feedforward, given.d_model))),
      norm1(register_module("norm1", NormOf(given))),
      norm2(register_module("norm2", NormOf(given))),
      norm3(register_module("norm3", NormOf(given))),
      dropout(register_module("dropout", Dropout(given.dropout))),
      dropout1(register_module("dropout1", Dropout(given.dropout))),
      dropout2(register_module("dropout2", Dropout(given.dropout))),
      dropout3(register_module("dropout3", Dropout(given.dropout))) {
  CheckActivation(options.activation);
  define(kDecoderForward, &TransformerDecoderLayerImpl::forward);
}

Tensor TransformerDecoderLayerImpl::forward(const TensorAt& given, const Tensor& memory,
                                            const std::optional<Tensor>& tgt_mask,
                                            const std::optional<Tensor>& memory_mask,
                                            const std::optional<Tensor>& tgt_key_padding_mask,
                                            const std::optional<Tensor>& memory_key_padding_mask) {
  return CallForward(*this, given.at, [&]() -> Tensor {
    const Tensor& tgt = given.tensor;
    auto attend = [&](const Tensor& x) {
      return dropout1(Attended(self_attn, x, x, tgt_mask, tgt_key_padding_mask));
    };
    auto look = [&](const Tensor& x) {
      return dropout2(Attended(multihead_attn, x, memory, memory_mask, memory_key_padding_mask));
    };
    auto feed = [&](const Tensor& x) {
      return dropout3(linear2(dropout(Activated(options.activation, linear1(x)))));
    };
    Tensor x = Residual(tgt, options.norm_first, norm1, attend);
    x = Residual(x, options.norm_first, norm2, look);
    return Residual(x, options.norm_first, norm3, feed);
  });
}

// ---- Stacks

namespace {

template <class LayerType>
ModuleList Stack(const TransformerLayerOptions& layer, int64_t count) {
  ModuleList layers;
  for (int64_t i = 0; i < count; ++i) layers->push_back(LayerType(layer));
  return layers;
}

}  // namespace

TransformerEncoderImpl::TransformerEncoderImpl(const TransformerLayerOptions& layer,
                                               int64_t num_layers, bool final_norm)
    : Module("TransformerEncoder"),
      layers(register_module("layers", Stack<TransformerEncoderLayer>(layer, num_layers))) {
  if (final_norm) norm = register_module("norm", NormOf(layer));
  define("forward(Tensor src, Tensor? mask=None, Tensor? src_key_padding_mask=None) -> Tensor",
         &TransformerEncoderImpl::forward);
}

Tensor TransformerEncoderImpl::forward(const TensorAt& given, const std::optional<Tensor>& mask,
                                       const std::optional<Tensor>& src_key_padding_mask) {
  return CallForward(*this, given.at, [&]() -> Tensor {
    Tensor x = RunStack(layers, given.tensor, mask, src_key_padding_mask);
    return norm ? norm->forward(x) : x;
  });
}

TransformerDecoderImpl::TransformerDecoderImpl(const TransformerLayerOptions& layer,
                                               int64_t num_layers, bool final_norm)
    : Module("TransformerDecoder"),
      layers(register_module("layers", Stack<TransformerDecoderLayer>(layer, num_layers))) {
  if (final_norm) norm = register_module("norm", NormOf(layer));
  define(kDecoderForward, &TransformerDecoderImpl::forward);
}

Tensor TransformerDecoderImpl::forward(const TensorAt& given, const Tensor& memory,
                                       const std::optional<Tensor>& tgt_mask,
                                       const std::optional<Tensor>& memory_mask,
                                       const std::optional<Tensor>& tgt_key_padding_mask,
                                       const std::optional<Tensor>& memory_key_padding_mask) {
  return CallForward(*this, given.at, [&]() -> Tensor {
    Tensor x = RunStack(layers, given.tensor, memory, tgt_mask, memory_mask, tgt_key_padding_mask,
                        memory_key_padding_mask);
    return norm ? norm->forward(x) : x;
  });
}

namespace {

TransformerLayerOptions LayerOf(const TransformerOptions& o) {
  return {o.d_model,    o.nhead,          o.dim_feedforward, o.dropout,
          o.activation, o.layer_norm_eps, o.batch_first,     o.norm_first};
}

}  // namespace

TransformerImpl::TransformerImpl(const Options& o)
    : Module("Transformer"),
      encoder(
          register_module("encoder", TransformerEncoder(LayerOf(o), o.num_encoder_layers, true))),
      decoder(
          register_module("decoder", TransformerDecoder(LayerOf(o), o.num_decoder_layers, true))) {
  for (auto& [name, parameter] : named_parameters()) {
    if (parameter.dim() > 1) init::xavier_uniform_(parameter);
  }
  define(
      "forward(Tensor src, Tensor tgt, Tensor? src_mask=None, Tensor? tgt_mask=None, "
      "Tensor? memory_mask=None) -> Tensor",
      &TransformerImpl::forward);
}

Tensor TransformerImpl::forward(const TensorAt& given, const Tensor& tgt,
                                const std::optional<Tensor>& src_mask,
                                const std::optional<Tensor>& tgt_mask,
                                const std::optional<Tensor>& memory_mask) {
  return CallForward(*this, given.at, [&]() -> Tensor {
    const Tensor& src = given.tensor;
    return decoder(tgt, encoder(src, src_mask), tgt_mask, memory_mask);
  });
}

Tensor TransformerImpl::generate_square_subsequent_mask(int64_t size, Location at) {
  LocationScope scope(at);
  return triu(full({size, size}, -std::numeric_limits<double>::infinity(), DType::kF32), 1);
}

}  // namespace hammock::nn
