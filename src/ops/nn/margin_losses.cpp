// Losses of several classes that compare the scores of right and wrong ones.

#include "base/throw.h"
#include "hammock/ops/elementwise.h"
#include "hammock/ops/losses.h"
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

namespace {

extern const OpDef kMultiMarginLoss;

/// Scores as (samples, classes), computed in f32 for f16 and bf16.
Tensor AsMatrix(const char* op, const Tensor& input) {
  NeedFloat(op, input);
  int64_t classes = input.dim() == 0 ? 1 : input.size(-1);
  if (input.dim() > 2 || classes == 0) {
    Throw(ErrorCode::kShapeMismatch,
          "{}: needs scores of at least one class in 1 or 2 dims, got {}", op,
          input.shape().to_string());
  }
  int64_t samples = input.dim() == 2 ? input.size(0) : 1;
  return Reshaped(Casted(input, WideFloat(input.dtype())), {samples, classes});
}

void CheckClasses(const char* op, const Tensor& input, const Tensor& target, int64_t count) {
  if (target.dtype() == DType::kI64 && target.numel() == count) return;
  Throw(ErrorCode::kShapeMismatch, "{}: input {} needs {} targets of i64, got {}", op,
        input.shape().to_string(), count, target.shape().to_string());
}

/// Where positive, else zero; its gradient too.
Tensor AboveZero(const Tensor& x) {
  Tensor zero = ConstantLike(0, x);
  return where(gt(x, zero), x, zero);
}

Tensor Picked(const Tensor& x, const Tensor& index) {
  return Apply(kGather, Location(), {x, index}, {1});
}

/// The loss of each sample is the mean of its terms over the classes.
Tensor PerSample(const Tensor& terms, const Dims& dims, int64_t classes) {
  Tensor total = sum(terms, dims);
  return total / ConstantLike(classes, total);
}

/// A vector of losses; without a batch, one number.
Tensor Finish(const Tensor& losses, bool batched, const std::string& reduction, DType dtype) {
  Tensor result =
      batched || reduction != "none" ? Reduced(losses, reduction) : Reshaped(losses, {});
  return Casted(result, dtype);
}

}  // namespace

Tensor multi_margin_loss(const Tensor& input, const Tensor& target, const Scalar& p,
                         const Scalar& margin, const std::optional<Tensor>& weight,
                         const std::string& reduction, Location at) {
  if (Autocasted cast(kMultiMarginLoss, at); cast)
    return multi_margin_loss(cast(input), cast(target), p, margin, cast(weight), reduction, at);
  LocationScope scope(at);
  constexpr const char* kOp = "multi_margin_loss";
  CheckReduction(kOp, reduction);
  if (p.ToDouble() != 1 && p.ToDouble() != 2) {
    Throw(ErrorCode::kValue, "{}: p must be 1 or 2, got {}", kOp, p.to_string());
  }
  Tensor x = AsMatrix(kOp, input);
  int64_t samples = x.size(0), classes = x.size(1);
  CheckClasses(kOp, input, target, samples);
  if (target.dim() > 1) {
    Throw(ErrorCode::kShapeMismatch, "{}: needs a vector of targets, got {}", kOp,
          target.shape().to_string());
  }
  if (weight && (weight->dim() != 1 || weight->numel() != classes)) {
    Throw(ErrorCode::kShapeMismatch,
          "{}: weight must hold one number for each of {} classes, got {}", kOp, classes,
          weight->shape().to_string());
  }
  Tensor index = Reshaped(target, {samples, 1});
  Tensor terms = AboveZero(x - Picked(x, index) + margin);
  if (p.ToDouble() == 2) terms = terms * terms;
  if (weight) {
    Tensor shares = Reshaped(Casted(*weight, x.dtype()), {classes});
    terms = terms * Reshaped(Rows(shares, Reshaped(target, {samples}), 0), {samples, 1});
  }
  Tensor others = ne(CountingAlong(1, 2, classes, x), index);
  terms = where(others, terms, ConstantLike(0, terms));
  return Finish(PerSample(terms, {1}, classes), target.dim() > 0, reduction, input.dtype());
}

