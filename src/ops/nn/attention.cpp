// Attention: softmax of products of queries and keys as weights of values.

#include "hammock/ops/attention.h"

#include <cmath>
#include <limits>

#include "base/throw.h"
#include "hammock/ops/elementwise.h"
#include "hammock/ops/matmul.h"
#include "hammock/ops/nn.h"
#include "hammock/ops/reduce.h"
#include "hammock/ops/shape.h"
#include "ir/primitives.h"
#include "ops/kit/compose.h"
#include "ops/kit/record.h"
#include "ops/primitives/attention_node.h"
#include "ops/primitives/families.h"
#include "trace/autocast.h"

namespace hammock {

using namespace ops;  // NOLINT: the writer's kit of this folder

namespace {

extern const OpDef kScaledDotProductAttention;

using Maybe = std::optional<Tensor>;

Tensor Never(const Tensor& like) {
  return ConstantLike(-std::numeric_limits<double>::infinity(), like);
}

/// The batch dims of both, broadcast to each other.
Dims CommonBatch(const Tensor& a, const Tensor& b) {
  Dims batch = a.sizes(), other = b.sizes();
  for (Dims* sizes : {&batch, &other}) {
    for (int i = 0; i < 2 && !sizes->empty(); ++i) sizes->erase(sizes->size() - 1);
  }
  return BroadcastSizes("_attention", batch, other);
}

Tensor WithBatch(const Tensor& x, const Dims& batch) {
  if (x.dim() < 2) return x;  // refused later
  Dims sizes = batch;
  for (int d : {-2, -1}) sizes.push_back(x.size(d));
  return Broadcasted(x, sizes);
}

Tensor OrUndefined(const Maybe& tensor) { return tensor ? *tensor : Tensor(); }

std::tuple<Tensor, Tensor> Attend(const Tensor& query, const Tensor& key, const Tensor& value,
                                  const Maybe& mask, double dropout_p, bool is_causal, double scale,
                                  bool weights, const Location& at) {
  Dims batch = CommonBatch(query, key);
  Dims all = BroadcastSizes("_attention", batch, CommonBatch(value, value));
  const Tensor operands[] = {WithBatch(query, all), WithBatch(key, all), WithBatch(value, all),
                             OrUndefined(mask)};
  const Attr attrs[] = {is_causal, scale};
  if (dropout_p == 0) {
    auto results = ApplyMulti(weights ? kAttentionWeights : kAttention, at, operands, attrs);
    return {results[0], weights ? results[1] : Tensor()};
  }
  const Shape* types[] = {&operands[0].shape(), &operands[1].shape(), &operands[2].shape(),
                          mask ? &mask->shape() : nullptr};
  InferShapes(kAttention, types, attrs);  // refuses what does not fit
  Tensor scores = AttentionScores(query, key, OrUndefined(mask), is_causal, scale);
  Tensor shares = dropout(softmax(scores, -1), dropout_p, true);
  return {matmul(shares, value), shares};
}

double DefaultScale(const Tensor& query) {
  return query.dim() == 0 || query.size(-1) == 0
             ? 1
             : 1 / std::sqrt(static_cast<double>(query.size(-1)));
}

// ---- Several heads

/// nn.functional's function, op by op; lengths are first, the batch second.
struct Heads {
  Tensor query, key, value;  // [length, batch, embed]
  int64_t count;
  int64_t length() const { return query.size(0); }
  int64_t batch() const { return query.size(1); }
  int64_t embed() const { return query.size(2); }
};

[[noreturn]] void Misfit(const char* what, const Tensor& tensor, const Dims& wanted) {
  Throw(ErrorCode::kShapeMismatch, "multi_head_attention_forward: {} must be of {}, got {}", what,
        ToString(wanted), tensor.shape().to_string());
}

void CheckEmbedding(const Tensor& query, const Tensor& key, const Tensor& value,
                    int64_t embed_dim_to_check, int64_t num_heads, bool separate) {
  constexpr const char* kOp = "multi_head_attention_forward";
  int rank = query.dim();
  if ((rank != 2 && rank != 3) || key.dim() != rank || value.dim() != rank) {
    Throw(ErrorCode::kShapeMismatch,
          "{}: query, key and value must all have 2 or all 3 dims, got {}, {} and {}", kOp,
          query.shape().to_string(), key.shape().to_string(), value.shape().to_string());
  }
  int64_t embed = query.size(-1);
  if (embed != embed_dim_to_check || num_heads < 1 || embed % num_heads != 0) {
    Throw(ErrorCode::kShapeMismatch, "{}: {} needs an embedding of {} that divides into {} heads",
          kOp, query.shape().to_string(), embed_dim_to_check, num_heads);
  }
  bool fits = key.size(0) == value.size(0) && (rank == 2 || key.size(1) == value.size(1)) &&
              (rank == 2 || key.size(1) == query.size(1)) &&
              (separate || (key.size(-1) == embed && value.size(-1) == embed));
  if (!fits) {
    Throw(ErrorCode::kShapeMismatch, "{}: key {} and value {} must fit each other and query {}",
          kOp, key.shape().to_string(), value.shape().to_string(), query.shape().to_string());
  }
}

/// Part `i` of three of a stacked weight or bias.
Tensor Third(const Tensor& stacked, int i, int64_t size) {
  return Sliced(stacked, 0, i * size, size);
}

void Project(Heads& h, const Maybe& in_proj_weight, const Maybe& in_proj_bias,
             const AttentionOptions& o) {
  int64_t embed = h.embed();
  const Maybe* separate[] = {&o.q_proj_weight, &o.k_proj_weight, &o.v_proj_weight};
  Tensor* inputs[] = {&h.query, &h.key, &h.value};
  if (in_proj_bias && in_proj_bias->sizes() != Dims{3 * embed}) {
    Misfit("in_proj_bias", *in_proj_bias, {3 * embed});
  }
  if (!o.use_separate_proj_weight &&
      (!in_proj_weight || in_proj_weight->sizes() != Dims{3 * embed, embed})) {
    Misfit("in_proj_weight", in_proj_weight.value_or(h.query), {3 * embed, embed});
  }
  for (int i = 0; i < 3; ++i) {
    Tensor weight;
    if (o.use_separate_proj_weight) {
      Dims wanted{embed, inputs[i]->size(-1)};
      if (!*separate[i] || (*separate[i])->sizes() != wanted) {
        Misfit("q_, k_ and v_proj_weight", separate[i]->value_or(*inputs[i]), wanted);
      }
      weight = **separate[i];
    } else {
      weight = Third(*in_proj_weight, i, embed);
    }
    Maybe bias = in_proj_bias ? Maybe(Third(*in_proj_bias, i, embed)) : Maybe();
    *inputs[i] = linear(*inputs[i], weight, bias);
  }
}

/// [length, batch, embed] as [batch * heads, length, embed / heads].
Tensor SplitHeads(const Tensor& x, const Heads& h) {
  int64_t per_head = h.embed() / h.count;
  return Permuted(Reshaped(x, {x.size(0), x.size(1) * h.count, per_head}), {1, 0, 2});
}

/// One more column that takes part.
Tensor Lengthened(const Tensor& mask) {
  return Padded(mask, mask.dim() - 1, 0, 1,
                mask.dtype() == DType::kBool ? Scalar(false) : Scalar(0.0));
}

Tensor Appended(const Tensor& x, const Tensor& more, int dim) {
  const Tensor parts[] = {x, more};
  return Concatenated(parts, dim);
}

Tensor AppendedBias(const Tensor& x, const Tensor& bias) {
  Dims sizes = x.sizes();
  sizes[0] = 1;
  return Appended(x, Broadcasted(bias, sizes), 0);
}

/// Masks where true means "left out", in the form in which they are added to scores.
Tensor AsAdded(const Tensor& mask, const Tensor& like) {
  if (mask.dtype() == DType::kBool || mask.dtype() == DType::kU8) {
    Tensor out = Casted(mask, DType::kBool);
    return where(out, Never(like), ConstantLike(0, like));
  }
  return Casted(mask, like.dtype());
}

struct HeadMasks {
  Maybe attention;  // [length, source] or [batch * heads, length, source]
  Maybe padding;    // [batch, source]
};

/// The sum of both masks, [batch * heads or 1, length, source].
Maybe CombinedMask(const HeadMasks& masks, const Heads& h, int64_t source) {
  int64_t length = h.length(), batch = h.batch(), all = batch * h.count;
  Maybe result;
  if (masks.attention) {
    Tensor mask = *masks.attention;
    if (mask.dim() == 2) mask = Reshaped(mask, {1, mask.size(0), mask.size(1)});
    bool fits = mask.dim() == 3 && (mask.size(0) == 1 || mask.size(0) == all) &&
                mask.size(1) == length && mask.size(2) == source;
    if (!fits) Misfit("attn_mask", *masks.attention, {length, source});
    result = AsAdded(mask, h.query);
  }
  if (masks.padding) {
    if (masks.padding->sizes() != Dims{batch, source}) {
      Misfit("key_padding_mask", *masks.padding, {batch, source});
    }
    Tensor mask = Reshaped(AsAdded(*masks.padding, h.query), {batch, 1, 1, source});
    mask = Reshaped(Broadcasted(mask, {batch, h.count, 1, source}), {all, 1, source});
    result = result ? *result + mask : mask;
  }
  return result;
}

Tensor WithStatic(const char* what, const Maybe& given, const Tensor& own, const Heads& h) {
  if (!given) return SplitHeads(own, h);
  int64_t all = h.batch() * h.count, per_head = h.embed() / h.count;
  if (given->dim() != 3 || given->size(0) != all || given->size(2) != per_head) {
    Misfit(what, *given, {all, own.size(0), per_head});
  }
  return *given;
}

Tensor Batched(const Tensor& x, bool batched) {
  return batched ? x : Reshaped(x, {x.size(0), 1, x.size(1)});
}

}  // namespace

Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const Maybe& attn_mask, double dropout_p, bool is_causal,
                                    std::optional<double> scale, Location at) {
  if (Autocasted cast(kScaledDotProductAttention, at); cast)
    return scaled_dot_product_attention(cast(query), cast(key), cast(value), cast(attn_mask),
                                        dropout_p, is_causal, scale, at);
  LocationScope scope(at);
  return std::get<0>(Attend(query, key, value, attn_mask, dropout_p, is_causal,
                            scale.value_or(DefaultScale(query)), false, at));
}

