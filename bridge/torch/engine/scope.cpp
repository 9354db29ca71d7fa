#include "engine/scope.h"

#include "engine/values.h"

namespace hammock_torch {

namespace {
thread_local RecordScope* open_scope = nullptr;
}  // namespace

RecordScope::RecordScope(const hammock::Device& device, std::vector<DrawnInput>* draws,
                         const std::vector<hammock::Tensor>* drawn)
    : device_(device), draws_(draws), drawn_(drawn), outer_(open_scope) {
  open_scope = this;
}

RecordScope::~RecordScope() { open_scope = outer_; }

const hammock::Device& CurrentDevice() {
  if (open_scope) return open_scope->device_;
  thread_local hammock::Device by_default;
  by_default = hammock::Device();
  return by_default;
}

hammock::Tensor Draw(DrawFn draw) {
  RecordScope* scope = open_scope;
  if (scope && scope->drawn_) return scope->drawn_->at(scope->next_++);
  hammock::Tensor numbers = ImportTensor(draw(), CurrentDevice());
  if (scope && scope->draws_) scope->draws_->push_back({std::move(draw), numbers.shape()});
  return numbers;
}

}  // namespace hammock_torch
