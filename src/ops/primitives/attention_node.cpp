// Attention as one node: inference, expansion and gradient.

#include "ops/primitives/attention_node.h"

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
#include "ops/primitives/families.h"

namespace hammock {

using namespace ops;  // NOLINT: the writer's kit of this folder

namespace {

Tensor Never(const Tensor& like) {
  return ConstantLike(-std::numeric_limits<double>::infinity(), like);
}

/// Scores with a mask: bool says what takes part, numbers are added.
Tensor Masked(const Tensor& scores, const Tensor& mask) {
  if (mask.dtype() == DType::kBool) return where(mask, scores, Never(scores));
  return scores + Casted(mask, scores.dtype());
}

Tensor Transposed(const Tensor& x) { return Moved(x, x.dim() - 1, x.dim() - 2); }

/// x[..., L] as [..., L, 1].
Tensor AsColumn(const Tensor& x) {
  Dims sizes = x.sizes();
  sizes.push_back(1);
  return Reshaped(x, sizes);
}

Tensor Scaled(const Tensor& x, double scale) { return x * ConstantLike(scale, x); }

/// Sizes of [..., L, S].
Dims ScoreSizes(const Shape& query, const Shape& key) {
  Dims sizes = query.sizes();
  sizes[sizes.size() - 1] = key.size(key.rank() - 2);
  return sizes;
}

int64_t Last(const Shape& x, int from_end) { return x.size(x.rank() - from_end); }

bool SameBatch(const Shape& a, const Shape& b) {
  if (a.rank() != b.rank()) return false;
  for (int d = 0; d + 2 < a.rank(); ++d) {
    if (a.size(d) != b.size(d)) return false;
  }
  return true;
}

void CheckAttention(const InferCall& c, const Shape& query, const Shape& key, const Shape& value,
                    const Shape* mask) {
  bool fits = query.rank() >= 2 && IsFloat(query.dtype()) && query.dtype() == key.dtype() &&
              query.dtype() == value.dtype() && SameBatch(query, key) && SameBatch(query, value) &&
              Last(query, 1) == Last(key, 1) && Last(key, 2) == Last(value, 2);
  if (!fits) {
    Refuse(c, ErrorCode::kShapeMismatch,
           "needs query (..., L, E), key (..., S, E) and value (..., S, V), floats of one dtype, "
           "got {}, {} and {}",
           query.to_string(), key.to_string(), value.to_string());
  }
  if (!mask) return;
  Dims scores = ScoreSizes(query, key);
  if (BroadcastSizes(c.op.name(), scores, mask->sizes()) != scores) {
    Throw(ErrorCode::kShapeMismatch, "{}: attn_mask {} does not broadcast to weights of {}",
          c.op.name(), mask->to_string(), ToString(scores));
  }
}

Shape RowType(const Shape& query) {
  Dims rows = query.sizes();
  rows.erase(rows.size() - 1);
  return Shape(WideFloat(query.dtype()), rows);
}

void InferAttention(const InferCall& c) {
  const Shape &query = *c.in[0], &key = *c.in[1], &value = *c.in[2];
  CheckAttention(c, query, key, value, c.in[3]);
  if (c.in[3] && c.attrs[0].boolean()) {
    Refuse(c, ErrorCode::kValue, "attn_mask must not be given where is_causal is set");
  }
  Dims sizes = query.sizes();
  sizes[sizes.size() - 1] = Last(value, 1);
  c.out.push_back(query.With(sizes));
  bool with_weights = &c.op == &kAttentionWeights;
  c.out.push_back(with_weights ? query.With(ScoreSizes(query, key)) : RowType(query));
}

void InferBackward(const InferCall& c) {
  const Shape &query = *c.in[1], &key = *c.in[2], &value = *c.in[3];
  CheckAttention(c, query, key, value, c.in[4]);
  const Dims rows = RowType(query).sizes();
  Dims result = rows;
  result.push_back(Last(value, 1));
  const Shape &grad = *c.in[0], &log_sum = *c.in[5], &delta = *c.in[6];
  if (grad.sizes() != result || log_sum.sizes() != rows || delta.sizes() != rows) {
    Refuse(c, ErrorCode::kShapeMismatch, "needs grad {} and rows {}, got {}, {} and {}",
           ToString(result), ToString(rows), grad.to_string(), log_sum.to_string(),
           delta.to_string());
  }
  for (const Shape* type : {&query, &key, &value}) c.out.push_back(*type);
}

/// The operands of one node, as they are computed with.
struct Call {
  Tensor query, key, value, mask;
  bool is_causal;
  double scale;