std::tuple<Tensor, Tensor> _scaled_dot_product_attention(const Tensor& query, const Tensor& key,
                                                         const Tensor& value,
                                                         const Maybe& attn_mask, double dropout_p,
                                                         bool need_attn_weights, bool is_causal,
                                                         Location at) {
  LocationScope scope(at);
  static_cast<void>(need_attn_weights);
  return Attend(query, key, value, attn_mask, dropout_p, is_causal, DefaultScale(query), true, at);
}

std::tuple<Tensor, Tensor> multi_head_attention_forward(
    const Tensor& query, const Tensor& key, const Tensor& value, int64_t embed_dim_to_check,
    int64_t num_heads, const Maybe& in_proj_weight, const Maybe& in_proj_bias,
    const Tensor& out_proj_weight, const Maybe& out_proj_bias, const AttentionOptions& o,
    Location at) {
  LocationScope scope(at);
  CheckEmbedding(query, key, value, embed_dim_to_check, num_heads, o.use_separate_proj_weight);
  bool batched = query.dim() == 3;
  Heads h{Batched(query, batched), Batched(key, batched), Batched(value, batched), num_heads};
  Project(h, in_proj_weight, in_proj_bias, o);
  HeadMasks masks{o.attn_mask, o.key_padding_mask};
  if (masks.padding && !batched)
    masks.padding = Reshaped(*masks.padding, {1, masks.padding->numel()});
  auto lengthen = [&] {
    if (masks.attention) masks.attention = Lengthened(*masks.attention);
    if (masks.padding) masks.padding = Lengthened(*masks.padding);
  };
  if (o.bias_k && o.bias_v) {
    h.key = AppendedBias(h.key, *o.bias_k);
    h.value = AppendedBias(h.value, *o.bias_v);
    lengthen();
  }
  int64_t length = h.length(), batch = h.batch(), embed = h.embed();
  Tensor q = SplitHeads(h.query, h), k = WithStatic("static_k", o.static_k, h.key, h);
  Tensor v = WithStatic("static_v", o.static_v, h.value, h);
  if (o.add_zero_attn) {
    Tensor zeros = Filled({batch * num_heads, 1, embed / num_heads}, int64_t{0}, q.dtype(), q);
    k = Appended(k, zeros, 1);
    v = Appended(v, zeros, 1);
    lengthen();
  }
  int64_t source = k.size(1);
  double p = o.training ? o.dropout_p : 0.0;
  auto [heads, weights] = Attend(q, k, v, CombinedMask(masks, h, source), p, false, DefaultScale(q),
                                 o.need_weights, at);
  Tensor joined = Reshaped(Permuted(heads, {1, 0, 2}), {length, batch, embed});
  Tensor result =
      out_proj_weight.defined() ? linear(joined, out_proj_weight, out_proj_bias) : joined;
  if (!batched) result = Reshaped(result, {length, result.size(2)});
  if (!o.need_weights) return {result, Tensor()};
  weights = Reshaped(weights, {batch, num_heads, length, source});
  if (o.average_attn_weights) weights = mean(weights, {1});
  if (!batched) {
    Dims sizes = weights.sizes();
    sizes.erase(0);
    weights = Reshaped(weights, sizes);
  }
  return {result, weights};
}

