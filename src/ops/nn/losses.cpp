// Losses that classifiers and regressions start from.

#include "hammock/ops/losses.h"
#include "base/throw.h"
#include "hammock/ops/elementwise.h"
#include "hammock/ops/index.h"
#include "hammock/ops/nn.h"
#include "hammock/ops/reduce.h"
#include "ir/primitives.h"
#include "ops/kit/compose.h"
#include "ops/kit/index_steps.h"
#include "ops/nn/loss_steps.h"
#include "ops/primitives/families.h"
#include "trace/autocast.h"

namespace hammock {

using namespace ops;  // NOLINT: the writer's kit of this folder

void ops::CheckReduction(const char* op, const std::string& reduction) {
  if (reduction == "none" || reduction == "mean" || reduction == "sum") return;
  Throw(ErrorCode::kValue, "{}: reduction must be none, mean or sum, got '{}'", op, reduction);
}

Tensor ops::Reduced(const Tensor& loss, const std::string& reduction) {
  if (reduction == "mean") return mean(loss);
  return reduction == "sum" ? sum(loss) : loss;
}

namespace {

extern const OpDef kL1Loss, kMseLoss, kNllLoss2d;

extern const OpDef kCrossEntropy, kNllLoss;

/// Classes are dim 1, or dim 0 of an input without a batch.
int ClassDim(const Shape& input) { return input.rank() == 1 ? 0 : 1; }

Dims WithoutClasses(const Shape& input) {
  Dims sizes = input.sizes();
  sizes.erase(ClassDim(input));
  return sizes;
}

void CheckTarget(const char* op, const Shape& input, const Shape& target, const Shape* weight) {
  bool indices = IsIntegral(target.dtype());
  Dims wanted = indices ? WithoutClasses(input) : input.sizes();
  if (target.sizes() != wanted || (indices && target.dtype() != DType::kI64)) {
    Throw(ErrorCode::kShapeMismatch, "{}: target of input {} must be i64{}, got {}", op,
          input.to_string(), ToString(WithoutClasses(input)), target.to_string());
  }
  int64_t classes = input.size(ClassDim(input));
  if (weight && (weight->rank() != 1 || weight->size(0) != classes)) {
    Throw(ErrorCode::kShapeMismatch,
          "{}: weight must hold one number for each of {} classes, got {}", op, classes,
          weight->to_string());
  }
}

/// A vector reshaped to lie dim `dim` of `rank` dims.
Tensor AlongDim(const Tensor& vector, int dim, int rank) {
  Dims sizes = Dims::Filled(rank, 1);
  sizes[dim] = vector.numel();
  return Reshaped(vector, sizes);
}

struct Picked {
  Tensor loss;    // -weight[target] * logp[target], 0 where ignored
  Tensor weight;  // weight[target], 0 where ignored
  Tensor valid;
};

Picked PickTargets(const Tensor& logp, const Tensor& target, const Tensor& weight,
                   int64_t ignore_index) {
  int dim = ClassDim(logp.shape());
  Tensor valid = ne(target, ConstantLike(ignore_index, target));
  Tensor index = where(valid, target, ConstantLike(0, target));
  Dims sizes = logp.sizes();
  sizes[dim] = 1;
  Tensor score =
      Reshaped(Apply(kGather, Location(), {logp, Reshaped(index, sizes)}, {dim}), target.sizes());
  Tensor zero = ConstantLike(0, logp);
  Tensor share;
  if (weight.defined()) {
    Tensor rows = Rows(Casted(weight, logp.dtype()), Reshaped(index, {index.numel()}), 0);
    share = where(valid, Reshaped(rows, target.sizes()), zero);
  } else {
    share = Casted(valid, logp.dtype());
  }
  return {where(valid, -(score * share), zero), share, valid};
}

Tensor WeightedMean(const Tensor& loss, const Tensor& weight) {
  return Apply(kReduceSum, Location(), {Reshaped(loss, {loss.numel()})}, {Dims{0}, false}) /
         Apply(kReduceSum, Location(), {Reshaped(weight, {weight.numel()})}, {Dims{0}, false});
}

Tensor SumOfAll(const Tensor& x) {
  return Apply(kReduceSum, Location(), {Reshaped(x, {x.numel()})}, {Dims{0}, false});
}

void InferNll(const InferCall& c) {
  const Shape& input = *c.in[0];
  CheckTarget(c.op.name(), input, *c.in[1], c.in[2]);
  bool none = c.attrs[1].str() == "none";
  c.out.push_back(input.With(none ? WithoutClasses(input) : Dims()));
}

std::vector<Tensor> ExpandNll(const ExpandCall& c) {
  DType dtype = c.out[0].dtype();
  Tensor logp = Casted(c.in[0], WideFloat(dtype));
  Picked picked = PickTargets(logp, c.in[1], c.in[2], c.attrs[0].integer());
  const std::string& reduction = c.attrs[1].str();
  Tensor result = picked.loss;
  if (reduction == "sum") result = SumOfAll(picked.loss);
  if (reduction == "mean") result = WeightedMean(picked.loss, picked.weight);
  return {Casted(result, dtype)};
}

/// Cross entropy against probabilities.
Tensor AgainstProbabilities(const Tensor& logp, const Tensor& target, const Tensor& weight,
                            const std::string& reduction, double smoothing) {
  int dim = ClassDim(logp.shape());
  Tensor wanted = Casted(target, logp.dtype());
  if (smoothing > 0) {
    wanted = wanted * ConstantLike(1.0 - smoothing, logp) +
             ConstantLike(smoothing / static_cast<double>(logp.size(dim)), logp);
  }
  Tensor terms = logp * wanted;
  if (weight.defined()) {
    terms = terms * AlongDim(Casted(weight, logp.dtype()), dim, logp.dim());
  }
  if (reduction == "none") return -Apply(kReduceSum, Location(), {terms}, {Dims{dim}, false});
  Tensor total = -SumOfAll(terms);
  if (reduction == "sum") return total;
  int64_t samples = logp.size(dim) == 0 ? 0 : logp.numel() / logp.size(dim);
  return total / ConstantLike(samples, total);
}

/// Against class indices, with some of the weight spread over all classes.
Tensor AgainstSmoothed(const Tensor& logp, const Tensor& target, const Tensor& weight,
                       int64_t ignore_index, const std::string& reduction, double smoothing) {
  int dim = ClassDim(logp.shape());
  Picked picked = PickTargets(logp, target, weight, ignore_index);
  Tensor spread = logp;
  if (weight.defined()) {
    spread = spread * AlongDim(Casted(weight, logp.dtype()), dim, logp.dim());
  }
  Tensor smooth = -Apply(kReduceSum, Location(), {spread}, {Dims{dim}, false});
  smooth = where(picked.valid, smooth, ConstantLike(0, logp));
  Tensor hard = picked.loss;
  if (reduction == "sum") {
    smooth = SumOfAll(smooth);
    hard = SumOfAll(hard);
  } else if (reduction == "mean") {
    smooth = WeightedMean(smooth, picked.weight);
    hard = WeightedMean(hard, picked.weight);
  }
  double share = smoothing / static_cast<double>(logp.size(dim));
  return hard * ConstantLike(1.0 - smoothing, logp) + smooth * ConstantLike(share, logp);
}

std::vector<Tensor> ExpandCrossEntropy(const ExpandCall& c) {
  DType dtype = c.out[0].dtype();
  Tensor x = Casted(c.in[0], WideFloat(dtype));
  int64_t ignore_index = c.attrs[0].integer();
  const std::string& reduction = c.attrs[1].str();
  double smoothing = c.attrs[2].real();
  Tensor logp = log_softmax(x, ClassDim(x.shape()));
  Tensor result;
  if (!IsIntegral(c.in[1].dtype())) {
    result = AgainstProbabilities(logp, c.in[1], c.in[2], reduction, smoothing);
  } else if (smoothing > 0) {
    result = AgainstSmoothed(logp, c.in[1], c.in[2], ignore_index, reduction, smoothing);
  } else {
    Picked picked = PickTargets(logp, c.in[1], c.in[2], ignore_index);
    result = picked.loss;
    if (reduction == "sum") result = SumOfAll(result);
    if (reduction == "mean") result = WeightedMean(result, picked.weight);
  }
  return {Casted(result, dtype)};
}

}  // namespace

Tensor mse_loss(const Tensor& input, const Tensor& target, const std::string& reduction,
                Location at) {
  if (Autocasted cast(kMseLoss, at); cast)
    return mse_loss(cast(input), cast(target), reduction, at);
  LocationScope scope(at);
  CheckReduction("mse_loss", reduction);
  Tensor distance = input - target;
  return Reduced(distance * distance, reduction);
}

Tensor l1_loss(const Tensor& input, const Tensor& target, const std::string& reduction,
               Location at) {
  if (Autocasted cast(kL1Loss, at); cast) return l1_loss(cast(input), cast(target), reduction, at);
  LocationScope scope(at);
  CheckReduction("l1_loss", reduction);
  return Reduced(abs(input - target), reduction);
}

Tensor nll_loss(const Tensor& input, const Tensor& target, const std::optional<Tensor>& weight,
                int64_t ignore_index, const std::string& reduction, Location at) {
  LocationScope scope(at);
  if (Autocasted cast(kNllLoss, at); cast)
    return nll_loss(cast(input), cast(target), cast(weight), ignore_index, reduction, at);
  CheckReduction("nll_loss", reduction);
  NeedFloat("nll_loss", input);
  if (input.dim() == 0 || !IsIntegral(target.dtype())) {
    Throw(ErrorCode::kShapeMismatch,
          "nll_loss: needs scores of classes and i64 targets, got {} and {}",
          input.shape().to_string(), target.shape().to_string());
  }
  return Apply(kNllLoss, at, {input, target, weight ? *weight : Tensor()},
               {ignore_index, reduction});
}

Tensor nll_loss2d(const Tensor& self, const Tensor& target, const std::optional<Tensor>& weight,
                  int64_t reduction, int64_t ignore_index, Location at) {
  LocationScope scope(at);
  if (Autocasted cast(kNllLoss2d, at); cast)
    return nll_loss2d(cast(self), cast(target), cast(weight), reduction, ignore_index, at);
  constexpr const char* kReductions[] = {"none", "mean", "sum"};
  if (reduction < 0 || reduction > 2) {
    Throw(ErrorCode::kValue, "nll_loss2d: reduction must be 0 (none), 1 (mean) or 2 (sum), got {}",
          reduction);
  }
  if (self.dim() != 4) {
    Throw(ErrorCode::kShapeMismatch, "nll_loss2d: needs scores of 4 dims, got {}",
          self.shape().to_string());
  }
  return nll_loss(self, target, weight, ignore_index, kReductions[reduction], at);
}

Tensor cross_entropy(const Tensor& input, const Tensor& target, const std::optional<Tensor>& weight,
                     int64_t ignore_index, const std::string& reduction, double label_smoothing,
                     Location at) {
  LocationScope scope(at);
  if (Autocasted cast(kCrossEntropy, at); cast)
    return cross_entropy(cast(input), cast(target), cast(weight), ignore_index, reduction,
                         label_smoothing, at);
  CheckReduction("cross_entropy", reduction);
  NeedFloat("cross_entropy", input);
  if (input.dim() == 0) {
    Throw(ErrorCode::kShapeMismatch, "cross_entropy: input needs a dim of classes, got {}",
          input.shape().to_string());
  }
  if (label_smoothing < 0 || label_smoothing > 1) {
    Throw(ErrorCode::kValue, "cross_entropy: label_smoothing must be between 0 and 1, got {}",
          label_smoothing);
  }
  return Apply(kCrossEntropy, at, {input, target, weight ? *weight : Tensor()},
               {ignore_index, reduction, label_smoothing});
}

namespace {

constinit const OpDef kMseLoss = {
    .schema = "mse_loss(Tensor input, Tensor target, str reduction=\"mean\") -> Tensor",
    .doc = "Squared differences.",
    .call = Box<mse_loss>,
    .autocast = AutocastRule::kF32,
};
constinit const OpDef kL1Loss = {
    .schema = "l1_loss(Tensor input, Tensor target, str reduction=\"mean\") -> Tensor",
    .doc = "Absolute differences.",
    .call = Box<l1_loss>,
    .autocast = AutocastRule::kF32,
};
constinit const OpDef kNllLoss = {
    .schema =
        "nll_loss(Tensor input, Tensor target, Tensor? weight=None, int ignore_index=-100, "
        "str reduction=\"mean\") -> Tensor",
    .doc = "Negated log-probabilities of the target classes.",
    .call = Box<nll_loss>,
    .autocast = AutocastRule::kF32,
    .infer = InferNll,
    .expand = ExpandNll,
    .can_fail = true,
    .samples = {{"f32[4,3] i64[4] none", "{ignore_index=-100, reduction=\"mean\"}"},
                {"f32[4,3,2] i64[4,2] f32[3]", "{ignore_index=1, reduction=\"sum\"}"}},
};
constinit const OpDef kNllLoss2d = {
    .schema =
        "nll_loss2d(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, int "
        "ignore_index=-100) -> Tensor",
    .doc = "As nll_loss, for images.",
    .call = Box<nll_loss2d>,
    .autocast = AutocastRule::kF32,
};
constinit const OpDef kCrossEntropy = {
    .schema =
        "cross_entropy(Tensor input, Tensor target, Tensor? weight=None, int "
        "ignore_index=-100, str reduction=\"mean\", float label_smoothing=0.0) -> Tensor",
    .doc = "Negated log-softmax of the target classes, or against probabilities.",
    .call = Box<cross_entropy>,
    .autocast = AutocastRule::kF32,
    .infer = InferNll,
    .expand = ExpandCrossEntropy,
    .can_fail = true,
    .samples = {{"f32[4,3] i64[4] none",
                 "{ignore_index=-100, reduction=\"mean\", label_smoothing=0.1}"},
                {"f32[4,3] f32[4,3] f32[3]",
                 "{ignore_index=-100, reduction=\"none\", label_smoothing=0.0}"}},
};

}  // namespace

std::span<const OpDef* const> ops::LossOps() {
  static constexpr const OpDef* kOps[] = {&kMseLoss, &kL1Loss, &kNllLoss, &kNllLoss2d,
                                          &kCrossEntropy};
  return kOps;
}

}  // namespace hammock