Tensor multilabel_margin_loss(const Tensor& input, const Tensor& target,
                              const std::string& reduction, Location at) {
  LocationScope scope(at);
  constexpr const char* kOp = "multilabel_margin_loss";
  CheckReduction(kOp, reduction);
  Tensor x = AsMatrix(kOp, input);
  int64_t samples = x.size(0), classes = x.size(1);
  CheckClasses(kOp, input, target, samples * classes);
  if (input.dim() == 2 ? target.sizes() != input.sizes() : target.dim() > 1) {
    Throw(ErrorCode::kShapeMismatch, "{}: target {} must have the sizes of input {}", kOp,
          target.shape().to_string(), input.shape().to_string());
  }
  Tensor labels = Reshaped(target, {samples, classes});
  Tensor ended = Casted(eq(labels, ConstantLike(-1, labels)), DType::kI64);
  Tensor valid = eq(cumsum(ended, 1), ConstantLike(0, ended));
  Tensor index = where(valid, labels, ConstantLike(0, labels));
  // Entries past the end mark nothing: they add zero to class 0.
  Tensor none = Filled({samples, classes}, int64_t{0}, DType::kI64, x);
  Tensor marks = Scattered(none, index, Casted(valid, DType::kI64), 1, "sum");
  Tensor wrong = eq(marks, ConstantLike(0, marks));
  Tensor right_score = Reshaped(Picked(x, index), {samples, classes, 1});
  Tensor terms = AboveZero(Reshaped(x, {samples, 1, classes}) - right_score + ConstantLike(1, x));
  Tensor counts =
      logical_and(Reshaped(valid, {samples, classes, 1}), Reshaped(wrong, {samples, 1, classes}));
  terms = where(counts, terms, ConstantLike(0, terms));
  return Finish(PerSample(terms, {1, 2}, classes), target.dim() > 1, reduction, input.dtype());
}

Tensor multilabel_soft_margin_loss(const Tensor& input, const Tensor& target,
                                   const std::optional<Tensor>& weight,
                                   const std::string& reduction, Location at) {
  LocationScope scope(at);
  constexpr const char* kOp = "multilabel_soft_margin_loss";
  CheckReduction(kOp, reduction);
  NeedFloat(kOp, input);
  Tensor x = Casted(input, WideFloat(input.dtype())), t = Casted(target, x.dtype());
  Tensor terms = -(t * log_sigmoid(x) + (ConstantLike(1, x) - t) * log_sigmoid(-x));
  if (weight) terms = terms * Casted(*weight, x.dtype());
  Tensor losses = input.dim() == 0 ? terms : mean(terms, {-1});
  return Casted(Reduced(losses, reduction), input.dtype());
}

namespace {

HAMMOCK_FUNCTION(kMultiMarginLoss,
                 "multi_margin_loss(Tensor input, Tensor target, Scalar p=1, Scalar margin=1.0, "
                 "Tensor? weight=None, str reduction=\"mean\") -> Tensor",
                 "Hinge losses of wrong classes that are less than `margin` below the right one.",
                 multi_margin_loss, AutocastRule::kF32)
HAMMOCK_FUNCTION(
    kMultilabelMarginLoss,
    "multilabel_margin_loss(Tensor input, Tensor target, str reduction=\"mean\") -> Tensor",
    "Hinge losses of wrong classes that are less than one below a right one.",
    multilabel_margin_loss)
HAMMOCK_FUNCTION(kMultilabelSoftMarginLoss,
                 "multilabel_soft_margin_loss(Tensor input, Tensor target, Tensor? weight=None, "
                 "str reduction=\"mean\") -> Tensor",
                 "Binary cross entropy of scores, averaged over classes.",
                 multilabel_soft_margin_loss)

}  // namespace

std::span<const OpDef* const> ops::MarginLossOps() {
  static constexpr const OpDef* kOps[] = {&kMultiMarginLoss, &kMultilabelMarginLoss,
                                          &kMultilabelSoftMarginLoss};
  return kOps;
}

}  // namespace hammock
