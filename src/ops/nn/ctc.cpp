// Connectionist temporal classification: the likelihood of a label sequence, summed over all its
// alignments with the inputs by a loop over time.

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/throw.h"
#include "hammock/autograd.h"
#include "hammock/ops/create.h"
#include "hammock/ops/elementwise.h"
#include "hammock/ops/losses.h"
#include "hammock/ops/reduce.h"
#include "ir/primitives.h"
#include "ops/kit/compose.h"
#include "ops/kit/index_steps.h"
#include "ops/kit/record.h"
#include "ops/nn/loss_steps.h"
#include "ops/primitives/families.h"
#include "ops/primitives/loop.h"
#include "ops/primitives/require.h"

namespace hammock {

using namespace ops;  // NOLINT: the writer's kit of this folder

namespace {

extern const OpDef kCtcLoss;

Tensor Never(const Tensor& like) {
  return ConstantLike(-std::numeric_limits<double>::infinity(), like);
}

/// log(sum of exp), without NaN where all are minus infinity, neither in it nor in its gradient.
Tensor LogSum(std::span<const Tensor> terms) {
  Tensor largest = terms[0];
  for (const Tensor& term : terms.subspan(1)) largest = maximum(largest, term);
  Tensor never = Never(largest), dead = eq(largest, never);
  Tensor shift = where(dead, ConstantLike(0, largest), largest);
  Tensor total = exp(terms[0] - shift);
  for (const Tensor& term : terms.subspan(1)) total = total + exp(term - shift);
  Tensor safe = where(dead, ConstantLike(1, total), total);
  return where(dead, never, log(safe) + shift);
}

/// Element s - by of each row, minus infinity before the first.
Tensor Delayed(const Tensor& rows, int64_t by) {
  return Padded(rows, 1, by, -by, -std::numeric_limits<double>::infinity());
}

/// blank, label, blank, label, ..., blank: i64[batch, 2 * labels + 1].
Tensor WithBlanks(const Tensor& labels, int64_t blank) {
  int64_t batch = labels.size(0), count = labels.size(1);
  Tensor filler = Filled({batch, count, 1}, blank, DType::kI64, labels);
  const Tensor pair[] = {filler, Reshaped(labels, {batch, count, 1})};
  return Padded(Reshaped(Concatenated(pair, 2), {batch, 2 * count}), 1, 0, 1, blank);
}

/// One step: (log-likelihoods of the states, log-probabilities of the classes) to the next.
Tensor NextStates(const Tensor& states, const Tensor& log_probs, const Tensor& labels,
                  const Tensor& may_skip) {
  Tensor skipped = where(may_skip, Delayed(states, 2), Never(states));
  const Tensor ways[] = {states, Delayed(states, 1), skipped};
  return LogSum(ways) + Apply(kGather, Location(), {log_probs, labels}, {1});
}

/// Log-likelihood of each sequence: it ends in its last label or in the blank behind it.
Tensor ReadStates(const Tensor& states, const Tensor& target_lengths) {
  int64_t batch = states.size(0);
  Tensor length = Reshaped(target_lengths, {batch, 1});
  Tensor last = length + length, zero = ConstantLike(0, last);
  Tensor before = where(gt(length, zero), last - ConstantLike(1, last), zero);
  auto at = [&](const Tensor& index) { return Apply(kGather, Location(), {states, index}, {1}); };
  Tensor in_label = where(gt(length, zero), at(before), Never(states));
  const Tensor ends[] = {at(last), in_label};
  return Reshaped(LogSum(ends), {batch});
}

void InferCtc(const InferCall& c) {
  const Shape& log_probs = *c.in[0];
  Shape lengths(DType::kI64, {log_probs.rank() == 3 ? log_probs.size(1) : 0});
  bool fits = log_probs.rank() == 3 && IsFloat(log_probs.dtype()) && c.in[1]->rank() == 2 &&
              c.in[1]->dtype() == DType::kI64 && c.in[1]->size(0) == log_probs.size(1) &&
              *c.in[2] == lengths && *c.in[3] == lengths;
  if (!fits) {
    Refuse(
        c, ErrorCode::kShapeMismatch,
        "needs (time, batch, class), i64 targets (batch, length) and two i64[batch], got {}, {}, "
        "{} and {}",
        log_probs.to_string(), c.in[1]->to_string(), c.in[2]->to_string(), c.in[3]->to_string());
  }
  bool none = c.attrs[1].str() == "none";
  c.out.push_back(c.in[0]->With(none ? Dims{c.in[0]->size(1)} : Dims()));
}

/// The loss of each sequence; infinite where it cannot be aligned.
Tensor LossesOf(const Tensor& log_probs, const Tensor& targets, const Tensor& lengths,
                const Tensor& target_lengths, int64_t blank) {
  int64_t time = log_probs.size(0), batch = log_probs.size(1);
  Tensor labels = WithBlanks(targets, blank);
  int64_t states = labels.size(1);
  // A label may follow another one directly unless they are equal.
  Tensor is_label = eq(remainder(CountingAlong(1, 2, states, labels), ConstantLike(2, labels)),
                       ConstantLike(1, labels));
  Tensor may_skip = logical_and(is_label, ne(labels, Padded(labels, 1, 2, -2, int64_t{-1})));
  Tensor input_lengths = Reshaped(lengths, {batch, 1});
  // Before the first step, only the state before all labels is possible.
  Tensor first = eq(CountingAlong(1, 2, states, log_probs), ConstantLike(0, labels));
  Tensor start = where(first, ConstantLike(0, log_probs), Never(log_probs));
  start = Broadcasted(start, {batch, states});
  auto body = [](const LoopStep& s) -> std::vector<Tensor> {
    Tensor next = NextStates(s.carried[0], s.slices[0], s.invariant[0], s.invariant[1]);
    return {where(lt(s.index, s.invariant[2]), next, s.carried[0])};
  };
  std::vector<Tensor> results =
      Loop(time, {{start}, {log_probs}, {labels, may_skip, input_lengths}}, body);
  return -ReadStates(results[0], target_lengths);
}

Tensor IsInfinite(const Tensor& losses) {
  return eq(losses, ConstantLike(std::numeric_limits<double>::infinity(), losses));
}

std::vector<Tensor> ExpandCtc(const ExpandCall& c) {
  DType dtype = c.out[0].dtype();
  Tensor log_probs = Casted(c.in[0], WideFloat(dtype));
  Tensor losses = LossesOf(log_probs, c.in[1], c.in[2], c.in[3], c.attrs[0].integer());
  if (c.attrs[2].boolean()) losses = where(IsInfinite(losses), ConstantLike(0, losses), losses);
  const std::string& reduction = c.attrs[1].str();
  if (reduction == "mean") losses = losses / clamp_min(c.in[3], 1);
  return {Casted(Reduced(losses, reduction), dtype)};
}

/// As PyTorch has it: with the term that makes it the gradient of log_softmax's operand, which
/// log_softmax's own gradient leaves as it is.
std::vector<Tensor> CtcVjp(const VjpCall& c) {
  DType dtype = c.in[0].dtype(), wide = WideFloat(dtype);
  EnableGradGuard enable;
  Tensor log_probs = Casted(c.in[0], wide).detach().requires_grad_();
  int64_t time = log_probs.size(0), batch = log_probs.size(1);
  Tensor losses = LossesOf(log_probs, c.in[1], c.in[2], c.in[3], c.attrs[0].integer());
  NoGradGuard no_grad;
  const std::string& reduction = c.attrs[1].str();
  Tensor weight = Casted(c.grad(), wide);
  if (reduction == "mean") {
    weight = weight / (clamp_min(c.in[3], 1) * ConstantLike(batch, c.in[3]));
  }
  weight = Broadcasted(weight, {batch});
  if (c.attrs[2].boolean()) weight = where(IsInfinite(losses), ConstantLike(0, weight), weight);
  Tensor aligned = grad({losses}, {log_probs}, {weight}, false)[0];
  Tensor heard = lt(CountingAlong(0, 2, time, c.in[2]), Reshaped(c.in[2], {1, batch}));
  Tensor share = Reshaped(weight * Casted(heard, wide), {time, batch, 1});
  std::vector<Tensor> grads(c.in.size());
  grads[0] = Casted(aligned + exp(log_probs.detach()) * share, dtype);
  return grads;
}

void CheckLengths(const char* what, const Tensor& lengths, int64_t batch) {
  if (IsIntegral(lengths.dtype()) && lengths.numel() == batch && lengths.dim() <= 1) return;
  Throw(ErrorCode::kShapeMismatch,
        "ctc_loss: {} must hold one integer for each of {} sequences, got {}", what, batch,
        lengths.shape().to_string());
}

/// Lengths that fit, which is known only when the graph runs.
Tensor CheckedLengths(const Tensor& lengths, int64_t most, const char* message) {
  return Required(lengths, InRange(lengths, 0, static_cast<double>(most)), "ctc_loss", message);
}

/// Targets one after the other as rows of the longest length.
Tensor AsRows(const Tensor& targets, const std::vector<int64_t>& lengths) {
  for (int64_t length : lengths) {
    if (length < 0) Throw(ErrorCode::kValue, "ctc_loss: target length {} is negative", length);
  }
  int64_t total = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  int64_t longest = lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end());
  if (total != targets.numel()) {
    Throw(ErrorCode::kShapeMismatch,
          "ctc_loss: targets {} must hold as many labels as target_lengths add up to, {}",
          targets.shape().to_string(), total);
  }
  std::vector<int64_t> index;
  int64_t start = 0;
  for (int64_t length : lengths) {
    for (int64_t i = 0; i < longest; ++i) index.push_back(i < length ? start + i : 0);
    start += length;
  }
  Dims sizes{static_cast<int64_t>(lengths.size()), longest};
  if (total == 0) return Filled(sizes, int64_t{0}, DType::kI64, targets);
  Tensor rows =
      Rows(targets, tensor(std::move(index), Dims{sizes[0] * longest}, targets.device()), 0);
  return Reshaped(rows, sizes);
}

}  // namespace

Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                const Tensor& target_lengths, int64_t blank, const std::string& reduction,
                bool zero_infinity, Location at) {
  LocationScope scope(at);
  CheckReduction("ctc_loss", reduction);
  NeedFloat("ctc_loss", log_probs);
  bool batched = log_probs.dim() == 3;
  if ((!batched && log_probs.dim() != 2) || !IsIntegral(targets.dtype()) || targets.dim() > 2 ||
      targets.dim() == 0) {
    Throw(
        ErrorCode::kShapeMismatch,
        "ctc_loss: needs log_probs of (time, batch, class) or (time, class) and integer targets of "
        "1 or 2 dims, got {} and {}",
        log_probs.shape().to_string(), targets.shape().to_string());
  }
  int64_t batch = batched ? log_probs.size(1) : 1, classes = log_probs.size(-1);
  if (blank < 0 || blank >= classes) {
    Throw(ErrorCode::kValue, "ctc_loss: blank {} must be one of {} classes", blank, classes);
  }
  CheckLengths("input_lengths", input_lengths, batch);
  CheckLengths("target_lengths", target_lengths, batch);
  if (targets.dim() == 2 && targets.size(0) != batch) {
    Throw(ErrorCode::kShapeMismatch, "ctc_loss: targets {} must have {} rows",
          targets.shape().to_string(), batch);
  }
  Tensor labels = Casted(targets, DType::kI64);
  if (targets.dim() == 1) labels = AsRows(labels, target_lengths.to_vector<int64_t>());
  auto vector = [&](const Tensor& x) { return Casted(Reshaped(x, {batch}), DType::kI64); };
  Tensor three = Reshaped(log_probs, {log_probs.size(0), batch, classes});
  Tensor heard = CheckedLengths(vector(input_lengths), log_probs.size(0),
                                "input_lengths must not be beyond the time of log_probs");
  Tensor said = CheckedLengths(vector(target_lengths), labels.size(1),
                               "target_lengths must not be beyond the sizes of targets");
  Tensor result =
      Apply(kCtcLoss, at, {three, labels, heard, said}, {blank, reduction, zero_infinity});
  return batched || reduction != "none" ? result : Reshaped(result, {});
}

Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets,
                const std::vector<int64_t>& input_lengths,
                const std::vector<int64_t>& target_lengths, int64_t blank,
                const std::string& reduction, bool zero_infinity, Location at) {
  LocationScope scope(at);
  for (int64_t length : input_lengths) {
    if (log_probs.dim() > 0 && length >= 0 && length <= log_probs.size(0)) continue;
    Throw(ErrorCode::kValue, "ctc_loss: input_lengths must be from 0 to {}, got {}",
          log_probs.dim() > 0 ? log_probs.size(0) : 0, length);
  }
  for (int64_t length : target_lengths) {
    if (length >= 0 && (targets.dim() != 2 || length <= targets.size(1))) continue;
    Throw(ErrorCode::kValue, "ctc_loss: target length {} does not fit targets {}", length,
          targets.shape().to_string());
  }
  Device device = log_probs.device();
  return ctc_loss(log_probs, targets, tensor(input_lengths, std::nullopt, device),
                  tensor(target_lengths, std::nullopt, device), blank, reduction, zero_infinity,
                  at);
}