  Tensor Scores() const { return AttentionScores(query, key, mask, is_causal, scale); }
};

/// Where there are no keys there is no largest score.
Tensor LogSumExp(const Tensor& scores) {
  if (scores.size(-1) == 0) {
    Dims rows = ReducedSizes(scores.sizes(), {scores.dim() - 1}, false);
    return Filled(rows, -std::numeric_limits<double>::infinity(), scores.dtype(), scores);
  }
  Tensor largest = amax(scores, {-1}, true);
  Tensor sum = hammock::sum(exp(scores - largest), {-1});
  return Reshaped(largest, sum.sizes()) + log(sum);
}

std::vector<Tensor> ExpandAttention(const ExpandCall& c) {
  DType dtype = c.out[0].dtype(), wide = WideFloat(dtype);
  Call call = {Casted(c.in[0], wide), Casted(c.in[1], wide), Casted(c.in[2], wide), c.in[3],
               c.attrs[0].boolean(),  c.attrs[1].real()};
  Tensor scores = call.Scores();
  Tensor weights = softmax(scores, -1);
  Tensor out = Casted(matmul(weights, call.value), dtype);
  if (&c.op == &kAttentionWeights) return {out, Casted(weights, dtype)};
  return {out, LogSumExp(scores)};
}

/// The softmax again, and the gradient of the scores. `delta` is what each row of it sums to.
struct ScoreGradient {
  ScoreGradient(const Call& call, const Tensor& grad, const Tensor& log_sum, const Tensor& delta)
      : weights(exp(call.Scores() - AsColumn(log_sum))),
        scores(weights * (matmul(grad, Transposed(call.value)) - AsColumn(delta))) {}
  Tensor weights, scores;
};

std::vector<Tensor> ExpandBackward(const ExpandCall& c) {
  DType dtype = c.out[0].dtype(), wide = WideFloat(dtype);
  Call call = {Casted(c.in[1], wide), Casted(c.in[2], wide), Casted(c.in[3], wide), c.in[4],
               c.attrs[0].boolean(),  c.attrs[1].real()};
  Tensor grad = Casted(c.in[0], wide);
  ScoreGradient gradient(call, grad, c.in[5], c.in[6]);
  Tensor query = Scaled(matmul(gradient.scores, call.key), call.scale);
  Tensor key = matmul(Transposed(gradient.scores), Scaled(call.query, call.scale));
  Tensor value = matmul(Transposed(gradient.weights), grad);
  return {Casted(query, dtype), Casted(key, dtype), Casted(value, dtype)};
}

std::vector<Tensor> AttentionVjp(const VjpCall& c) {
  DType wide = WideFloat(c.in[0].dtype());
  Tensor grad = Casted(c.grads[0], wide);
  // A softmax passes on what differs from its weighted mean; the denominator's own gradient adds.
  Tensor delta = sum(grad * Casted(c.out[0], wide), {-1}) - c.grads[1];
  std::vector<Tensor> result(4);
  if (c.needs(0) || c.needs(1) || c.needs(2)) {
    const Tensor operands[] = {c.grads[0], c.in[0], c.in[1], c.in[2], c.in[3], c.out[1], delta};
    std::vector<Tensor> gradients = ApplyMulti(kAttentionBackward, Location(), operands, c.attrs);
    for (size_t i = 0; i < 3; ++i) {
      if (c.needs(i)) result[i] = gradients[i];
    }
  }
  if (c.in[3].defined() && c.needs(3)) {
    Call call = {Casted(c.in[0], wide), Casted(c.in[1], wide), Casted(c.in[2], wide), c.in[3],
                 c.attrs[0].boolean(),  c.attrs[1].real()};
    Tensor scores = ScoreGradient(call, grad, c.out[1], delta).scores;
    result[3] = Casted(SummedTo(scores, c.in[3].sizes()), c.in[3].dtype());
  }
  return result;
}

}  // namespace

Tensor ops::AttentionScores(const Tensor& query, const Tensor& key, const Tensor& mask,
                            bool is_causal, double scale) {
  Tensor scores = matmul(Scaled(query, scale), Transposed(key));
  if (is_causal) {
    Tensor row = CountingAlong(0, 2, query.size(-2), query);
    Tensor column = CountingAlong(1, 2, key.size(-2), query);
    scores = Masked(scores, le(column, row));
  }
  return mask.defined() ? Masked(scores, mask) : scores;
}

constinit const OpDef ops::kAttention = {
    .schema =
        "_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask, bool is_causal, "
        "float scale) -> (Tensor, Tensor)",
    .doc = "softmax(query @ key.t() * scale + mask) @ value, and the logsumexp of the scores.",
    .version = 2,
    .infer = InferAttention,
    .expand = ExpandAttention,
    .vjp = AttentionVjp,
    .num_outputs = 2,
    .samples = {{"f32[2,3,4] f32[2,5,4] f32[2,5,4] f32[3,5]", "{is_causal=false, scale=0.5}"},
                {"f32[2,2,5,4] f32[2,2,3,4] f32[2,2,3,6] none", "{is_causal=true, scale=0.5}"}},
};
constinit const OpDef ops::kAttentionWeights = {
    .schema =
        "_attention_with_weights(Tensor query, Tensor key, Tensor value, Tensor? attn_mask, bool "
        "is_causal, float scale) -> (Tensor, Tensor)",
    .doc = "softmax(query @ key.t() * scale + mask) @ value, and the softmax.",
    .infer = InferAttention,
    .expand = ExpandAttention,
    .num_outputs = 2,
    .samples = {{"f32[2,3,4] f32[2,5,4] f32[2,5,4] f32[3,5]", "{is_causal=false, scale=0.5}"}},
};
constinit const OpDef ops::kAttentionBackward = {
    .schema =
        "_attention_backward(Tensor grad, Tensor query, Tensor key, Tensor value, Tensor? "
        "attn_mask, Tensor logsumexp, Tensor delta, bool is_causal, float scale) -> (Tensor, "
        "Tensor, Tensor)",
    .doc =
        "Gradients of _attention's query, key and value; delta is the sum of each row of grad * "
        "result.",
    .infer = InferBackward,
    .expand = ExpandBackward,
    .num_outputs = 3,
    .samples = {{"f32[2,3,4] f32[2,3,4] f32[2,5,4] f32[2,5,4] f32[3,5] f32[2,3] f32[2,3]",
                 "{is_causal=false, scale=0.5}"}},
};

}  // namespace hammock
