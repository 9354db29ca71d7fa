#include "autograd/checkpoint.h"

#include "base/location_scope.h"
#include "base/throw.h"
#include "hammock/distributed/random_part.h"
#include "hammock/op_builder.h"
#include "ir/primitives.h"
#include "trace/hooks.h"
#include "trace/record.h"
#include "trace/tensor_impl.h"

namespace hammock {

namespace {

/// The value with its history, as the compiler cannot see through to it. Without that a step that
/// holds both passes would share the region's two traces and keep everything in between.
Tensor BehindBarrier(const Value& value, const std::vector<Tensor>& grads) {
  DeviceId device = value.node->device();
  if (device == kNoDevice && Context().symbolic == 0) return Tensor::FromValue(value);
  std::vector<Tensor> operands = {Tensor::FromValue({value.node, value.index})};
  for (const Tensor& grad : grads) {
    if (grad.defined() && grad.value().node->device() == device) operands.push_back(grad);
  }
  GradModeScope no_grad(false);
  Value behind = Apply(ops::kBarrier, Location(), operands).value();
  return Tensor::FromValue({behind.node, behind.index, value.tape});
}

}  // namespace

CheckpointRecord::CheckpointRecord(TensorsFn fn, const std::vector<Tensor>& inputs)
    : fn_(std::move(fn)),
      autocast_(Context().autocast),
      random_parts_(distributed::RandomPart::Current()) {
  for (const Tensor& input : inputs) inputs_.push_back(ValueOf("checkpoint", input));
}

SavedValues CheckpointRecord::Restore(size_t number, const std::vector<Tensor>& grads) {
  if (number >= saved_.size() || !saved_[number]) {
    saved_.clear();
    std::vector<Tensor> inputs;
    for (const Value& value : inputs_) {
      inputs.push_back(value ? BehindBarrier(value, grads) : Tensor());
    }
    GradModeScope grad(true);
    LocationId before = std::exchange(tls_location, 0);
    auto autocast = std::exchange(Context().autocast, autocast_);
    auto restore = [&] {
      tls_location = before;
      Context().autocast = autocast;
    };
    try {
      CheckpointRegion region(*this, true);
      distributed::RandomPart parts(random_parts_);
      fn_(inputs);
    } catch (...) {
      restore();
      throw;
    }
    restore();
    if (saved_.size() != entries_) {
      Throw(ErrorCode::kValue,
            "checkpoint: the function recorded {} differentiable ops the first time and {} the "
            "second; it must do the same when called again",
            entries_, saved_.size());
    }
  }
  return *std::exchange(saved_[number], std::nullopt);
}

CheckpointRegion::CheckpointRegion(CheckpointRecord& record, bool again)
    : record_(record), again_(again), outer_(std::exchange(Context().checkpoint, this)) {}

CheckpointRegion::~CheckpointRegion() { Context().checkpoint = outer_; }

size_t CheckpointRegion::Add(SavedValues saved) {
  if (again_) {
    record_.saved_.emplace_back(std::move(saved));
  } else {
    ++record_.entries_;
  }
  return entries_++;
}

std::pair<uint64_t, uint64_t> CheckpointRegion::Draw(Generator& generator, uint64_t blocks) {
  if (again_ && draws_ < record_.draws_.size()) return record_.draws_[draws_++];
  record_.draws_.push_back(generator.Take(blocks));
  return record_.draws_[draws_++];
}

RandomDraw TakeRandom(Generator& generator, uint64_t blocks) {
  ThreadContext& context = Context();
  const uint64_t all = context.mapping ? blocks * RandomCopies() : blocks;
  CheckpointRegion* checkpoint = context.checkpoint;
  auto [seed, offset] = checkpoint ? checkpoint->Draw(generator, all) : generator.Take(all);
  RandomDraw draw{seed, offset, all};
  if (context.mapping) NoteDraw(*context.mapping, draw, blocks);
  return draw;
}

std::vector<Tensor> checkpoint(const TensorsFn& fn, const std::vector<Tensor>& inputs,
                               Location at) {
  if (!fn) {
    LocationScope scope(at);
    Throw(ErrorCode::kValue, "checkpoint: the function is empty");
  }
  if (!Context().grad_mode) return fn(inputs);
  auto record = std::make_shared<CheckpointRecord>(fn, inputs);
  CheckpointRegion region(*record, false);
  return fn(inputs);
}

}  // namespace hammock
