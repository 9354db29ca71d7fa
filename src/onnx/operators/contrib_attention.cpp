/// Attention of com.microsoft, as exporters of language models and ONNX Runtime's optimizer write
/// it.

#include <cmath>
#include <limits>

#include "onnx/operators/microsoft.h"
#include "onnx/operators/quantized.h"

namespace hammock::onnx {
namespace {

/// (batch, heads, length, size) of (batch, length, heads * size).
Tensor ByHeads(const Tensor& x, int64_t heads) {
  return x.reshape({x.size(0), x.size(1), heads, x.size(2) / heads}).permute({0, 2, 1, 3});
}
Tensor Joined(const Tensor& x) {
  return x.permute({0, 2, 1, 3}).reshape({x.size(0), x.size(2), x.size(1) * x.size(3)});
}

double ScaleOf(const Call& c, const Tensor& query) {
  double given = c.Float("scale", 0);
  return given != 0 ? given : 1 / std::sqrt(static_cast<double>(query.size(-1)));
}

int64_t HeadsOf(const Call& c, const char* name = "num_heads") {
  int64_t heads = c.Int(name, 0);
  if (heads < 1) c.Fail("{} is {}", name, heads);
  return heads;
}

/// A bias for scores: `value` where `seen` is false, else 0.
Tensor Hidden(const Tensor& seen, DType dtype, double value) {
  Tensor none = zeros_like(seen, dtype);
  return where(seen, none, full_like(none, value));
}

/// A mask in one of its forms: lengths, lengths and starts, or 1 and 0 of 2 to 4 dims.
Tensor MaskBias(const Call& c, const Tensor& mask, int64_t batch, int64_t rows, int64_t columns,
                DType dtype) {
  double value = c.Float("mask_filter_value", -10000);
  Tensor column = arange(columns, DType::kI32, c.device());
  if (mask.dim() == 1 && mask.size(0) == batch) {
    return Hidden(column < mask.reshape({batch, 1, 1, 1}), dtype, value);
  }
  if (mask.dim() == 1 && mask.size(0) == 2 * batch) {
    Tensor end = narrow(mask, 0, 0, batch).reshape({batch, 1, 1, 1});
    Tensor start = narrow(mask, 0, batch, batch).reshape({batch, 1, 1, 1});
    return Hidden(logical_and(column < end, column >= start), dtype, value);
  }
  Tensor seen = mask.dtype() == DType::kBool ? mask : mask > 0;
  if (mask.dim() == 2) return Hidden(seen.reshape({batch, 1, 1, -1}), dtype, value);
  if (mask.dim() == 3) return Hidden(seen.unsqueeze(1), dtype, value);
  if (mask.dim() == 4) {  // of the longest lengths
    Tensor part = narrow(narrow(seen, 2, columns - rows, rows), 3, 0, columns);
    return Hidden(part, dtype, value);
  }
  c.Unsupported("a mask of {}", mask.shape().to_string());
}

struct Scores {
  double scale = 1;
  Tensor bias = {};     ///< added, where it is defined
  bool causal = false;  ///< queries are the last ones of the keys
  double softcap = 0;
  Tensor sink = {};  ///< one more score of each row, which takes weight from the others
};

void AddTo(Tensor& bias, const Tensor& more) { bias = bias.defined() ? bias + more : more; }

Tensor Attend(const Call& c, const Tensor& query, const Tensor& key, const Tensor& value,
              Scores scores) {
  if (scores.causal) {
    int64_t rows = query.size(2), columns = key.size(2);
    Tensor row = arange(rows, DType::kI64, c.device()).unsqueeze(1) + (columns - rows);
    Tensor seen = arange(columns, DType::kI64, c.device()) <= row;
    AddTo(scores.bias, Hidden(seen, query.dtype(), InfoOf(query.dtype()).lowest / 2));
  }
  if (scores.softcap > 0 || scores.sink.defined()) {
    Tensor products = matmul(query, key.transpose(-2, -1)) * scores.scale;
    if (scores.softcap > 0) products = tanh(products / scores.softcap) * scores.softcap;
    if (scores.bias.defined()) products = products + scores.bias;
    if (!scores.sink.defined()) return matmul(softmax(products, -1), value);
    Dims column = products.sizes();
    column[column.size() - 1] = 1;
    Tensor weights = softmax(cat({products, broadcast_to(scores.sink, column)}, -1), -1);
    return matmul(narrow(weights, -1, 0, key.size(2)), value);
  }
  std::optional<Tensor> mask;
  if (scores.bias.defined()) {
    mask = broadcast_to(scores.bias, {query.size(0), query.size(1), query.size(2), key.size(2)});
  }
  return scaled_dot_product_attention(query, key, value, mask, 0.0, false, scores.scale);
}

}  // namespace

Values AttentionOf(Call& c, const AttentionInputs& inputs) {
  int64_t heads = HeadsOf(c);
  const Tensor& all = inputs.projected;
  std::vector<int64_t> widths = c.IntList("qkv_hidden_sizes");
  if (widths.size() != 3) widths.assign(3, all.size(-1) / 3);
  int64_t at = 0;
  std::vector<Tensor> parts;
  for (int64_t width : widths) {
    parts.push_back(ByHeads(narrow(all, -1, at, width), heads));
    at += width;
  }
  Tensor query = parts[0], key = parts[1], value = parts[2];
  if (inputs.past) {
    key = cat({select(*inputs.past, 0, 0), key}, 2);
    value = cat({select(*inputs.past, 0, 1), value}, 2);
  }
  Scores scores{.scale = ScaleOf(c, query), .causal = c.Int("unidirectional", 0) != 0};
  if (inputs.mask) {
    scores.bias = MaskBias(c, *inputs.mask, all.size(0), query.size(2), key.size(2), all.dtype());
  }
  if (inputs.bias) AddTo(scores.bias, *inputs.bias);
  Values results{Joined(Attend(c, query, key, value, scores))};
  if (c.Wants(1)) results.push_back(stack({key, value}, 0));
  return results;
}

namespace {

Values Attention(Call& c) {
  Tensor all = matmul(c[0], c[1]);
  if (c.Has(2)) all = all + c[2];
  return AttentionOf(c, {all, c.Optional(3), c.Optional(4), c.Optional(5)});
}

Values MultiHeadAttention(Call& c) {
  int64_t heads = HeadsOf(c);
  Tensor query = c[0], key, value;
  auto packed = [](const Tensor& x, int64_t part) {  // (batch, length, heads, parts, size)
    return select(x, 3, part).permute({0, 2, 1, 3});
  };
  std::optional<Tensor> bias = c.Optional(3);
  int64_t from = 0;
  auto given = [&](const Tensor& x) {
    if (x.dim() == 4) return x;
    int64_t width = x.size(-1);
    Tensor biased = bias ? x + narrow(*bias, 0, from, width) : x;
    from += width;
    return ByHeads(biased, heads);
  };
  if (query.dim() == 5) {
    if (bias) c.Unsupported("a bias of packed inputs");
    key = packed(query, 1);
    value = packed(query, 2);
    query = packed(query, 0);
  } else {
    query = given(query);
    Tensor keys = c[1];
    key = keys.dim() == 5 ? packed(keys, 0) : given(keys);
    value = keys.dim() == 5 ? packed(keys, 1) : given(c[2]);
  }
  if (c.Has(6)) {
    key = cat({c[6], key}, 2);
    value = cat({c[7], value}, 2);
  }
  Scores scores{.scale = ScaleOf(c, query), .causal = c.Int("unidirectional", 0) != 0};
  if (c.Has(4)) {
    scores.bias = MaskBias(c, c[4], query.size(0), query.size(2), key.size(2), query.dtype());
  }
  if (c.Has(5)) AddTo(scores.bias, c[5]);
  return {Joined(Attend(c, query, key, value, scores)), key, value};
}

/// Rotates pairs of (batch, heads, length, size) by the rows of the caches at (batch, length).
Tensor Rotated(const Tensor& x, const Tensor& positions, const Tensor& cosines, const Tensor& sines,
               bool interleaved) {
  auto rows = [&](const Tensor& cache) {
    return index_select(cache, 0, positions.reshape({-1}))
        .reshape({positions.size(0), 1, positions.size(1), cache.size(1)});
  };
  Tensor cosine = rows(cosines), sine = rows(sines);
  int64_t half = cosines.size(1), width = 2 * half;
  Tensor rotated = narrow(x, -1, 0, width);
  Tensor a = interleaved ? slice(rotated, -1, 0, width, 2) : narrow(rotated, -1, 0, half);
  Tensor b = interleaved ? slice(rotated, -1, 1, width, 2) : narrow(rotated, -1, half, half);
  Tensor real = a * cosine - b * sine, imaginary = a * sine + b * cosine;
  Tensor y = interleaved ? stack({real, imaginary}, -1).reshape(rotated.sizes())
                         : cat({real, imaginary}, -1);
  int64_t rest = x.size(-1) - width;
  return rest > 0 ? cat({y, narrow(x, -1, width, rest)}, -1) : y;
}

Values RotaryEmbedding(Call& c) {
  Tensor x = c[0], at = c[1].to(DType::kI64);
  bool flat = x.dim() == 3;
  int64_t width = c.Int("rotary_embedding_dim", 0);
  if (width == 0) width = 2 * c[2].size(1);
  int64_t heads = c.Int("num_heads", 0);
  if (flat && heads == 0 && width > 0) heads = x.size(2) / width;
  if (flat && heads < 1) c.Fail("heads of {} in {}", width, x.shape().to_string());
  Tensor parts = flat ? ByHeads(x, heads) : x;
  int64_t batch = parts.size(0), length = parts.size(2);
  if (at.numel() == 1) {  // where the first one is
    at = broadcast_to((at.reshape({1}) + arange(length, DType::kI64, c.device())).unsqueeze(0),
                      {batch, length});
  }
  Tensor y = Rotated(parts, at, c[2], c[3], c.Int("interleaved", 0) != 0);
  return {flat ? Joined(y) : y};
}

/// Keys and values lie in buffers, of which each sample has filled a part.
Values GroupQueryAttention(Call& c) {
  int64_t heads = HeadsOf(c), shared = HeadsOf(c, "kv_num_heads");
  if (heads % shared != 0) c.Fail("{} heads share {}", heads, shared);
  Tensor query = c[0], key, value;
  if (c.Has(1)) {
    key = ByHeads(c[1], shared);
    value = ByHeads(c[2], shared);
    query = ByHeads(query, heads);
  } else {
    Tensor all = ByHeads(query, heads + 2 * shared);
    query = narrow(all, 1, 0, heads);
    key = narrow(all, 1, heads, shared);
    value = narrow(all, 1, heads + shared, shared);
  }
  int64_t batch = query.size(0), length = query.size(2), width = query.size(3);
  int64_t total = c.Number(6).ToInt();
  int64_t capacity = std::max(total, c.Has(3) ? c[3].size(2) : int64_t{0});
  Tensor steps = arange(length, DType::kI64, c.device()).unsqueeze(0);
  Tensor at = broadcast_to(steps, {batch, length});
  if (length != total) {
    at = steps + (c[5].to(DType::kI64).reshape({batch, 1}) + (1 - length));
  }
  if (c.Int("do_rotary", 0)) {
    bool interleaved = c.Int("rotary_interleaved", 0) != 0;
    Tensor positions = at;
    if (c.Has(9)) {  // of a prompt that of the first token counts, as in ONNX Runtime
      positions = c[9].to(DType::kI64);
      if (length == total) positions = narrow(positions.reshape({-1}), 0, 0, 1) + at;
    }
    query = Rotated(query, positions, c[7], c[8], interleaved);
    key = Rotated(key, positions, c[7], c[8], interleaved);
  }
  auto filled = [&](const Tensor& fresh, size_t past) {
    if (!c.Has(past) && length == total) return fresh;
    Tensor buffer =
        c.Has(past) ? c[past] : zeros({batch, shared, 0, width}, fresh.dtype(), c.device());
    if (buffer.size(2) < capacity) {
      buffer = constant_pad_nd(buffer, {0, 0, 0, capacity - buffer.size(2)});
    }
    Tensor index = broadcast_to(at.reshape({batch, 1, length, 1}), fresh.sizes());
    return scatter(buffer, 2, index, fresh);
  };
  Tensor keys = filled(key, 3), values = filled(value, 4);
  Tensor column = arange(keys.size(2), DType::kI64, c.device());
  Tensor row = at.reshape({batch, 1, length, 1});
  Tensor seen = column <= row;
  if (int64_t window = c.Int("local_window_size", -1); window > 0) {
    seen = logical_and(seen, column > row - window);
  }
  Scores scores{.scale = ScaleOf(c, query), .softcap = c.Float("softcap", 0)};
  scores.bias = Hidden(seen, query.dtype(), InfoOf(query.dtype()).lowest / 2);
  if (c.Has(10)) {  // of the keys that are filled
    int64_t rest = keys.size(2) - c[10].size(-1);
    AddTo(scores.bias, rest > 0 ? constant_pad_nd(c[10], {0, rest}) : c[10]);
  }
  if (c.Has(11)) {
    scores.sink = c[11].reshape({1, heads, 1, 1});
  } else if (c.Int("smooth_softmax", -1) == 1) {
    scores.sink = zeros({}, query.dtype(), c.device());
  }
  int64_t each = heads / shared;
  Tensor y = Attend(c, query, each == 1 ? keys : repeat_interleave(keys, each, 1),
                    each == 1 ? values : repeat_interleave(values, each, 1), scores);
  return {Joined(y), keys, values};
}

constexpr Operator kRows[] = {
    OfMicrosoft(
        "Attention", Attention,
        "input weights bias mask_index past attention_bias !past_sequence_length; num_heads "
        "scale mask_filter_value unidirectional qkv_hidden_sizes rotary_embedding_dim "
        "do_rotary=0 past_present_share_buffer=0"),
    OfMicrosoft("GroupQueryAttention", GroupQueryAttention,
                "query key value past_key past_value seqlens_k total_sequence_length cos_cache "
                "sin_cache position_ids attention_bias head_sink !k_scale !v_scale !q_norm_weight "
                "!k_norm_weight; num_heads kv_num_heads scale softcap local_window_size do_rotary "
                "rotary_interleaved smooth_softmax qk_norm_epsilon causal=1 sliding_window_cache=0 "
                "qk_output=0 kv_cache_bit_width=0 k_quant_type=NONE v_quant_type=NONE"),
    OfMicrosoft("MultiHeadAttention", MultiHeadAttention,
                "query key value bias key_padding_mask attention_bias past_key past_value "
                "!past_sequence_length !cache_indirection; num_heads scale mask_filter_value "
                "unidirectional"),
    OfMicrosoft(
        "RotaryEmbedding", RotaryEmbedding,
        "input position_ids cos_cache sin_cache; num_heads rotary_embedding_dim interleaved "
        "is_packed_batching=0 scale=1"),
};

}  // namespace

std::span<const Operator> ContribAttentionOperators() { return kRows; }

}  // namespace hammock::onnx
