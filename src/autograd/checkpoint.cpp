#include "autograd/checkpoint.h"

#include "base/throw.h"
#include "ir/location_scope.h"
#include "lazy/hooks.h"
#include "lazy/record.h"
#include "lazy/tensor_impl.h"

namespace hammock {

CheckpointRecord::CheckpointRecord(TensorsFn fn, const std::vector<Tensor>& inputs)
    : fn_(std::move(fn)) {
  for (const Tensor& input : inputs) inputs_.push_back(ValueOf("checkpoint", input));
}

SavedValues CheckpointRecord::Restore(size_t number) {
  if (number >= saved_.size() || !saved_[number]) {
    saved_.clear();
    std::vector<Tensor> inputs;
    for (const Value& value : inputs_) {
      inputs.push_back(value ? Tensor::FromValue(value) : Tensor());
    }
    GradModeScope grad(true);
    LocationId before = std::exchange(tls_location, 0);
    try {
      Checkpoint region(*this, true);
      fn_(inputs);
    } catch (...) {
      tls_location = before;
      throw;
    }
    tls_location = before;
    if (saved_.size() != entries_) {
      Throw(ErrorCode::kValue,
            "checkpoint: the function recorded {} differentiable ops the first time and {} the "
            "second; it must do the same when called again",
            entries_, saved_.size());
    }
  }
  return *std::exchange(saved_[number], std::nullopt);
}

Checkpoint::Checkpoint(CheckpointRecord& record, bool again)
    : record_(record), again_(again), outer_(std::exchange(Context().checkpoint, this)) {}

Checkpoint::~Checkpoint() { Context().checkpoint = outer_; }

size_t Checkpoint::Add(SavedValues saved) {
  if (again_) {
    record_.saved_.emplace_back(std::move(saved));
  } else {
    ++record_.entries_;
  }
  return entries_++;
}

std::pair<uint64_t, uint64_t> Checkpoint::Draw(Generator& generator, uint64_t blocks) {
  if (again_ && draws_ < record_.draws_.size()) return record_.draws_[draws_++];
  record_.draws_.push_back(generator.Take(blocks));
  return record_.draws_[draws_++];
}

std::pair<uint64_t, uint64_t> TakeRandom(Generator& generator, uint64_t blocks) {
  Checkpoint* checkpoint = Context().checkpoint;
  return checkpoint ? checkpoint->Draw(generator, blocks) : generator.Take(blocks);
}

std::vector<Tensor> checkpoint(const TensorsFn& fn, const std::vector<Tensor>& inputs,
                               Location at) {
  (void)at;
  if (!Context().grad_mode) return fn(inputs);
  auto record = std::make_shared<CheckpointRecord>(fn, inputs);
  Checkpoint region(*record, false);
  return fn(inputs);
}

}  // namespace hammock
