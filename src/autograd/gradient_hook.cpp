#include "autograd/gradient_hook.h"

#include "autograd/tape.h"
#include "base/location_scope.h"
#include "base/throw.h"
#include "trace/hooks.h"
#include "trace/record.h"
#include "trace/tensor_impl.h"

namespace hammock {
namespace {

class HookEntry : public TapeEntry {
 public:
  HookEntry(GradientsFn hook, std::vector<Shape> of)
      : hook_(std::move(hook)), types_(std::move(of)) {
    types = types_;
  }
  std::string name() const override { return "a module's hook"; }
  bool MaterializesGrads() const override { return false; }

  std::vector<Tensor> Backward(const TapePtr&, std::vector<Tensor>&& grads) override {
    std::vector<Tensor> passed = CallUser([&] { return hook_(std::move(grads)); });
    if (passed.size() != types.size()) {
      Throw(ErrorCode::kValue, "backward: a module's hook left {} gradients of {}", passed.size(),
            types.size());
    }
    for (size_t i = 0; i < passed.size(); ++i) {
      if (!passed[i].defined() || passed[i].shape() == types[i]) continue;
      Throw(ErrorCode::kShapeMismatch, "backward: a module's hook left {} for a gradient of {}",
            passed[i].shape().to_string(), types[i].to_string());
    }
    return passed;
  }

 private:
  GradientsFn hook_;
  const std::vector<Shape> types_;
};

}  // namespace

std::vector<Tensor> HookGradients(std::vector<Tensor> tensors, GradientsFn hook) {
  std::vector<Value> values;
  std::vector<Shape> types;
  bool has_history = false;
  for (const Tensor& tensor : tensors) {
    values.push_back(tensor.defined() ? ValueOf("hook", tensor) : Value());
    types.push_back(values.back() ? values.back().shape() : Shape());
    has_history |= static_cast<bool>(values.back().tape);
  }
  if (!has_history || !Context().grad_mode) return tensors;
  auto* entry = new HookEntry(std::move(hook), std::move(types));
  TapePtr tape = TapePtr::Adopt(entry);
  entry->location = CurrentLocation();
  for (size_t i = 0; i < tensors.size(); ++i) {
    Value value = values[i];
    entry->edges.push_back(EdgeTo(value));
    if (!value.tape) continue;
    entry->device = value.node->device();
    value.tape = OneResult("hook", {tape, static_cast<uint32_t>(i)}, value.shape(),
                           value.node->device(), [](const Tensor& grad) { return grad; });
    tensors[i] = Tensor::FromValue(std::move(value));
  }
  return tensors;
}

}  // namespace hammock
