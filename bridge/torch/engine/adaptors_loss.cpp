// Losses and their gradients. PyTorch boxes `reduction` as a number.

#include <hammock/ops.h>

#include "engine/adaptor.h"
#include "engine/scope.h"

namespace hammock_torch {

using hammock::Any;
using hammock::Tensor;

namespace {

using Call = const AtenCall&;

/// Scores with the classes in dim 1, and targets of the other dims; one sample becomes a batch.
struct Nll {
  Tensor scores, target, weights;  // weights of each target: 0 where it is ignored
  int64_t dim;
};

Nll NllOf(const Tensor& scores, const Tensor& target, const Tensor& weight, int64_t ignore_index) {
  int64_t dim = scores.dim() == 1 ? 0 : 1;
  Tensor valid = hammock::ne(target, ignore_index);
  Tensor safe = hammock::where(valid, target, hammock::zeros_like(target));
  Tensor weights = valid.to(scores.dtype());
  if (weight.defined()) {
    Tensor chosen = hammock::index_select(weight, 0, hammock::reshape(safe, {-1}));
    weights = weights * hammock::reshape(chosen, safe.sizes());
  }
  return {scores, safe, weights, dim};
}

/// self, target, weight, reduction, ignore_index -> (loss, total_weight)
Any NllForward(Call c) {
  Nll nll = NllOf(c.tensor(0), c.tensor(1), c.maybe_tensor(2), c.integer(4));
  Tensor picked = hammock::gather(nll.scores, nll.dim, hammock::unsqueeze(nll.target, nll.dim));
  // An ignored target gives no NaN, whatever its score.
  Tensor chosen = hammock::squeeze(picked, nll.dim);
  Tensor losses = hammock::where(hammock::ne(c.tensor(1), c.integer(4)),
                                 hammock::neg(chosen) * nll.weights, hammock::zeros_like(chosen));
  if (c.integer(3) == 0) {
    return TupleOf({losses, hammock::zeros({}, losses.dtype(), CurrentDevice())});
  }
  Tensor total = hammock::sum(nll.weights), sum = hammock::sum(losses);
  return TupleOf({c.integer(3) == 1 ? sum / total : sum, total});
}

/// grad, self, target, weight, reduction, ignore_index, total_weight
Any NllBackward(Call c) {
  Nll nll = NllOf(c.tensor(1), c.tensor(2), c.maybe_tensor(3), c.integer(5));
  Tensor each = hammock::neg(nll.weights) * c.tensor(0);
  if (c.integer(4) == 1) each = each / c.tensor(6);
  return hammock::scatter(hammock::zeros_like(nll.scores), nll.dim,
                          hammock::unsqueeze(nll.target, nll.dim),
                          hammock::unsqueeze(each.to(nll.scores.dtype()), nll.dim));
}

/// The gradient of a record's loss: grad, self, target, (rest), reduction, (rest).
Any OfLoss(Call c, const std::function<Tensor(const Tensor& input, const std::string&)>& loss,
           size_t reduction_at) {
  std::string reduction = ReductionName(c.integer(reduction_at));
  return GradsOf([&](const std::vector<Tensor>& in) { return loss(in[0], reduction); },
                 {c.tensor(1)}, c.tensor(0))[0];
}

Any MseBackward(Call c) {
  Tensor grad = SpreadGrad(c.tensor(0), c.tensor(1), c.integer(3));
  return (c.tensor(1) - c.tensor(2)) * 2.0 * grad;
}
Any L1Backward(Call c) {
  Tensor grad = SpreadGrad(c.tensor(0), c.tensor(1), c.integer(3));
  return hammock::sign(c.tensor(1) - c.tensor(2)) * grad;
}
/// grad, self, target, reduction, beta
Any SmoothL1Backward(Call c) {
  return OfLoss(
      c,
      [&](const Tensor& input, const std::string& reduction) {
        return hammock::smooth_l1_loss(input, c.tensor(2), reduction, c.real(4));
      },
      3);
}
Any HuberBackward(Call c) {
  return OfLoss(
      c,
      [&](const Tensor& input, const std::string& reduction) {
        return hammock::huber_loss(input, c.tensor(2), reduction, c.real(4));
      },
      3);
}
Any SoftMarginBackward(Call c) {
  return OfLoss(
      c,
      [&](const Tensor& input, const std::string& reduction) {
        return hammock::soft_margin_loss(input, c.tensor(2), reduction);
      },
      3);
}
/// grad, self, target, weight, reduction. PyTorch's rule near 0 and 1 is a floor of 1e-12.
Any BinaryCrossEntropyBackward(Call c) {
  const Tensor &grad = c.tensor(0), &x = c.tensor(1), &y = c.tensor(2);
  Tensor result =
      SpreadGrad(grad, x, c.integer(4)) * (x - y) / hammock::clamp_min((1.0 - x) * x, 1e-12);
  return c.none(3) ? result : result * c.tensor(3);
}
/// log_probs, targets, input_lengths, target_lengths of a call from `first` on.
Tensor CtcOf(Call c, const Tensor& log_probs, size_t first, size_t blank) {
  const Tensor& targets = c.tensor(first + 1);
  if (!c[first + 2].IsTensor()) {
    return hammock::ctc_loss(log_probs, targets, c.ints(first + 2), c.ints(first + 3),
                             c.integer(blank), "none", c.flag(blank + 1));
  }
  if (targets.dim() == 1) throw Unsupported("targets one after the other by lengths of tensors");
  return hammock::ctc_loss(log_probs, targets, c.tensor(first + 2), c.tensor(first + 3),
                           c.integer(blank), "none", c.flag(blank + 1));
}
/// log_probs, targets, input_lengths, target_lengths, blank, zero_infinity -> (losses, log_alpha);
/// the second is for PyTorch's own gradient alone.
Any CtcForward(Call c) {
  Tensor losses = CtcOf(c, c.tensor(0), 0, 4);
  return TupleOf({losses, hammock::zeros({0}, losses.dtype(), CurrentDevice())});
}
/// grad, log_probs, targets, input_lengths, target_lengths, losses, log_alpha, blank, zero_infinity
Any CtcBackward(Call c) {
  return GradsOf([&](const std::vector<Tensor>& in) { return CtcOf(c, in[0], 1, 7); },
                 {c.tensor(1)}, c.tensor(0))[0];
}

constexpr AdaptorEntry kTable[] = {
    {"nll_loss_forward", NllForward},
    {"nll_loss2d_forward", NllForward},
    {"nll_loss_backward", NllBackward},
    {"nll_loss2d_backward", NllBackward},
    {"mse_loss_backward", MseBackward},
    {"l1_loss_backward", L1Backward},
    {"smooth_l1_loss_backward", SmoothL1Backward},
    {"huber_loss_backward", HuberBackward},
    {"soft_margin_loss_backward", SoftMarginBackward},
    {"binary_cross_entropy_backward", BinaryCrossEntropyBackward},
    {"_ctc_loss", CtcForward},
    {"_ctc_loss_backward", CtcBackward},
};

}  // namespace

std::span<const AdaptorEntry> LossAdaptors() { return kTable; }

}  // namespace hammock_torch
