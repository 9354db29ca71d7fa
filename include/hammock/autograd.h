#pragma once
/// Gradients: reverse mode over values.
///
///   Tensor w = randn({3}).requires_grad_();
///   Tensor loss = square(x.matmul(w) - y).mean();
///   loss.backward();                  // traced, not run: one graph with the forward pass
///   { NoGradGuard no_grad; w.sub_(w.grad() * 0.1); }
///
/// Values never change, so views and in-place writes need no special care: a gradient sees the
/// values that its op saw. Reading a value between forward and backward computes nothing twice.

#include <concepts>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "hammock/export.h"
#include "hammock/ir/any.h"
#include "hammock/tensor.h"

namespace hammock {

/// While one lives, ops of this thread record history or do not.
class HAMMOCK_API AutoGradMode {
 public:
  explicit AutoGradMode(bool enabled);
  ~AutoGradMode();
  AutoGradMode(const AutoGradMode&) = delete;
  AutoGradMode& operator=(const AutoGradMode&) = delete;
  static bool is_enabled();

 private:
  bool before_;
};
struct NoGradGuard : AutoGradMode {
  NoGradGuard() : AutoGradMode(false) {}
};
struct EnableGradGuard : AutoGradMode {
  EnableGradGuard() : AutoGradMode(true) {}
};

/// Adds to the `grad` of every leaf that `tensors` depend on, or of `inputs` only. `gradients` are
/// those that arrive at the tensors; undefined ones are allowed for tensors of one element. The
/// history can be used once unless `retain_graph` (which `create_graph` implies) says otherwise;
/// with `create_graph` the gradients have a history themselves.
HAMMOCK_API void backward(std::span<const Tensor> tensors, std::span<const Tensor> gradients = {},
                          std::optional<bool> retain_graph = std::nullopt,
                          bool create_graph = false, std::span<const Tensor> inputs = {},
                          Location at = Location::current());

/// The gradients of `outputs` with respect to `inputs`, leaves or not. An input that the outputs do
/// not depend on is an error, or with `allow_unused` an undefined gradient.
HAMMOCK_API std::vector<Tensor> grad(const std::vector<Tensor>& outputs,
                                     const std::vector<Tensor>& inputs,
                                     const std::vector<Tensor>& grad_outputs = {},
                                     std::optional<bool> retain_graph = std::nullopt,
                                     bool create_graph = false, bool allow_unused = false,
                                     Location at = Location::current());

using TensorsFn = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

/// The outputs of `fn` and their derivative along `tangents` (forward mode, by differentiating the
/// gradient).
HAMMOCK_API std::pair<std::vector<Tensor>, std::vector<Tensor>> jvp(
    const TensorsFn& fn, const std::vector<Tensor>& inputs, const std::vector<Tensor>& tangents,
    Location at = Location::current());

/// `fn(inputs)`, without keeping what its backward pass needs: that is computed again, with the
/// same random numbers, when the backward pass arrives.
HAMMOCK_API std::vector<Tensor> checkpoint(const TensorsFn& fn, const std::vector<Tensor>& inputs,
                                           Location at = Location::current());

namespace autograd {

/// Values that forward hands to backward in a custom function.
class HAMMOCK_API AutogradContext {
 public:
  AutogradContext();
  ~AutogradContext();
  AutogradContext(const AutogradContext&) = delete;
  AutogradContext& operator=(const AutogradContext&) = delete;

  /// Inputs, outputs or other tensors.
  void save_for_backward(std::vector<Tensor> tensors);
  std::vector<Tensor> get_saved_variables() const;
  /// Anything that is not a tensor.
  std::map<std::string, Any> saved_data;
  void mark_non_differentiable(const std::vector<Tensor>& outputs);
  /// Whether gradients that did not arrive are passed as zeros (the default) or undefined.
  void set_materialize_grads(bool materialize);
  /// Of each tensor that was passed to apply, in order.
  bool needs_input_grad(size_t input) const;

  struct State;
  State& state() { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

using BackwardFn = std::vector<Tensor> (*)(AutogradContext*, std::vector<Tensor>);

/// Gives `outputs`, computed from `inputs` without history, `backward` as their history.
HAMMOCK_API std::vector<Tensor> FinishFunction(std::shared_ptr<AutogradContext> context,
                                               const std::vector<Tensor>& inputs,
                                               std::vector<Tensor> outputs, BackwardFn backward,
                                               Location at);

/// A function with a gradient of its own. `T` has
///   static Tensor forward(AutogradContext*, args...)        (or a vector of tensors)
///   static std::vector<Tensor> backward(AutogradContext*, std::vector<Tensor> grads)
/// where backward returns one gradient per argument that is a Tensor. Called as T::apply(args...).
template <class T>
struct Function {
  template <class... Args>
  static auto apply(const TensorAt& first, Args&&... rest) {
    return ApplyAt(first.at, first.tensor, std::forward<Args>(rest)...);
  }
  template <class First, class... Args>
  requires(!std::derived_from<std::remove_cvref_t<First>, Tensor>) static auto apply(
      First&& first, Args&&... rest) {
    return ApplyAt(Location(), std::forward<First>(first), std::forward<Args>(rest)...);
  }

 private:
  template <class... Args>
  static auto ApplyAt(const Location& at, Args&&... args) {
    auto context = std::make_shared<AutogradContext>();
    std::vector<Tensor> inputs;
    auto add = [&](const auto& arg) {
      if constexpr (std::is_base_of_v<Tensor, std::remove_cvref_t<decltype(arg)>>) {
        inputs.push_back(arg);
      }
    };
    (add(args), ...);
    auto forward = [&] {
      NoGradGuard no_grad;
      return T::forward(context.get(), std::forward<Args>(args)...);
    };
    auto result = forward();
    if constexpr (std::is_same_v<decltype(result), Tensor>) {
      return FinishFunction(context, inputs, {result}, T::backward, at)[0];
    } else {
      return FinishFunction(context, inputs, std::move(result), T::backward, at);
    }
  }
};

}  // namespace autograd
}  // namespace hammock
