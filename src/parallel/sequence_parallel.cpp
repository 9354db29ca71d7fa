#include "hammock/distributed/sequence_parallel.h"

#include <cmath>
#include <limits>

#include "base/location_scope.h"
#include "base/throw.h"
#include "distributed/group.h"
#include "hammock/autograd.h"
#include "hammock/distributed/random_part.h"
#include "hammock/ops.h"

namespace hammock::distributed {
namespace {

using autograd::AutogradContext;

/// A ring of ranks, the same for all its hops.
struct Ring {
  Group group;
  bool is_causal;
  double scale;

  /// The rank whose keys are here after so many hops.
  int OwnerAfter(int hops) const { return (group.rank() - hops + group.size()) % group.size(); }
  bool Sees(int owner) const { return !is_causal || owner <= group.rank(); }
  Tensor Next(const Tensor& x) const {
    std::vector<std::pair<int, int>> pairs;
    for (int i = 0; i < group.size(); ++i) pairs.push_back({i, (i + 1) % group.size()});
    return permute(x, pairs, group);
  }
  /// [..., queries, keys], -inf where a query does not see a key.
  Tensor Scores(const Tensor& query, const Tensor& key, int owner) const {
    Tensor scores = matmul(query, key.transpose(-2, -1)) * Scalar(scale);
    if (!is_causal || owner != group.rank()) return scores;
    Tensor later = triu(ones({query.size(-2), key.size(-2)}, DType::kBool, query.device()), 1);
    return masked_fill(scores, later, Scalar(-std::numeric_limits<double>::infinity()));
  }
};

Ring RingOf(AutogradContext* context) {
  return {Group(FindGroup(context->saved_data.at("group").ToStringRef())),
          context->saved_data.at("causal").ToBool(), context->saved_data.at("scale").ToDouble()};
}

struct RingAttention : autograd::Function<RingAttention> {
  static Tensor forward(AutogradContext* context, const Tensor& query, const Tensor& key,
                        const Tensor& value, bool is_causal, double scale,
                        const std::string& group) {
    context->saved_data["group"] = Any(group);
    context->saved_data["causal"] = Any(is_causal);
    context->saved_data["scale"] = Any(scale);
    const Ring ring = RingOf(context);
    const DType dtype = query.dtype(), wide = dtype == DType::kF64 ? dtype : DType::kF32;
    Tensor q = query.to(wide), k = key, v = value, out, total;
    for (int hop = 0; hop < ring.group.size(); ++hop) {
      if (const int owner = ring.OwnerAfter(hop); ring.Sees(owner)) {
        Tensor scores = ring.Scores(q, k.to(wide), owner);
        Tensor lse = logsumexp(scores, {-1}, true);
        Tensor part = matmul(exp(scores - lse), v.to(wide));
        if (!out.defined()) {
          out = part;
          total = lse;
        } else {
          Tensor both = logaddexp(total, lse);
          out = out * exp(total - both) + part * exp(lse - both);
          total = both;
        }
      }
      if (hop + 1 == ring.group.size()) break;
      k = ring.Next(k);
      v = ring.Next(v);
    }
    Tensor result = out.to(dtype);
    context->save_for_backward({query, key, value, result, total});
    return result;
  }

  static std::vector<Tensor> backward(AutogradContext* context, std::vector<Tensor> grads) {
    const Ring ring = RingOf(context);
    std::vector<Tensor> saved = context->get_saved_variables();
    const DType dtype = saved[0].dtype(), wide = dtype == DType::kF64 ? dtype : DType::kF32;
    Tensor q = saved[0].to(wide), k = saved[1], v = saved[2], total = saved[4];
    Tensor grad = grads[0].to(wide);
    Tensor delta = sum(grad * saved[3].to(wide), {-1}, true);
    Tensor dq = zeros_like(q), dk = zeros_like(k.to(wide)), dv = zeros_like(v.to(wide));
    for (int hop = 0; hop < ring.group.size(); ++hop) {
      if (const int owner = ring.OwnerAfter(hop); ring.Sees(owner)) {
        Tensor wide_k = k.to(wide);
        Tensor weights = exp(ring.Scores(q, wide_k, owner) - total);
        Tensor dscores =
            weights * (matmul(grad, v.to(wide).transpose(-2, -1)) - delta) * Scalar(ring.scale);
        dv = dv + matmul(weights.transpose(-2, -1), grad);
        dq = dq + matmul(dscores, wide_k);
        dk = dk + matmul(dscores.transpose(-2, -1), q);
      }
      if (hop + 1 < ring.group.size()) {
        k = ring.Next(k);
        v = ring.Next(v);
      }
      dk = ring.Next(dk);  // after the last hop they are at home
      dv = ring.Next(dv);
    }
    return {dq.to(dtype), dk.to(dtype), dv.to(dtype)};
  }
};

void Check(const char* op, const Tensor& query, const Tensor& key, const Tensor& value) {
  if (query.dim() >= 2 && query.sizes() == key.sizes() && key.sizes() == value.sizes()) return;
  Throw(ErrorCode::kShapeMismatch,
        "{}: needs queries, keys and values of equal sizes, got {}, {}, {}", op,
        query.shape().to_string(), key.shape().to_string(), value.shape().to_string());
}

}  // namespace

Tensor ring_attention(const Tensor& query, const Tensor& key, const Tensor& value, bool is_causal,
                      std::optional<double> scale, const Group& group, Location at) {
  LocationScope scope(at);
  Check("ring_attention", query, key, value);
  const double factor = scale.value_or(1 / std::sqrt(static_cast<double>(query.size(-1))));
  return RingAttention::apply(query, key, value, is_causal, factor, group.name());
}

Tensor head_parallel_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                               bool is_causal, double dropout_p, std::optional<double> scale,
                               const Group& group, Location at) {
  LocationScope scope(at);
  Check("head_parallel_attention", query, key, value);
  if (query.dim() < 3 || query.size(-3) % group.size() != 0) {
    Throw(ErrorCode::kShapeMismatch,
          "head_parallel_attention: needs [..., heads, length, width] with heads divisible by {} "
          "ranks, got {}",
          group.size(), query.shape().to_string());
  }
  const int64_t heads = query.dim() - 3, length = query.dim() - 2;
  auto to_heads = [&](const Tensor& x) { return all_to_all(x, heads, length, group); };
  RandomPart part(group, heads);
  Tensor y = scaled_dot_product_attention(to_heads(query), to_heads(key), to_heads(value),
                                          std::nullopt, dropout_p, is_causal, scale);
  return all_to_all(y, length, heads, group);
}

}  // namespace hammock::distributed
