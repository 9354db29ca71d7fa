#pragma once
/// Hooks: functions of the user that run around a module's `forward` and its gradient. They run
/// where the module is called (`layer(x)`, `run_method("forward", ...)`), not where `forward`
/// itself is, and see the tensors among arguments and results, in order.
///
///   HookHandle handle = net->register_forward_hook(
///       [&](Module&, const std::vector<Tensor>& inputs, std::vector<Tensor>& outputs) {
///         features = outputs[0].detach();
///       });
///   handle.remove();

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "hammock/export.h"
#include "hammock/tensor.h"

namespace hammock {

class Module;

/// Runs before `forward`; what it puts into `inputs` is what `forward` gets.
using ForwardPreHook = std::function<void(Module&, std::vector<Tensor>& inputs)>;
/// Runs after `forward`; what it puts into `outputs` is what the caller gets.
using ForwardHook =
    std::function<void(Module&, const std::vector<Tensor>& inputs, std::vector<Tensor>& outputs)>;
/// Runs before the gradient of the module, on the gradients of its outputs.
using BackwardPreHook = std::function<void(Module&, std::vector<Tensor>& grad_outputs)>;
/// Runs when the gradients of the module's inputs are known. Those of tensors that need none are
/// undefined.
using BackwardHook = std::function<void(Module&, std::vector<Tensor>& grad_inputs,
                                        const std::vector<Tensor>& grad_outputs)>;

/// The hooks of one module.
struct ModuleHooks;

/// Removes a hook; does nothing once the module is gone. Copies are handles of the same hook.
class HAMMOCK_API HookHandle {
 public:
  HookHandle() = default;
  HookHandle(std::weak_ptr<ModuleHooks> hooks, int64_t number)
      : hooks_(std::move(hooks)), number_(number) {}
  void remove();

 private:
  std::weak_ptr<ModuleHooks> hooks_;
  int64_t number_ = -1;
};

/// Runs `forward` between a module's hooks. It gets the inputs that the hooks leave, and returns
/// its outputs.
HAMMOCK_API std::vector<Tensor> RunHooked(
    const std::shared_ptr<ModuleHooks>& hooks, std::vector<Tensor> inputs,
    const std::function<std::vector<Tensor>(const std::vector<Tensor>&)>& forward);

namespace detail {

/// Calls `visit` with each tensor that a value of C++ holds, undefined ones too.
template <class Visit>
void EachTensor(Tensor& value, Visit&& visit) {
  visit(value);
}
template <class T, class Visit>
void EachTensor(std::optional<T>& value, Visit&& visit);
template <class T, class Visit>
void EachTensor(std::vector<T>& values, Visit&& visit);
template <class A, class B, class Visit>
void EachTensor(std::pair<A, B>& values, Visit&& visit);
template <class... T, class Visit>
void EachTensor(std::tuple<T...>& values, Visit&& visit);
template <class T, class Visit>
requires(!std::derived_from<T, Tensor>) void EachTensor(T&, Visit&&) {}

template <class T, class Visit>
void EachTensor(std::optional<T>& value, Visit&& visit) {
  if (value) EachTensor(*value, visit);
}
template <class T, class Visit>
void EachTensor(std::vector<T>& values, Visit&& visit) {
  for (T& value : values) EachTensor(value, visit);
}
template <class A, class B, class Visit>
void EachTensor(std::pair<A, B>& values, Visit&& visit) {
  EachTensor(values.first, visit);
  EachTensor(values.second, visit);
}
template <class... T, class Visit>
void EachTensor(std::tuple<T...>& values, Visit&& visit) {
  std::apply([&](T&... each) { (EachTensor(each, visit), ...); }, values);
}

template <class T>
std::vector<Tensor> TensorsIn(T& value) {
  std::vector<Tensor> tensors;
  EachTensor(value, [&](Tensor& tensor) { tensors.push_back(tensor); });
  return tensors;
}
template <class T>
void PutTensors(T& value, const std::vector<Tensor>& tensors) {
  size_t next = 0;
  EachTensor(value, [&](Tensor& tensor) { tensor = tensors.at(next++); });
}

/// `forward` of a module that has hooks, on arguments of any type.
template <class Forward, class... Args>
auto CallHooked(const std::shared_ptr<ModuleHooks>& hooks, const Forward& forward, Args... args) {
  std::tuple<Args...> values(std::move(args)...);
  using Result = std::remove_cvref_t<decltype(std::apply(forward, values))>;
  std::optional<Result> result;
  std::vector<Tensor> outputs =
      RunHooked(hooks, TensorsIn(values), [&](const std::vector<Tensor>& inputs) {
        PutTensors(values, inputs);
        result.emplace(std::apply(forward, values));
        return TensorsIn(*result);
      });
  PutTensors(*result, outputs);
  return *std::move(result);
}

}  // namespace detail
}  // namespace hammock
