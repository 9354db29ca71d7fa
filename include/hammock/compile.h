#pragma once
/// compile: a function of tensors that is traced once for each signature and replayed from then on,
/// without tracing.
///
///   auto step = compile(
///       [&](const Tensor& x, const Tensor& y) {
///         optimizer.zero_grad();
///         Tensor loss = cross_entropy(net.forward(x), y);
///         loss.backward();
///         optimizer.step();
///         return loss;
///       },
///       {net, optimizer});
///   for (const data::Batch& batch : loader) Tensor loss = step(batch[0], batch[1]);
///
/// - What the function reads or writes besides its arguments (parameters, buffers, the state of an
///   optimiser) is named in the list: modules, optimisers, tensors. Another tensor is refused when
///   the function is traced, with the line that uses it.
/// - Numbers and branches inside of the function are frozen as they were when it was traced.
///   Numbers that change are arguments: `step(x, 0.1)` gives the function a tensor. Modules in the
///   list may change between `train()` and `eval()`: each is traced once.
/// - Each call draws new random numbers.
/// - Results have no history (no NoGradGuard is needed), and gradients that the function leaves in
///   `grad` are dropped. A result that is a view has memory of its own.
/// - Values are known only when the function has returned: reading one inside of it, and keeping
///   one in a variable outside of it, is refused with its line. State is written in place:
///   `sum += x`, not `sum = sum + x`.
/// - In eager mode the function itself is called.
/// - The option `verify_replay` traces every n-th call again and fails where it records something
///   else.
///
/// A compiled function is called by one thread at a time; copies are the same function. Modules in
/// the list live as long as it does; those that are given by a handle are kept.

#include <array>
#include <concepts>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "hammock/autograd.h"
#include "hammock/export.h"
#include "hammock/tensor.h"

namespace hammock {

namespace detail {
/// The training flags of a module and of all below it.
template <class M>
void AppendTraining(const M& module, std::vector<bool>& flags) {
  flags.push_back(module.is_training());
  for (const auto& [name, child] : module.named_children()) AppendTraining(*child, flags);
}
}  // namespace detail

/// Tensors that a compiled function may use: one, several, or all of something's `state_dict()`;
/// of modules also the training flags.
class StateOf {
 public:
  StateOf(const Tensor& tensor) : tensors_{tensor} {}                     // NOLINT: implicit
  StateOf(std::vector<Tensor> tensors) : tensors_(std::move(tensors)) {}  // NOLINT
  template <class T>
  requires requires(const T& holder) { holder.state_dict(); }
  StateOf(const T& holder) {  // NOLINT
    for (const auto& [name, tensor] : holder.state_dict()) tensors_.push_back(tensor);
    if constexpr (requires {
                    holder.is_training();
                    holder.named_children();
                  }) {
      append_training_ = [&holder](auto& flags) { detail::AppendTraining(holder, flags); };
    }
  }
  template <class T>
  requires requires(const T& handle) { handle->state_dict(); }
  StateOf(const T& handle) : StateOf(*handle) {  // NOLINT
    if constexpr (std::copy_constructible<T>) kept_ = std::make_shared<T>(handle);
  }

  const std::vector<Tensor>& tensors() const { return tensors_; }
  void AppendTraining(std::vector<bool>& flags) const {
    if (append_training_) append_training_(flags);
  }

 private:
  std::vector<Tensor> tensors_;
  std::function<void(std::vector<bool>& flags)> append_training_;
  std::shared_ptr<const void> kept_;
};

/// The part of a compiled function that knows nothing of its types.
class HAMMOCK_API Replayed {
 public:
  Replayed(TensorsFn fn, std::initializer_list<StateOf> state, Location at);
  std::vector<Tensor> Call(std::span<const TensorArg> args) const;
  /// How many times the function was traced: once for each signature and set of training flags.
  size_t traces() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// The result of `compile`: called with the function's arguments, tensors or numbers.
template <class Signature>
class Compiled;

template <class R, class... Args>
class Compiled<R(Args...)> {
  template <class>
  using Arg = TensorArg;

 public:
  Compiled(std::function<R(Args...)> fn, std::initializer_list<StateOf> state,
           Location at = Location::current())
      : replayed_([fn](const std::vector<Tensor>& args) { return Run(fn, args, kAll); }, state,
                  at) {}

  R operator()(const Arg<Args>&... args) const {
    const std::array<TensorArg, sizeof...(Args)> list{args...};
    std::vector<Tensor> results = replayed_.Call(list);
    if constexpr (std::is_void_v<R>) {
      return;
    } else if constexpr (std::same_as<R, Tensor>) {
      return results[0];
    } else if constexpr (std::same_as<R, std::vector<Tensor>>) {
      return results;
    } else {
      return Tuple(results, std::make_index_sequence<std::tuple_size_v<R>>());
    }
  }
  size_t traces() const { return replayed_.traces(); }

 private:
  static constexpr std::index_sequence_for<Args...> kAll{};

  template <size_t... I>
  static std::vector<Tensor> Run(const std::function<R(Args...)>& fn,
                                 const std::vector<Tensor>& args, std::index_sequence<I...>) {
    if constexpr (std::is_void_v<R>) {
      fn(args[I]...);
      return {};
    } else if constexpr (std::same_as<R, Tensor>) {
      return {fn(args[I]...)};
    } else if constexpr (std::same_as<R, std::vector<Tensor>>) {
      return fn(args[I]...);
    } else {
      return std::apply([](const auto&... each) { return std::vector<Tensor>{each...}; },
                        fn(args[I]...));
    }
  }
  template <size_t... I>
  static R Tuple(const std::vector<Tensor>& results, std::index_sequence<I...>) {
    return R{results[I]...};
  }

  Replayed replayed_;
};

/// `fn` takes tensors and returns a tensor, a tuple or vector of them, or nothing.
template <class Fn>
auto compile(Fn fn, std::initializer_list<StateOf> state = {}, Location at = Location::current()) {
  std::function typed = std::move(fn);
  return [&]<class R, class... Args>(std::function<R(Args...)>& function) {
    return Compiled<R(Args...)>(std::move(function), state, at);
  }(typed);
}

}  // namespace hammock
