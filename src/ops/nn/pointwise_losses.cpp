// Losses of one element at a time, and those of pairs of vectors.

#include <numbers>

#include "base/throw.h"
#include "hammock/ops/create.h"
#include "hammock/ops/elementwise.h"
#include "hammock/ops/losses.h"
#include "hammock/ops/nn.h"
#include "hammock/ops/reduce.h"
#include "ir/primitives.h"
#include "ops/kit/compose.h"
#include "ops/kit/index_steps.h"
#include "ops/kit/record.h"
#include "ops/kit/reduce_steps.h"
#include "ops/nn/loss_steps.h"
#include "ops/primitives/families.h"
#include "ops/primitives/require.h"
#include "trace/autocast.h"

namespace hammock {

using namespace ops;  // NOLINT: the writer's kit of this folder

namespace {

extern const OpDef kBinaryCrossEntropyWithLogits, kCosineEmbeddingLoss, kCosineSimilarity,
    kGaussianNllLoss, kHingeEmbeddingLoss, kHuberLoss, kKlDiv, kMarginRankingLoss, kPdist,
    kPoissonNllLoss, kSmoothL1Loss, kSoftMarginLoss, kTripletMarginLoss;

extern const OpDef kBinaryCrossEntropy;

/// The dtype of a result of both, by PyTorch's promotion.
DType Common(const Tensor& a, const Tensor& b) {
  const Shape* types[] = {&a.shape(), &b.shape()};
  return ComputeDType(kAdd, types);
}

void NeedCommonFloat(const char* op, const Tensor& a, const Tensor& b) {
  if (IsFloat(Common(a, b))) return;
  Throw<TypeError>(ErrorCode::kDTypeMismatch, "{}: needs a floating dtype, got {} and {}; cast one",
                   op, a.shape().to_string(), b.shape().to_string());
}

void NeedSameSizes(const char* op, const Tensor& input, const Tensor& target) {
  if (input.sizes() == target.sizes()) return;
  Throw(ErrorCode::kShapeMismatch, "{}: target {} must have the sizes of input {}", op,
        target.shape().to_string(), input.shape().to_string());
}

/// The dtype to compute in: f32 for f16, bf16 and integers.
DType Computing(DType dtype) { return WideFloat(FloatOf(dtype)); }

/// Reduced in the computing dtype, then rounded once.
Tensor Finish(const Tensor& loss, const std::string& reduction, DType dtype) {
  return Casted(Reduced(loss, reduction), FloatOf(dtype));
}

Tensor Halved(const Tensor& x) { return x * ConstantLike(0.5, x); }

/// x where positive, else zero, also for the gradient.
Tensor Positive(const Tensor& x) { return clamp_min(x, 0); }

// ---- Binary cross entropy

void InferBinaryCrossEntropy(const InferCall& c) {
  const Shape& input = *c.in[0];
  bool fits =
      IsFloat(input.dtype()) && *c.in[1] == input &&
      (!c.in[2] || BroadcastSizes(c.op.name(), input.sizes(), c.in[2]->sizes()) == input.sizes());
  if (!fits) {
    Refuse(c, ErrorCode::kShapeMismatch,
           "needs floats, a target of the same type and a weight that broadcasts to it, got {}, {} "
           "and {}",
           input.to_string(), c.in[1]->to_string(), c.in[2] ? c.in[2]->to_string() : "no weight");
  }
  c.out.push_back(c.attrs[0].str() == "none" ? input : input.With(Dims()));
}

/// log(x), but not below -100; its gradient is zero there instead of infinite.
Tensor BoundedLog(const Tensor& x) {
  Tensor low = le(abs(x), ConstantLike(std::exp(-100.0), x));
  Tensor safe = where(low, ConstantLike(1, x), x);
  return where(low, ConstantLike(-100, x), log(safe));
}

Tensor CheckedProbabilities(const Tensor& x) {
  return Required(x, InRange(x, 0, 1), "binary_cross_entropy",
                  "all elements of input must be between 0 and 1");
}

Tensor CrossEntropyOf(const Tensor& x, const Tensor& target) {
  Tensor one = ConstantLike(1, x);
  return (target - one) * BoundedLog(one - x) - target * BoundedLog(x);
}

std::vector<Tensor> ExpandBinaryCrossEntropy(const ExpandCall& c) {
  DType dtype = c.out[0].dtype();
  Tensor x = Casted(c.in[0], WideFloat(dtype));
  x = CheckedProbabilities(x);
  Tensor loss = CrossEntropyOf(x, Casted(c.in[1], x.dtype()));
  if (c.in[2].defined()) loss = loss * Casted(c.in[2], x.dtype());
  return {Casted(Reduced(loss, c.attrs[0].str()), dtype)};
}

/// That of the input is bounded where it is 0 or 1, that of the target is not; as in PyTorch.
std::vector<Tensor> BinaryCrossEntropyVjp(const VjpCall& c) {
  DType dtype = c.in[0].dtype(), wide = WideFloat(dtype);
  Tensor x = CheckedProbabilities(Casted(c.in[0], wide)), target = Casted(c.in[1], wide);
  Tensor g = Casted(c.grad(), wide), one = ConstantLike(1, x);
  if (c.attrs[0].str() == "mean") g = g / ConstantLike(x.numel(), g);
  g = Broadcasted(g, x.sizes());
  Tensor weighted = c.in[2].defined() ? g * Casted(c.in[2], wide) : g;
  Tensors grads(3);
  if (c.needs(0)) {
    Tensor slope = (x - target) / maximum(x * (one - x), ConstantLike(1e-12, x));
    grads[0] = Casted(weighted * slope, dtype);
  }
  if (c.needs(1)) grads[1] = Casted(weighted * (log(one - x) - log(x)), dtype);
  if (c.needs(2)) {
    Tensor share = SummedTo(g * CrossEntropyOf(x, target), c.in[2].sizes());
    grads[2] = Casted(share, c.in[2].dtype());
  }
  return grads;
}

}  // namespace

Tensor binary_cross_entropy(const Tensor& input, const Tensor& target,
                            const std::optional<Tensor>& weight, const std::string& reduction,
                            Location at) {
  if (Autocasted cast(kBinaryCrossEntropy, at); cast)
    return binary_cross_entropy(cast(input), cast(target), cast(weight), reduction, at);
  LocationScope scope(at);
  CheckReduction("binary_cross_entropy", reduction);
  NeedFloat("binary_cross_entropy", input);
  NeedSameSizes("binary_cross_entropy", input, target);
  return Apply(kBinaryCrossEntropy, at, {input, target, weight ? *weight : Tensor()}, {reduction});
}

Tensor binary_cross_entropy_with_logits(const Tensor& input, const Tensor& target,
                                        const std::optional<Tensor>& weight,
                                        const std::string& reduction,
                                        const std::optional<Tensor>& pos_weight, Location at) {
  if (Autocasted cast(kBinaryCrossEntropyWithLogits, at); cast)
    return binary_cross_entropy_with_logits(cast(input), cast(target), cast(weight), reduction,
                                            cast(pos_weight), at);
  LocationScope scope(at);
  constexpr const char* kOp = "binary_cross_entropy_with_logits";
  CheckReduction(kOp, reduction);
  NeedSameSizes(kOp, input, target);
  NeedCommonFloat(kOp, input, target);
  DType dtype = Common(input, target), wide = WideFloat(dtype);
  Tensor x = Casted(input, wide), t = Casted(target, wide), one = ConstantLike(1, x);
  Tensor positive = log_sigmoid(x);
  if (pos_weight) positive = positive * ((Casted(*pos_weight, wide) - one) * t + one);
  Tensor loss = (one - t) * x - positive;
  if (weight) loss = loss * Casted(*weight, wide);
  return Finish(loss, reduction, dtype);
}

Tensor kl_div(const Tensor& input, const Tensor& target, const std::string& reduction,
              bool log_target, Location at) {
  if (Autocasted cast(kKlDiv, at); cast)
    return kl_div(cast(input), cast(target), reduction, log_target, at);
  LocationScope scope(at);
  bool by_batch = reduction == "batchmean";
  if (!by_batch) CheckReduction("kl_div", reduction);
  NeedCommonFloat("kl_div", input, target);
  DType dtype = Common(input, target), wide = WideFloat(dtype);
  Tensor x = Casted(input, wide), t = Casted(target, wide);
  Tensor loss = log_target ? exp(t) * (t - x) : xlogy(t, t) - t * x;
  if (!by_batch) return Finish(loss, reduction, dtype);
  Tensor total = sum(loss);
  if (input.dim() > 0) total = total / ConstantLike(input.size(0), total);
  return Casted(total, dtype);
}

// ---- Distances of numbers

Tensor smooth_l1_loss(const Tensor& input, const Tensor& target, const std::string& reduction,
                      double beta, Location at) {
  if (Autocasted cast(kSmoothL1Loss, at); cast)
    return smooth_l1_loss(cast(input), cast(target), reduction, beta, at);
  LocationScope scope(at);
  CheckReduction("smooth_l1_loss", reduction);
  if (!(beta >= 0)) {
    Throw(ErrorCode::kValue, "smooth_l1_loss: beta must be at least 0, got {}", beta);
  }
  if (beta == 0) return l1_loss(input, target, reduction, at);
  NeedCommonFloat("smooth_l1_loss", input, target);
  DType dtype = Common(input, target), wide = WideFloat(dtype);
  Tensor distance = abs(Casted(input, wide) - Casted(target, wide));
  Tensor near = minimum(distance, beta);  // an infinite distance has no square to be differentiated
  Tensor loss = where(lt(distance, beta), Halved(near * near) / beta, distance - 0.5 * beta);
  return Finish(loss, reduction, dtype);
}

Tensor huber_loss(const Tensor& input, const Tensor& target, const std::string& reduction,
                  double delta, Location at) {
  if (Autocasted cast(kHuberLoss, at); cast)
    return huber_loss(cast(input), cast(target), reduction, delta, at);
  LocationScope scope(at);
  CheckReduction("huber_loss", reduction);
  if (!(delta > 0)) {
    Throw(ErrorCode::kValue, "huber_loss: delta must be greater than 0, got {}", delta);
  }
  NeedCommonFloat("huber_loss", input, target);
  DType dtype = Common(input, target), wide = WideFloat(dtype);
  Tensor distance = abs(Casted(input, wide) - Casted(target, wide));
  Tensor near = minimum(distance, delta);  // as in smooth_l1_loss
  Tensor loss = where(lt(distance, delta), Halved(near * near), (distance - 0.5 * delta) * delta);
  return Finish(loss, reduction, dtype);
}

// ---- Likelihoods

Tensor gaussian_nll_loss(const Tensor& input, const Tensor& target, const Tensor& var, bool full,
                         double eps, const std::string& reduction, Location at) {
  if (Autocasted cast(kGaussianNllLoss, at); cast)
    return gaussian_nll_loss(cast(input), cast(target), cast(var), full, eps, reduction, at);
  LocationScope scope(at);
  CheckReduction("gaussian_nll_loss", reduction);
  // One variance an element, or one for each last dim.
  Dims sizes = var.sizes();
  if (sizes != input.sizes() && sizes.size() + 1 == input.dim()) sizes.push_back(1);
  bool fits = sizes.size() == input.dim();
  for (int i = 0; fits && i < sizes.size(); ++i) {
    fits = sizes[i] == input.size(i) || (i == sizes.size() - 1 && sizes[i] == 1);
  }
  if (!fits) {
    Throw(ErrorCode::kShapeMismatch,
          "gaussian_nll_loss: var {} must have the sizes of input {}, or 1 in the last dim, or "
          "lack it",
          var.shape().to_string(), input.shape().to_string());
  }
  NeedCommonFloat("gaussian_nll_loss", input, target);
  DType dtype = PromoteTypes(Common(input, target), var.dtype()), wide = WideFloat(dtype);
  Tensor variance = Reshaped(Casted(var, wide), sizes);
  Tensor positive = logical_not(lt(variance, ConstantLike(0, variance)));
  variance = Required(variance, positive, "gaussian_nll_loss", "var has negative entries");
  // As in PyTorch the bound changes the value but not the gradient.
  Tensor bounded = (variance - detach(variance)) + eps;
  variance = where(lt(variance, eps), bounded, variance);
  Tensor distance = Casted(input, wide) - Casted(target, wide);
  Tensor loss = Halved(log(variance) + distance * distance / variance);
  if (full) loss = loss + ConstantLike(0.5 * std::log(2 * std::numbers::pi), loss);
  return Finish(loss, reduction, dtype);
}

Tensor poisson_nll_loss(const Tensor& input, const Tensor& target, bool log_input, bool full,
                        double eps, const std::string& reduction, Location at) {
  if (Autocasted cast(kPoissonNllLoss, at); cast)
    return poisson_nll_loss(cast(input), cast(target), log_input, full, eps, reduction, at);
  LocationScope scope(at);
  CheckReduction("poisson_nll_loss", reduction);
  DType dtype = Common(input, target), wide = Computing(dtype);
  Tensor x = Casted(input, wide), t = Casted(target, wide);
  Tensor loss = log_input ? exp(x) - t * x : x - t * log(x + eps);
  if (full) {
    // Stirling's approximation of log(t!), which counts only above one.
    Tensor small = le(t, ConstantLike(1, t));
    Tensor safe = where(small, ConstantLike(1, t), t);
    Tensor tau = ConstantLike(2 * std::numbers::pi, t);
    Tensor stirling = safe * log(safe) - safe + Halved(log(tau * safe));
    loss = loss + where(small, ConstantLike(0, t), stirling);
  }
  return Finish(loss, reduction, dtype);
}

// ---- Margins

Tensor soft_margin_loss(const Tensor& input, const Tensor& target, const std::string& reduction,
                        Location at) {
  if (Autocasted cast(kSoftMarginLoss, at); cast)
    return soft_margin_loss(cast(input), cast(target), reduction, at);
  LocationScope scope(at);
  CheckReduction("soft_margin_loss", reduction);
  NeedCommonFloat("soft_margin_loss", input, target);
  DType dtype = Common(input, target), wide = WideFloat(dtype);
  return Finish(log1p(exp(-(Casted(target, wide) * Casted(input, wide)))), reduction, dtype);
}

Tensor hinge_embedding_loss(const Tensor& input, const Tensor& target, double margin,
                            const std::string& reduction, Location at) {
  if (Autocasted cast(kHingeEmbeddingLoss, at); cast)
    return hinge_embedding_loss(cast(input), cast(target), margin, reduction, at);
  LocationScope scope(at);
  CheckReduction("hinge_embedding_loss", reduction);
  Tensor x = Casted(input, Computing(input.dtype())), zero = ConstantLike(0, x);
  Tensor apart = where(ne(target, ConstantLike(1, target)), Positive(margin - x), zero);
  Tensor together = where(ne(target, ConstantLike(-1, target)), x, zero);
  return Finish(apart + together, reduction, input.dtype());
}

Tensor margin_ranking_loss(const Tensor& input1, const Tensor& input2, const Tensor& target,
                           double margin, const std::string& reduction, Location at) {
  if (Autocasted cast(kMarginRankingLoss, at); cast)
    return margin_ranking_loss(cast(input1), cast(input2), cast(target), margin, reduction, at);
  LocationScope scope(at);
  CheckReduction("margin_ranking_loss", reduction);
  if (input1.dim() != input2.dim() || input1.dim() != target.dim()) {
    Throw(ErrorCode::kShapeMismatch,
          "margin_ranking_loss: all must have as many dims, got {}, {} and {}",
          input1.shape().to_string(), input2.shape().to_string(), target.shape().to_string());
  }
  DType dtype = PromoteTypes(Common(input1, input2), target.dtype()), wide = Computing(dtype);
  // Integers wrap before the margin makes floats of them.
  DType common = IsFloat(dtype) ? wide : dtype;
  Tensor distance = Casted(input1, common) - Casted(input2, common);
  Tensor signed_distance = Casted(-Casted(target, common) * distance, wide);
  return Finish(Positive(signed_distance + margin), reduction, dtype);
}

// ---- Pairs of vectors

Tensor cosine_similarity(const Tensor& x1, const Tensor& x2, int64_t dim, double eps, Location at) {
  if (Autocasted cast(kCosineSimilarity, at); cast)
    return cosine_similarity(cast(x1), cast(x2), dim, eps, at);
  LocationScope scope(at);
  NeedCommonFloat("cosine_similarity", x1, x2);
  Dims sizes = BroadcastSizes("cosine_similarity", x1.sizes(), x2.sizes());
  int d = WrapDim("cosine_similarity", dim, sizes.size());
  DType dtype = Common(x1, x2), wide = WideFloat(dtype);
  auto scaled = [&](const Tensor& x) {
    Tensor full = Broadcasted(Casted(x, wide), sizes);
    Tensor length = norm(full, 2.0, {d}, true);
    // As in PyTorch the bound changes the value but not the gradient.
    Tensor bounded = (length - detach(length)) + eps;
    return full / where(lt(length, eps), bounded, length);
  };
  return Casted(sum(scaled(x1) * scaled(x2), {d}), dtype);
}

Tensor pairwise_distance(const Tensor& x1, const Tensor& x2, double p, double eps, bool keepdim,
                         Location at) {
  LocationScope scope(at);
  DType dtype = Common(x1, x2), wide = Computing(dtype);
  DType common = IsFloat(dtype) ? wide : dtype;  // integers wrap before `eps` makes floats of them
  Tensor distance = Casted(Casted(x1, common) - Casted(x2, common), wide) + eps;
  return Casted(norm(distance, p, {-1}, keepdim), FloatOf(dtype));
}

Tensor pdist(const Tensor& self, double p, Location at) {
  if (Autocasted cast(kPdist, at); cast) return pdist(cast(self), p, at);
  LocationScope scope(at);
  NeedFloat("pdist", self);
  if (self.dim() != 2) {
    Throw(ErrorCode::kShapeMismatch, "pdist: needs a matrix, got {}", self.shape().to_string());
  }
  if (!(p >= 0)) Throw(ErrorCode::kValue, "pdist: p must be at least 0, got {}", p);
  int64_t rows = self.size(0), pairs = rows * (rows - 1) / 2;
  if (pairs == 0 || self.size(1) == 0) {
    return Filled({pairs}, int64_t{0}, self.dtype(), self);
  }
  Tensor index = triu_indices(rows, rows, 1, DType::kI64, self.device());
  auto side = [&](int which) {
    Tensor row = Reshaped(Sliced(index, 0, which, 1), {pairs});
    return Rows(Casted(self, WideFloat(self.dtype())), row, 0);
  };
  return Casted(norm(side(0) - side(1), p, {1}, false), self.dtype());
}

Tensor normalize(const Tensor& self, double p, int64_t dim, double eps, Location at) {
  LocationScope scope(at);
  NeedFloat("normalize", self);
  Tensor x = Casted(self, WideFloat(self.dtype()));
  return Casted(x / clamp_min(norm(x, p, {dim}, true), eps), self.dtype());
}

Tensor cosine_embedding_loss(const Tensor& input1, const Tensor& input2, const Tensor& target,
                             double margin, const std::string& reduction, Location at) {
  if (Autocasted cast(kCosineEmbeddingLoss, at); cast)
    return cosine_embedding_loss(cast(input1), cast(input2), cast(target), margin, reduction, at);
  LocationScope scope(at);
  CheckReduction("cosine_embedding_loss", reduction);
  int dim = target.dim();
  if (dim > 1 || input1.dim() != dim + 1 || input2.dim() != dim + 1) {
    Throw(ErrorCode::kShapeMismatch,
          "cosine_embedding_loss: needs a vector of targets for two matrices, or one target for "
          "two vectors, got {} for {} and {}",
          target.shape().to_string(), input1.shape().to_string(), input2.shape().to_string());
  }
  DType dtype = Common(input1, input2);
  Tensor a = Casted(input1, Computing(dtype)), b = Casted(input2, a.dtype());
  auto along = [&](const Tensor& x) { return sum(x, {dim}); };
  Tensor tiny = ConstantLike(1e-12, a);
  Tensor similar = along(a * b) / sqrt((along(a * a) + tiny) * (along(b * b) + tiny));
  Tensor zero = ConstantLike(0, a);
  Tensor together = where(eq(target, 1), ConstantLike(1, a) - similar, zero);
  Tensor apart = where(eq(target, -1), Positive(similar - margin), zero);
  return Finish(together + apart, reduction, dtype);
}

Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           double margin, double p, double eps, bool swap,
                           const std::string& reduction, Location at) {
  if (Autocasted cast(kTripletMarginLoss, at); cast)
    return triplet_margin_loss(cast(anchor), cast(positive), cast(negative), margin, p, eps, swap,
                               reduction, at);
  LocationScope scope(at);
  CheckReduction("triplet_margin_loss", reduction);
  if (anchor.dim() != positive.dim() || anchor.dim() != negative.dim()) {
    Throw(ErrorCode::kShapeMismatch,
          "triplet_margin_loss: all must have as many dims, got {}, {} and {}",
          anchor.shape().to_string(), positive.shape().to_string(), negative.shape().to_string());
  }
  DType dtype = PromoteTypes(Common(anchor, positive), negative.dtype()), wide = Computing(dtype);
  Tensor a = Casted(anchor, wide), near = Casted(positive, wide), far = Casted(negative, wide);
  Tensor close = pairwise_distance(a, near, p, eps), distant = pairwise_distance(a, far, p, eps);
  if (swap) distant = minimum(distant, pairwise_distance(near, far, p, eps));
  return Finish(Positive(close - distant + margin), reduction, dtype);
}