namespace {

using ByTensors = Tensor (*)(const Tensor&, const Tensor&, const Tensor&, const Tensor&, int64_t,
                             const std::string&, bool, Location);
using ByNumbers = Tensor (*)(const Tensor&, const Tensor&, const std::vector<int64_t>&,
                             const std::vector<int64_t>&, int64_t, const std::string&, bool,
                             Location);

HAMMOCK_FUNCTION(kCtcLossNumbers,
                 "ctc_loss.IntList(Tensor log_probs, Tensor targets, int[] input_lengths, int[] "
                 "target_lengths, int blank=0, str reduction=\"mean\", bool zero_infinity=False) "
                 "-> Tensor",
                 "Negated log-likelihood of label sequences under all alignments.",
                 static_cast<ByNumbers>(ctc_loss))
constinit const OpDef kCtcLoss = {
    .schema =
        "ctc_loss.Tensor(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor "
        "target_lengths, int blank=0, str reduction=\"mean\", bool zero_infinity=False) -> Tensor",
    .doc = "Negated log-likelihood of label sequences under all alignments.",
    .call = Box<static_cast<ByTensors>(ctc_loss)>,
    .autocast = AutocastRule::kF32,
    .infer = InferCtc,
    .expand = ExpandCtc,
    .vjp = CtcVjp,
    .can_fail = true,
    .samples = {{"f32[3,2,4] i64[2,1] i64[2] i64[2]",
                 "{blank=3, reduction=\"mean\", zero_infinity=true}"}},
};

}  // namespace

std::span<const OpDef* const> ops::CtcOps() {
  static constexpr const OpDef* kOps[] = {&kCtcLossNumbers, &kCtcLoss};
  return kOps;
}

}  // namespace hammock
