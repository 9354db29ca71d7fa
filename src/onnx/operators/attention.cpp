#include <cmath>
#include <limits>

#include "onnx/operators/families.h"
#include "onnx/program.h"
#include "ops/primitives/loop.h"

namespace hammock::onnx {
namespace {

/// (batch, heads, length, size) of a tensor that has heads and size in its last dim.
Tensor WithHeads(const Tensor& x, int64_t heads) {
  if (x.dim() == 4) return x;
  return x.reshape({x.size(0), x.size(1), heads, x.size(2) / heads}).permute({0, 2, 1, 3});
}

Tensor WithoutHeads(const Tensor& x) {
  return x.permute({0, 2, 1, 3}).reshape({x.size(0), x.size(2), x.size(1) * x.size(3)});
}

/// Heads that several query heads share are repeated.
Tensor Shared(const Call& c, const Tensor& x, int64_t heads) {
  if (x.size(1) == heads) return x;
  if (x.size(1) == 0 || heads % x.size(1) != 0) c.Fail("{} heads share {}", heads, x.size(1));
  return repeat_interleave(x, heads / x.size(1), 1);
}

/// The bias that is added to the scores: the mask, its missing columns, later keys and padding.
Tensor BiasOf(const Call& c, DType dtype, int64_t rows, int64_t columns, int64_t past) {
  double low = -std::numeric_limits<double>::infinity();
  Tensor none = full({}, low, dtype, c.device()), zero = zeros({}, dtype, c.device());
  Tensor bias;
  auto add = [&](const Tensor& more) { bias = bias.defined() ? bias + more : more; };
  if (c.Has(3)) {
    Tensor mask = c[3];
    if (mask.dtype() == DType::kBool) mask = where(mask, zero, none);
    if (mask.size(-1) < columns) {
      mask = constant_pad_nd(mask, {0, columns - mask.size(-1)}, low);
    }
    add(mask);
  }
  Tensor column = arange(columns, DType::kI64, c.device());
  if (c.Int("is_causal", 0)) {
    Tensor row = arange(rows, DType::kI64, c.device()).unsqueeze(1) + past;
    // Queries are the last ones of what each sample holds.
    if (c.Has(6)) row = (row + (c[6].to(DType::kI64).reshape({-1, 1, 1, 1}) - rows));
    add(where(column <= row, zero, none));
  }
  if (c.Has(6)) add(where(column < c[6].to(DType::kI64).reshape({-1, 1, 1, 1}), zero, none));
  return bias;
}

Values Attention(Call& c) {
  Tensor query = c[0], key = c[1], value = c[2];
  bool flat = query.dim() == 3;
  int64_t heads = flat ? c.Int("q_num_heads", 1) : query.size(1);
  int64_t kv_heads = flat ? c.Int("kv_num_heads", heads) : key.size(1);
  if (heads < 1 || kv_heads < 1) c.Fail("{} and {} heads", heads, kv_heads);
  query = WithHeads(query, heads);
  key = WithHeads(key, kv_heads);
  value = WithHeads(value, kv_heads);
  int64_t past = 0;
  if (c.Has(4)) {
    past = c[4].size(2);
    key = cat({c[4], key}, 2);
    value = cat({c[5], value}, 2);
  }
  Tensor keys = Shared(c, key, heads), values = Shared(c, value, heads);
  double scale = c.HasAttribute("scale") ? c.Float("scale", 1)
                                         : 1 / std::sqrt(static_cast<double>(query.size(-1)));
  double softcap = c.Float("softcap", 0);
  Tensor bias = BiasOf(c, query.dtype(), query.size(2), keys.size(2), past);
  int64_t wanted = c.Wants(3) ? c.Int("qk_matmul_output_mode", 0) : -1;
  double root = std::sqrt(std::abs(scale));
  Tensor scores = matmul(query * (scale < 0 ? -root : root), (keys * root).transpose(-2, -1));
  Tensor seen = scores;
  if (softcap > 0) scores = tanh(scores / softcap) * softcap;
  if (wanted == 1) seen = scores;
  if (bias.defined()) scores = scores + bias;
  if (wanted == 2) seen = scores;
  DType precision = c.HasAttribute("softmax_precision")
                        ? DTypeOfElement(static_cast<int32_t>(c.Int("softmax_precision", 1)))
                        : scores.dtype();
  Tensor weights = softmax(scores.to(precision), -1).to(query.dtype());
  // A row with nothing to attend to gives zeros.
  if (bias.defined()) {
    Tensor most = amax(scores, {-1}, true);
    weights = where(isneginf(most), zeros_like(weights), weights);
  }
  if (wanted == 3) seen = weights;
  Tensor y = matmul(weights, values);
  return {flat ? WithoutHeads(y) : y, key, value, seen};
}

Values RotaryEmbedding(Call& c) {
  Tensor x = c[0], cosine = c[1], sine = c[2];
  bool flat = x.dim() == 3;
  int64_t heads = c.Int("num_heads", 0);
  if (flat && heads < 1) c.Fail("num_heads is needed for {}", x.shape().to_string());
  Tensor parts = WithHeads(x, heads);  // (batch, heads, length, size)
  int64_t width = c.Int("rotary_embedding_dim", 0);
  if (width == 0) width = parts.size(-1);
  if (c.Has(3)) {
    Tensor at = c[3].to(DType::kI64);
    auto rows = [&](const Tensor& cache) {
      return index_select(cache, 0, at.reshape({-1})).reshape({at.size(0), at.size(1), -1});
    };
    cosine = rows(cosine);
    sine = rows(sine);
  }
  cosine = cosine.unsqueeze(1);
  sine = sine.unsqueeze(1);
  Tensor rotated = narrow(parts, -1, 0, width);
  Tensor rest = narrow(parts, -1, width, parts.size(-1) - width);
  bool interleaved = c.Int("interleaved", 0);
  int64_t half = width / 2;
  Tensor a = interleaved ? slice(rotated, -1, 0, width, 2) : narrow(rotated, -1, 0, half);
  Tensor b = interleaved ? slice(rotated, -1, 1, width, 2) : narrow(rotated, -1, half, half);
  Tensor real = cosine * a - sine * b, imaginary = sine * a + cosine * b;
  rotated = interleaved ? stack({real, imaginary}, -1).reshape(rotated.sizes())
                        : cat({real, imaginary}, -1);
  Tensor y = rest.size(-1) > 0 ? cat({rotated, rest}, -1) : rotated;
  return {flat ? WithoutHeads(y) : y};
}

/// The state of each head is a matrix that a step changes; see the recurrences of the operator.
Values LinearAttention(Call& c) {
  int64_t heads = c.Int("q_num_heads", 1), kv = c.Int("kv_num_heads", heads);
  if (heads < 1 || kv < 1 || heads % kv != 0) c.Fail("{} and {} heads", heads, kv);
  auto by_time = [&](const Tensor& x, int64_t count) {  // (time, batch, heads, size)
    return x.to(DType::kF32).reshape({x.size(0), x.size(1), count, -1}).permute({1, 0, 2, 3});
  };
  Tensor query = by_time(c[0], heads), key = by_time(c[1], kv), value = by_time(c[2], kv);
  int64_t batch = query.size(1), steps = query.size(0), dk = key.size(3), dv = value.size(3);
  std::string rule = c.Text("update_rule", "gated_delta");
  bool gated = rule == "gated" || rule == "gated_delta", delta = rule.ends_with("delta");
  double scale = c.Float("scale", 0);
  if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(dk));
  ops::LoopOperands operands;
  Tensor start =
      c.Has(3) ? c[3].to(DType::kF32) : zeros({batch, kv, dk, dv}, DType::kF32, c.device());
  operands.carried = {start};
  operands.stacked = {query, key, value};
  if (gated) operands.stacked.push_back(by_time(c[4], kv));
  if (delta) {
    Tensor beta = c[5].to(DType::kF32).permute({1, 0, 2}).unsqueeze(-1);
    operands.stacked.push_back(beta);
  }
  int64_t share = heads / kv;
  auto body = [&](const ops::LoopStep& s) -> std::vector<Tensor> {
    Tensor state = s.carried[0];
    Tensor q = s.slices[0], k = s.slices[1].unsqueeze(-1), v = s.slices[2].unsqueeze(-2);
    if (gated) state = exp(s.slices[3].unsqueeze(-1)) * state;
    if (delta) {
      Tensor beta = s.slices[gated ? 4 : 3].unsqueeze(-1);
      v = beta * (v - matmul(k.transpose(-2, -1), state));
    }
    state = state + k * v;
    Tensor grouped = q.reshape({batch, kv, share, dk});
    Tensor out = matmul(grouped, state) * scale;
    return {state, out.reshape({batch, heads, dv})};
  };
  std::vector<Tensor> results = ops::Loop(steps, operands, body);
  Tensor y = results[1].permute({1, 0, 2, 3}).reshape({batch, steps, heads * dv});
  return {y.to(c[0].dtype()), results[0].to(c.Has(3) ? c[3].dtype() : c[0].dtype())};
}

/// Attention with graphs of the model between its steps.
Values FlexAttention(Call& c) {
  Tensor query = c[0], key = Shared(c, c[1], query.size(1)), value = Shared(c, c[2], query.size(1));
  DType wide = query.dtype() == DType::kF64 ? DType::kF64 : DType::kF32;
  if (c.HasAttribute("softmax_precision")) {
    wide = DTypeOfElement(static_cast<int32_t>(c.Int("softmax_precision", 1)));
  }
  double scale = c.HasAttribute("scale") ? c.Float("scale", 1)
                                         : 1 / std::sqrt(static_cast<double>(query.size(-1)));
  auto changed = [&](const char* name, const Tensor& x) {
    if (!c.HasAttribute(name)) return x;
    const format::Graph& graph = c.Graph(name);
    if (graph.inputs.size() != 1 || graph.outputs.size() != 1) {
      c.Fail("'{}' has {} inputs and {} outputs", name, graph.inputs.size(), graph.outputs.size());
    }
    Scope scope(&c.run().scope());
    scope.Set(graph.inputs[0].name, x);
    return c.run().TensorOf(c.run().RunGraph(graph, scope)[0]);
  };
  Tensor scores = matmul(query.to(wide), key.to(wide).transpose(-2, -1)) * scale;
  Tensor weights = changed("prob_mod", softmax(changed("score_mod", scores), -1));
  return {matmul(weights.to(query.dtype()), value)};
}

constexpr Operator kRows[] = {
    {"Attention", 23, kNewestOpset, Attention},
    {"FlexAttention", 1, kNewestOpset, FlexAttention, Needs::kScope, "ai.onnx.preview"},
    {"LinearAttention", 27, kNewestOpset, LinearAttention},
    {"RotaryEmbedding", 23, kNewestOpset, RotaryEmbedding},
};

}  // namespace

std::span<const Operator> AttentionOperators() { return kRows; }

}  // namespace hammock::onnx
