#pragma once
/// Callback: a function that is called later, such as a hook. It is made from a lambda, a function
/// or a std::function; copies share what that captured. Headers that every program includes take
/// one where std::function would cost them <functional>.

#include <concepts>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

namespace hammock {

template <class Signature>
class Callback;

template <class R, class... Args>
class Callback<R(Args...)> {
 public:
  Callback() = default;
  Callback(std::nullptr_t) {}  // NOLINT: implicit, as of std::function
  template <class F>
  requires(!std::same_as<F, Callback> && std::is_invocable_r_v<R, F&, Args...>)
      Callback(F function) {  // NOLINT
    if constexpr (std::is_pointer_v<F> || requires { function.operator bool(); }) {
      if (!function) return;  // null, or an empty std::function
    }
    captured_ = std::make_shared<F>(std::move(function));
    call_ = [](void* captured, Args... args) {
      return static_cast<R>((*static_cast<F*>(captured))(std::forward<Args>(args)...));
    };
  }

  explicit operator bool() const { return call_ != nullptr; }
  R operator()(Args... args) const { return call_(captured_.get(), std::forward<Args>(args)...); }

 private:
  std::shared_ptr<void> captured_;
  R (*call_)(void* captured, Args... args) = nullptr;
};

}  // namespace hammock
