#include <algorithm>

#include "autograd/gradient_hook.h"
#include "base/throw.h"
#include "hammock/autograd.h"
#include "hammock/module.h"
#include "hammock/module_hooks.h"
#include "module/module_access.h"
#include "module/module_hooks.h"

namespace hammock {
namespace {

/// A hook may remove hooks, itself too.
template <class Hook, class... Args>
void RunAll(std::map<int64_t, Hook> hooks, Module& module, Args&... args) {
  for (auto& [number, hook] : hooks) hook(module, args...);
}

void CheckCount(const Module& module, const char* what, size_t left, size_t given) {
  if (left == given) return;
  Throw(ErrorCode::kValue, "{}: a hook left {} of {} {}", module.class_name(), left, given, what);
}

/// Links the gradients of a call's outputs to those of its inputs.
class BackwardCall {
 public:
  explicit BackwardCall(std::shared_ptr<ModuleHooks> hooks) : hooks_(std::move(hooks)) {}

  /// Whether an input has a gradient; the hooks then run when that is known.
  void set_inputs(const std::vector<Tensor>& before, const std::vector<Tensor>& after) {
    inputs_ = before.size();
    for (size_t i = 0; i < inputs_; ++i) hooked_ = hooked_ || !before[i].is_same(after[i]);
  }
  std::vector<Tensor> OfOutputs(std::vector<Tensor> grads) {
    if (hooks_->module) RunAll(hooks_->backward_pre, *hooks_->module, grads);
    grad_outputs_ = grads;
    std::vector<Tensor> none(inputs_);
    if (!hooked_) Run(none);
    return grads;
  }
  std::vector<Tensor> OfInputs(std::vector<Tensor> grads) {
    Run(grads);
    return grads;
  }

 private:
  void Run(std::vector<Tensor>& grad_inputs) {
    if (hooks_->module) RunAll(hooks_->backward, *hooks_->module, grad_inputs, grad_outputs_);
    grad_outputs_.clear();
  }

  const std::shared_ptr<ModuleHooks> hooks_;
  size_t inputs_ = 0;
  bool hooked_ = false;
  std::vector<Tensor> grad_outputs_;
};

}  // namespace

std::vector<Tensor> RunHooked(
    const std::shared_ptr<ModuleHooks>& given, std::vector<Tensor> inputs,
    const std::function<std::vector<Tensor>(const std::vector<Tensor>&)>& forward) {
  ComputedScope computed(given);
  return RunBetweenHooks(given, std::move(inputs), forward);
}

std::vector<Tensor> RunBetweenHooks(
    std::shared_ptr<ModuleHooks> hooks, std::vector<Tensor> inputs,
    const std::function<std::vector<Tensor>(const std::vector<Tensor>&)>& forward) {
  Module& module = *hooks->module;
  const size_t num_inputs = inputs.size();
  RunAll(hooks->forward_pre, module, inputs);
  CheckCount(module, "inputs", inputs.size(), num_inputs);
  std::shared_ptr<BackwardCall> backward;
  if (!hooks->backward.empty() || !hooks->backward_pre.empty()) {
    backward = std::make_shared<BackwardCall>(hooks);
    std::vector<Tensor> before = inputs;
    inputs = HookGradients(std::move(inputs), [backward](std::vector<Tensor> grads) {
      return backward->OfInputs(std::move(grads));
    });
    backward->set_inputs(before, inputs);
  }
  std::vector<Tensor> outputs = forward(inputs);
  const size_t num_outputs = outputs.size();
  RunAll(hooks->forward, module, std::as_const(inputs), outputs);
  CheckCount(module, "outputs", outputs.size(), num_outputs);
  if (!backward) return outputs;
  return HookGradients(std::move(outputs), [backward](std::vector<Tensor> grads) {
    return backward->OfOutputs(std::move(grads));
  });
}

void HookHandle::remove() {
  std::shared_ptr<ModuleHooks> hooks = hooks_.lock();
  if (!hooks) return;
  hooks->forward_pre.erase(number_);
  hooks->forward.erase(number_);
  hooks->backward_pre.erase(number_);
  hooks->backward.erase(number_);
}

// ---- Computed tensors

ComputedScope::ComputedScope(std::shared_ptr<ModuleHooks> hooks) : hooks_(std::move(hooks)) {
  if (!hooks_) return;
  for (const ComputedTensor& each : hooks_->computed) {
    each.tensor->set(each.compute(*hooks_->module));
  }
}

ComputedScope::~ComputedScope() {
  if (!hooks_) return;
  for (const ComputedTensor& each : hooks_->computed) each.tensor->set(Tensor());
}

void Module::compute_parameter(const std::string& name, std::function<Tensor(Module& self)> compute,
                               Location at) {
  LocationScope scope(at);
  auto slot = std::ranges::find_if(tensors_, [&](const auto& each) { return each->name == name; });
  if (slot == tensors_.end()) {
    Throw(ErrorCode::kUnknownName, "{} has no parameter '{}' of its own", class_name_, name);
  }
  (*slot)->set(Tensor());
  (*slot)->own = Tensor();
  OwnHooks().computed.push_back({*slot, std::move(compute)});
  tensors_.erase(slot);
}

void Module::keep_computed(const std::string& name, Location at) {
  LocationScope scope(at);
  auto is_name = [&](const ComputedTensor& each) { return each.tensor->name == name; };
  auto found = hooks_ ? std::ranges::find_if(hooks_->computed, is_name)
                      : std::vector<ComputedTensor>::iterator();
  if (!hooks_ || found == hooks_->computed.end()) {
    Throw(ErrorCode::kUnknownName, "{} computes no parameter '{}'", class_name_, name);
  }
  Tensor value = found->compute(*this);
  bool trained = value.requires_grad();
  value = value.detach().clone();
  if (trained) value.requires_grad_();
  found->tensor->set(value);
  tensors_.push_back(found->tensor);
  hooks_->computed.erase(found);
}

// ---- Hooks

ModuleHooks& Module::OwnHooks() {
  if (!hooks_) hooks_ = std::make_shared<ModuleHooks>(ModuleHooks{.module = this});
  return *hooks_;
}

HookHandle Module::register_forward_pre_hook(ForwardPreHook hook) {
  int64_t number = OwnHooks().next++;
  hooks_->forward_pre[number] = std::move(hook);
  return {hooks_, number};
}

HookHandle Module::register_forward_hook(ForwardHook hook) {
  int64_t number = OwnHooks().next++;
  hooks_->forward[number] = std::move(hook);
  return {hooks_, number};
}

HookHandle Module::register_full_backward_pre_hook(BackwardPreHook hook) {
  int64_t number = OwnHooks().next++;
  hooks_->backward_pre[number] = std::move(hook);
  return {hooks_, number};
}

HookHandle Module::register_full_backward_hook(BackwardHook hook) {
  int64_t number = OwnHooks().next++;
  hooks_->backward[number] = std::move(hook);
  return {hooks_, number};
}

}  // namespace hammock
