// Attention as PyTorch's devices call it, with the gradients, and the encoder layer that PyTorch
// runs as one op in inference. The kernels of CUDA devices differ in their arguments and in what
// they keep for the gradient; here each keeps the logsumexp.

#include <hammock/ir/function.h>
#include <hammock/ops.h>

#include <cmath>

#include "engine/adaptor.h"
#include "engine/scope.h"

namespace hammock_torch {

using hammock::Any;
using hammock::AnyList;
using hammock::CallOp;
using hammock::Dims;
using hammock::DType;
using hammock::Tensor;

namespace {

using Call = const AtenCall&;

const Any& Named(Call c, std::string_view name) {
  static const Any none;
  int at = c.find(name);
  return at < 0 ? none : c[static_cast<size_t>(at)];
}

/// The arguments that all forms have, by name.
struct Attention {
  Tensor query, key, value;
  Tensor mask;  ///< undefined: none
  bool causal = false;
  double scale = 1;
};
Attention AttentionOf(Call c) {
  if (Named(c, "dropout_p").ToDouble() != 0) {
    throw Unsupported("attention with dropout inside of the kernel");
  }
  Attention result{Named(c, "query").ToTensor(), Named(c, "key").ToTensor(),
                   Named(c, "value").ToTensor(), Tensor(), Named(c, "is_causal").ToBool()};
  for (const char* name : {"attn_mask", "attn_bias"}) {
    if (Named(c, name).IsTensor()) result.mask = Named(c, name).ToTensor();
  }
  const Any& scale = Named(c, "scale");
  result.scale = scale.IsNone() ? 1.0 / std::sqrt(static_cast<double>(result.query.size(-1)))
                                : scale.ToDouble();
  return result;
}

/// (result, logsumexp)
AnyList Forward(Call c) {
  Attention a = AttentionOf(c);
  Any mask = a.mask.defined() ? Any(a.mask) : Any();
  return CallOp("_attention", {a.query, a.key, a.value, mask, a.causal, a.scale}).ToList();
}

Any FlashForCpu(Call c) { return Any::Tuple(Forward(c)); }

/// A state of the generator, which only dropout would need.
Any NoState() { return hammock::zeros({}, DType::kI64, CurrentDevice()); }

/// result, logsumexp, offsets of nested tensors, longest query and key, state, mask for debugging
Any FlashOrCudnn(Call c) {
  AnyList results = Forward(c);
  int64_t queries = Named(c, "query").ToTensor().size(-2);
  int64_t keys = Named(c, "key").ToTensor().size(-2);
  for (const Any& more : {Any(), Any(), Any(queries), Any(keys), NoState(), NoState(),
                          Any(hammock::zeros({0}, DType::kF32, CurrentDevice()))}) {
    results.push_back(more);
  }
  return Any::Tuple(results);
}

Any Efficient(Call c) {
  AnyList results = Forward(c);
  results.push_back(NoState());
  results.push_back(NoState());
  return Any::Tuple(results);
}

/// Of query, key, value and where it is wanted of the mask.
Any Backward(Call c) {
  Attention a = AttentionOf(c);
  const Any& wanted = Named(c, "grad_input_mask");
  const bool of_mask = wanted.IsSequence() && a.mask.defined() && wanted.ToList().at(3).ToBool();
  std::vector<Tensor> grads =
      RecordGrads("_attention", {a.query, a.key, a.value, a.mask},
                  {Named(c, "out").ToTensor(), Named(c, "logsumexp").ToTensor()},
                  {a.causal, a.scale}, c.tensor(0), {1, 1, 1, static_cast<uint8_t>(of_mask)});
  grads.resize(wanted.IsSequence() ? 4 : 3);
  return TupleOf(grads);
}

// ---- Whole layers in inference

/// Arguments from `first` on: embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias.
Tensor SelfAttention(Call c, const Tensor& x, size_t first) {
  const int64_t batch = x.size(0), length = x.size(1);
  const int64_t width = c.integer(first), heads = c.integer(first + 1);
  auto by_head = [&](const Tensor& part) {
    return hammock::transpose(hammock::reshape(part, {batch, length, heads, width / heads}), 1, 2);
  };
  std::vector<Tensor> parts =
      hammock::chunk(hammock::linear(x, c.tensor(first + 2), c.tensor(first + 3)), 3, -1);
  Tensor mixed = hammock::scaled_dot_product_attention(by_head(parts[0]), by_head(parts[1]),
                                                       by_head(parts[2]));
  mixed = hammock::reshape(hammock::transpose(mixed, 1, 2), {batch, length, width});
  return hammock::linear(mixed, c.tensor(first + 4), c.tensor(first + 5));
}

/// query, key, value, the arguments above, mask, need_weights, average_attn_weights, mask_type
Any MultiHeadAttention(Call c) {
  const bool of_itself = c.tensor(0).is_same(c.tensor(1)) && c.tensor(0).is_same(c.tensor(2));
  if (!of_itself) throw Unsupported("the attention of a layer to another tensor");
  if (!c.none(9) || c.flag(10)) throw Unsupported("a layer's attention with a mask or weights");
  return TupleOf({SelfAttention(c, c.tensor(0), 3), Tensor()});
}

/// src, the arguments above, use_gelu, norm_first, eps, two norms, two layers (weight and bias
/// each), mask, mask_type
Any EncoderLayer(Call c) {
  if (!c.none(18)) throw Unsupported("an encoder layer with a mask");
  auto norm = [&](const Tensor& x, size_t at) {
    return hammock::layer_norm(x, {c.integer(1)}, c.tensor(at), c.tensor(at + 1), c.real(9));
  };
  auto layers = [&](const Tensor& x) {
    Tensor inner = hammock::linear(x, c.tensor(14), c.tensor(15));
    inner = c.flag(7) ? hammock::gelu(inner) : hammock::relu(inner);
    return hammock::linear(inner, c.tensor(16), c.tensor(17));
  };
  Tensor x = c.tensor(0);
  if (c.flag(8)) {
    x = x + SelfAttention(c, norm(x, 10), 1);
    return x + layers(norm(x, 12));
  }
  x = norm(x + SelfAttention(c, x, 1), 10);
  return norm(x + layers(x), 12);
}

constexpr AdaptorEntry kTable[] = {
    {"_scaled_dot_product_flash_attention_for_cpu", FlashForCpu},
    {"_scaled_dot_product_flash_attention", FlashOrCudnn},
    {"_scaled_dot_product_cudnn_attention", FlashOrCudnn},
    {"_scaled_dot_product_efficient_attention", Efficient},
    {"_scaled_dot_product_flash_attention_for_cpu_backward", Backward},
    {"_scaled_dot_product_flash_attention_backward", Backward},
    {"_scaled_dot_product_cudnn_attention_backward", Backward},
    {"_scaled_dot_product_efficient_attention_backward", Backward},
    {"_native_multi_head_attention", MultiHeadAttention},
    {"_transformer_encoder_layer_fwd", EncoderLayer},
};

}  // namespace

std::span<const AdaptorEntry> AttentionAdaptors() { return kTable; }

}  // namespace hammock_torch