namespace {

/// nn.functional's order of arguments.
Any CallMultiHead(std::span<const Any> a) {
  auto tensor = [&](int i) { return a[i].IsNone() ? Maybe() : Maybe(a[i].ToTensor()); };
  AttentionOptions o;
  o.bias_k = tensor(7);
  o.bias_v = tensor(8);
  o.add_zero_attn = a[9].ToBool();
  o.dropout_p = a[10].ToDouble();
  o.training = a[13].ToBool();
  o.key_padding_mask = tensor(14);
  o.need_weights = a[15].ToBool();
  o.attn_mask = tensor(16);
  o.use_separate_proj_weight = a[17].ToBool();
  o.q_proj_weight = tensor(18);
  o.k_proj_weight = tensor(19);
  o.v_proj_weight = tensor(20);
  o.static_k = tensor(21);
  o.static_v = tensor(22);
  o.average_attn_weights = a[23].ToBool();
  auto [result, weights] = multi_head_attention_forward(
      a[0].ToTensor(), a[1].ToTensor(), a[2].ToTensor(), a[3].ToInt(), a[4].ToInt(), tensor(5),
      tensor(6), tensor(11).value_or(Tensor()), tensor(12), o);
  return Any::Tuple({Any(result), weights.defined() ? Any(weights) : Any()});
}

HAMMOCK_FUNCTION(kScaledDotProductAttention,
                 "scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? "
                 "attn_mask=None, float dropout_p=0.0, bool is_causal=False, float? scale=None) "
                 "-> Tensor",
                 "softmax(query @ key.t() * scale + mask) @ value.", scaled_dot_product_attention,
                 AutocastRule::kLow)
HAMMOCK_FUNCTION(kOldScaledDotProductAttention,
                 "_scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? "
                 "attn_mask=None, float dropout_p=0.0, bool need_attn_weights=False, bool "
                 "is_causal=False) -> (Tensor, Tensor)",
                 "scaled_dot_product_attention and its weights.", _scaled_dot_product_attention)
constinit const OpDef kMultiHeadAttention = {
    .schema =
        "multi_head_attention_forward(Tensor query, Tensor key, Tensor value, int "
        "embed_dim_to_check, int num_heads, Tensor? in_proj_weight, Tensor? in_proj_bias, Tensor? "
        "bias_k, Tensor? bias_v, bool add_zero_attn, float dropout_p, Tensor? out_proj_weight, "
        "Tensor? out_proj_bias, bool training=True, Tensor? key_padding_mask=None, bool "
        "need_weights=True, Tensor? attn_mask=None, bool use_separate_proj_weight=False, Tensor? "
        "q_proj_weight=None, Tensor? k_proj_weight=None, Tensor? v_proj_weight=None, Tensor? "
        "static_k=None, Tensor? static_v=None, bool average_attn_weights=True) -> Any",
    .doc = "Projects, attends with several heads, projects again; (output, weights).",
    .call = CallMultiHead,
};

}  // namespace

std::span<const OpDef* const> ops::AttentionOps() {
  static constexpr const OpDef* kOps[] = {&kAttention,
                                          &kAttentionWeights,
                                          &kAttentionBackward,
                                          &kScaledDotProductAttention,
                                          &kOldScaledDotProductAttention,
                                          &kMultiHeadAttention};
  return kOps;
}

}  // namespace hammock