// ---- Records

namespace {

constinit const OpDef kBinaryCrossEntropy = {
    .schema =
        "binary_cross_entropy(Tensor input, Tensor target, Tensor? weight=None, "
        "str reduction=\"mean\") -> Tensor",
    .doc = "Cross entropy of probabilities of one class, with logarithms of at least -100.",
    .call = Box<binary_cross_entropy>,
    .autocast = AutocastRule::kF32,
    .infer = InferBinaryCrossEntropy,
    .expand = ExpandBinaryCrossEntropy,
    .vjp = BinaryCrossEntropyVjp,
    .can_fail = true,
    .domain = {.lo = 0.1, .hi = 0.9},
    .samples = {{"f32[2,3] f32[2,3] f32[3]", "{reduction=\"mean\"}"}},
};
HAMMOCK_FUNCTION(kBinaryCrossEntropyWithLogits,
                 "binary_cross_entropy_with_logits(Tensor input, Tensor target, Tensor? "
                 "weight=None, str reduction=\"mean\", Tensor? pos_weight=None) -> Tensor",
                 "Cross entropy of scores of one class.", binary_cross_entropy_with_logits,
                 AutocastRule::kF32)
HAMMOCK_FUNCTION(kKlDiv,
                 "kl_div(Tensor input, Tensor target, str reduction=\"mean\", bool "
                 "log_target=False) -> Tensor",
                 "Divergence of distributions, `input` as logarithms.", kl_div, AutocastRule::kF32)
HAMMOCK_FUNCTION(kSmoothL1Loss,
                 "smooth_l1_loss(Tensor input, Tensor target, str reduction=\"mean\", float "
                 "beta=1.0) -> Tensor",
                 "Squared differences below `beta`, absolute ones above.", smooth_l1_loss,
                 AutocastRule::kF32)
HAMMOCK_FUNCTION(kHuberLoss,
                 "huber_loss(Tensor input, Tensor target, str reduction=\"mean\", float "
                 "delta=1.0) -> Tensor",
                 "Squared differences up to `delta`, absolute ones above.", huber_loss,
                 AutocastRule::kF32)
HAMMOCK_FUNCTION(kGaussianNllLoss,
                 "gaussian_nll_loss(Tensor input, Tensor target, Tensor var, bool full=False, "
                 "float eps=1e-06, str reduction=\"mean\") -> Tensor",
                 "Negated log-likelihood of normal distributions.", gaussian_nll_loss,
                 AutocastRule::kF32)
HAMMOCK_FUNCTION(kPoissonNllLoss,
                 "poisson_nll_loss(Tensor input, Tensor target, bool log_input=True, bool "
                 "full=False, float eps=1e-08, str reduction=\"mean\") -> Tensor",
                 "Negated log-likelihood of Poisson distributions.", poisson_nll_loss,
                 AutocastRule::kF32)
HAMMOCK_FUNCTION(kSoftMarginLoss,
                 "soft_margin_loss(Tensor input, Tensor target, str reduction=\"mean\") -> Tensor",
                 "log(1 + exp(-target * input)).", soft_margin_loss, AutocastRule::kF32)
HAMMOCK_FUNCTION(kHingeEmbeddingLoss,
                 "hinge_embedding_loss(Tensor input, Tensor target, float margin=1.0, str "
                 "reduction=\"mean\") -> Tensor",
                 "Distances where the target is 1, their distance below `margin` where it is -1.",
                 hinge_embedding_loss, AutocastRule::kF32)
HAMMOCK_FUNCTION(kMarginRankingLoss,
                 "margin_ranking_loss(Tensor input1, Tensor input2, Tensor target, float "
                 "margin=0.0, str reduction=\"mean\") -> Tensor",
                 "Hinge losses where input1 is not `margin` above (target 1) or below input2 (-1).",
                 margin_ranking_loss, AutocastRule::kF32)
HAMMOCK_FUNCTION(kCosineSimilarity,
                 "cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08) -> Tensor",
                 "Cosines of the angles between vectors along `dim`.", cosine_similarity,
                 AutocastRule::kF32)
HAMMOCK_FUNCTION(kPairwiseDistance,
                 "pairwise_distance(Tensor x1, Tensor x2, float p=2.0, float eps=1e-06, bool "
                 "keepdim=False) -> Tensor",
                 "Norms of x1 - x2 + eps along the last dim.", pairwise_distance)
HAMMOCK_FUNCTION(kPdist, "pdist(Tensor self, float p=2.0) -> Tensor",
                 "Distances of all pairs of rows.", pdist, AutocastRule::kF32)
HAMMOCK_FUNCTION(kNormalize,
                 "normalize(Tensor self, float p=2.0, int dim=1, float eps=1e-12) -> Tensor",
                 "Divides by the norm along `dim`.", normalize)
HAMMOCK_FUNCTION(kCosineEmbeddingLoss,
                 "cosine_embedding_loss(Tensor input1, Tensor input2, Tensor target, float "
                 "margin=0.0, str reduction=\"mean\") -> Tensor",
                 "1 - cosine where the target is 1, the cosine above `margin` where it is -1.",
                 cosine_embedding_loss, AutocastRule::kF32)
HAMMOCK_FUNCTION(kTripletMarginLoss,
                 "triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, float "
                 "margin=1.0, float p=2.0, float eps=1e-06, bool swap=False, str "
                 "reduction=\"mean\") -> Tensor",
                 "Hinge losses where the negative is not `margin` further from the anchor.",
                 triplet_margin_loss, AutocastRule::kF32)

}  // namespace

std::span<const OpDef* const> ops::PointwiseLossOps() {
  static constexpr const OpDef* kOps[] = {
      &kBinaryCrossEntropy,
      &kBinaryCrossEntropyWithLogits,
      &kKlDiv,
      &kSmoothL1Loss,
      &kHuberLoss,
      &kGaussianNllLoss,
      &kPoissonNllLoss,
      &kSoftMarginLoss,
      &kHingeEmbeddingLoss,
      &kMarginRankingLoss,
      &kCosineSimilarity,
      &kPairwiseDistance,
      &kPdist,
      &kNormalize,
      &kCosineEmbeddingLoss,
      &kTripletMarginLoss,
  };
  return kOps;
}

}  // namespace hammock
