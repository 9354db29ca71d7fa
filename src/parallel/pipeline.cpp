#include "hammock/distributed/pipeline.h"

#include "base/location_scope.h"
#include "base/throw.h"
#include "hammock/autograd.h"
#include "hammock/op_builder.h"
#include "hammock/ops.h"
#include "ir/primitives.h"

namespace hammock::distributed {
namespace {

/// The tensor, of which all that has been sent is a part: ranks that read it run the same
/// collectives, whatever they need of them.
Tensor After(const Tensor& tensor, std::vector<Tensor> others) {
  others.insert(others.begin(), tensor);
  return Apply(ops::kBarrier, Location(), others);
}

}  // namespace

// At tick t stage s works on microbatch t - s, and all stages that have made something send it on
// in one permutation: every rank records the same collectives. Backward the same, from the last
// stage and the last microbatch on.

Pipeline::Pipeline(Stage stage, Shape between, int microbatches, const Group& group, Location at)
    : stage_(std::move(stage)),
      between_(std::move(between)),
      microbatches_(microbatches),
      group_(group) {
  LocationScope scope(at);
  if (!stage_) Throw(ErrorCode::kValue, "Pipeline: the stage is empty");
  if (microbatches < 1) {
    Throw(ErrorCode::kValue, "Pipeline: needs at least 1 microbatch, got {}", microbatches);
  }
}

int Pipeline::AtTick(int tick, int stage) const {
  const int microbatch = tick - stage;
  return microbatch >= 0 && microbatch < microbatches_ ? microbatch : -1;
}

void Pipeline::CheckMade(const Tensor& made) const {
  if (made.shape() == between_) return;
  Throw(ErrorCode::kShapeMismatch, "Pipeline: stage {} gives {}, but {} goes between stages",
        group_.rank(), made.shape().to_string(), between_.to_string());
}

Tensor Pipeline::InputOf(const Tensor& input, int microbatch, const Tensor& received) const {
  if (group_.rank() > 0) return received;
  if (!input.defined()) Throw(ErrorCode::kValue, "Pipeline: the first stage has no input");
  if (input.dim() == 0 || input.size(0) % microbatches_ != 0) {
    Throw(ErrorCode::kShapeMismatch, "Pipeline: {} cannot be cut into {} equal microbatches",
          input.shape().to_string(), microbatches_);
  }
  const int64_t size = input.size(0) / microbatches_;
  return input.narrow(0, microbatch * size, size);
}

Tensor Pipeline::Forwarded(const Tensor& made, int tick) {
  std::vector<std::pair<int, int>> pairs;
  for (int stage = 0; stage + 1 < group_.size(); ++stage) {
    if (AtTick(tick, stage) >= 0) pairs.push_back({stage, stage + 1});
  }
  if (pairs.empty()) return Tensor();
  Tensor sent = made.defined() ? made.detach() : zeros(between_.sizes(), between_.dtype());
  return permute(sent, pairs, group_);
}

Tensor Pipeline::backward(const Tensor& input, const Loss& loss, Location at) {
  LocationScope scope(at);
  const int stages = group_.size(), own = group_.rank(), last = stages - 1;
  const int ticks = microbatches_ + stages - 1;
  std::vector<Tensor> inputs(static_cast<size_t>(microbatches_)), outputs = inputs;
  std::vector<Tensor> sent_on;
  Tensor received, total = zeros({}, between_.dtype());
  for (int tick = 0; tick < ticks; ++tick) {
    Tensor made;
    if (const int microbatch = AtTick(tick, own); microbatch >= 0) {
      const auto at_index = static_cast<size_t>(microbatch);
      EnableGradGuard grad;
      Tensor in = InputOf(input, microbatch, received);
      if (own > 0) in = in.detach().requires_grad_();
      inputs[at_index] = in;
      made = stage_(in);
      if (own < last) CheckMade(made);
      if (own == last) {
        made = loss(made, microbatch) * Scalar(1.0 / microbatches_);
        total = total + made.detach().to(between_.dtype());
      }
      outputs[at_index] = made;
    }
    received = Forwarded(own < last ? made : Tensor(), tick);
    if (received.defined()) sent_on.push_back(received);
  }
  Tensor arrived;
  for (int tick = 0; tick < ticks; ++tick) {
    Tensor sent;
    if (const int turn = AtTick(tick, last - own); turn >= 0) {
      const auto at_index = static_cast<size_t>(microbatches_ - 1 - turn);
      const Tensor of[] = {outputs[at_index]}, with[] = {own == last ? Tensor() : arrived};
      hammock::backward(of, with);
      if (own > 0) sent = inputs[at_index].grad();
      inputs[at_index] = outputs[at_index] = Tensor();
      if (own > 0 && !sent.defined()) sent = zeros(between_.sizes(), between_.dtype());
    }
    std::vector<std::pair<int, int>> pairs;
    for (int stage = 1; stage < stages; ++stage) {
      if (AtTick(tick, last - stage) >= 0) pairs.push_back({stage, stage - 1});
    }
    NoGradGuard no_grad;
    if (!sent.defined()) sent = zeros(between_.sizes(), between_.dtype());
    if (pairs.empty()) continue;
    arrived = permute(sent, pairs, group_);
    sent_on.push_back(arrived);
  }
  NoGradGuard no_grad;
  return broadcast(After(total, std::move(sent_on)), last, group_);
}

Tensor Pipeline::forward(const Tensor& input, const Shape& output, Location at) {
  LocationScope scope(at);
  NoGradGuard no_grad;
  const int stages = group_.size(), own = group_.rank(), last = stages - 1;
  std::vector<Tensor> outputs, sent_on;
  Tensor received;
  for (int tick = 0; tick < microbatches_ + stages - 1; ++tick) {
    Tensor made;
    if (const int microbatch = AtTick(tick, own); microbatch >= 0) {
      made = stage_(InputOf(input, microbatch, received));
      if (own < last) CheckMade(made);
      if (own == last) outputs.push_back(made);
    }
    received = Forwarded(own < last ? made : Tensor(), tick);
    if (received.defined()) sent_on.push_back(received);
  }
  for (int i = static_cast<int>(outputs.size()); i < microbatches_; ++i) {
    outputs.push_back(zeros(output.sizes(), output.dtype()));
  }
  return broadcast(After(cat(outputs), std::move(sent_on)), last, group_);
}

}  // namespace hammock::distributed
