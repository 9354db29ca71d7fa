#pragma once
/// Layer: how layers are held. A layer is a Module; `nn::Linear` is a handle to one, and copies of
/// a handle are the same layer.
///
///   struct Net : nn::Module {
///     nn::Linear hidden = register_module("hidden", nn::Linear(784, 128));
///     nn::Linear out = register_module("out", nn::Linear(128, 10));
///     Tensor forward(const Tensor& x) { return out(relu(hidden(x))); }   // net.forward(x)
///   };
///
/// Layers of many arguments take a struct: `nn::Conv2d({.in_channels = 1, .out_channels = 8,
/// .kernel_size = 3, .padding = 1})`. Members behind the arrow are those of PyTorch:
/// `out->weight`.

#include <concepts>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "hammock/caller_scope.h"
#include "hammock/export.h"
#include "hammock/module.h"
#include "hammock/nn/sizes.h"
#include "hammock/tensor.h"

namespace hammock::nn {

using hammock::Module;
using hammock::ModulePtr;

/// A layer of one tensor that gives one.
class HAMMOCK_API UnaryModule : public Module {
 public:
  virtual Tensor forward(const Tensor& input) = 0;

 protected:
  explicit UnaryModule(std::string class_name);
};

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverloaded-virtual"  // UnaryLayer hides one on purpose
namespace detail {
/// The base of Hammock's own layers of one tensor: `forward` calls `Run`, which they implement.
class HAMMOCK_API UnaryCode : public UnaryModule {
 public:
  Tensor forward(const Tensor& input) override { return Run(input); }

 protected:
  using UnaryModule::UnaryModule;
  virtual Tensor Run(const Tensor& input) = 0;
};
}  // namespace detail

/// One of Hammock's own: `layer->forward(x)` belongs to its line, as `layer(x)` does. A class that
/// derives from one may override `forward(const Tensor&)` as those of UnaryModule do; a handle of
/// the class that it derives from comes to that by `layer(x)`, not by `layer->forward(x)`.
class HAMMOCK_API UnaryLayer : public detail::UnaryCode {
 public:
  Tensor forward(const TensorAt& input);

 protected:
  using UnaryCode::UnaryCode;
};
#pragma GCC diagnostic pop

namespace detail {
template <class Impl>
struct OptionsOf {
  struct None {};
  using type = None;
};
template <class Impl>
requires requires { typename Impl::Options; }
struct OptionsOf<Impl> {
  using type = typename Impl::Options;
};

/// Whether a module of any class takes the type, alone or one by one, as `Any`.
template <class T>
inline constexpr bool kBoxable = std::convertible_to<T, Tensor> || std::is_arithmetic_v<T>;
template <class T>
inline constexpr bool kBoxable<std::optional<T>> = kBoxable<T>;
template <class... T>
inline constexpr bool kBoxable<std::tuple<T...>> = (kBoxable<T> && ...);

/// How many arguments of a method by name it is: there a tuple is its parts.
template <class T>
inline constexpr int kParts = 1;
template <class T>
inline constexpr int kParts<std::optional<T>> = kParts<T>;
template <class... T>
inline constexpr int kParts<std::tuple<T...>> = (kParts<T> + ... + 0);

template <class T>
void BoxInto(std::vector<Any>& args, const T& value) {
  if constexpr (std::convertible_to<T, Tensor>) {
    args.emplace_back(static_cast<const Tensor&>(value));
  } else if constexpr (std::is_arithmetic_v<T>) {
    args.emplace_back(Scalar(value));
  } else if constexpr (requires { value.has_value(); }) {
    value ? BoxInto(args, *value) : args.resize(args.size() + kParts<T>);
  } else {
    std::apply([&](const auto&... parts) { (BoxInto(args, parts), ...); }, value);
  }
}

/// The deleter of handles without a layer: knows where they were made.
struct MadeEmpty {
  Location at;
  void operator()(void*) const {}
};
/// ValueError for a call of a handle without a layer.
[[noreturn]] HAMMOCK_API void ThrowNull(const Location& at);
/// The same where the line of the call is not known, but perhaps that of the handle.
[[noreturn]] HAMMOCK_API void ThrowNull(const MadeEmpty* handle);
/// NotSupported for a type that has no boxed form.
[[noreturn]] HAMMOCK_API void ThrowNotBoxed(const Module& module);

/// The values that a method by name gave, without lists in lists. ValueError unless `parts` many.
HAMMOCK_API AnyList Flat(const Module& module, const Any& result, size_t parts);

/// The next of the parts as `R`; the parts of a tuple in a tuple are listed with the others.
template <class R>
R Unboxed(const Module& module, AnyList::const_iterator& next) {
  if constexpr (std::same_as<R, Tensor>) {
    return (next++)->ToTensor();
  } else if constexpr (requires { std::tuple_size<R>::value; }) {
    return [&]<size_t... I>(std::index_sequence<I...>) {
      return R{Unboxed<std::tuple_element_t<I, R>>(module, next)...};
    }
    (std::make_index_sequence<std::tuple_size_v<R>>());
  } else {
    ThrowNotBoxed(module);
  }
}

/// `forward` of the module that has taken a layer's place.
template <class Result, class... Args>
Result CallReplacement(Module& module, const Location& at, const Args&... args) {
  if constexpr ((kBoxable<Args> && ...)) {
    std::vector<Any> boxed;
    (BoxInto(boxed, args), ...);
    using R = std::remove_cvref_t<Result>;
    const AnyList parts = Flat(module, module.run_method("forward", boxed, {}, at), kParts<R>);
    AnyList::const_iterator next = parts.begin();
    return Unboxed<R>(module, next);
  } else {
    ThrowNotBoxed(module);
  }
}
}  // namespace detail

struct PackedSequence;
/// A packed sequence with the line where it was given.
struct PackedAt {
  PackedAt(const PackedSequence& sequence, Location at = Location::current())  // NOLINT
      : sequence(sequence), at(at) {}
  const PackedSequence& sequence;
  Location at;
};

template <class Impl>
class Layer : public std::shared_ptr<Impl> {
 public:
  using Options = typename detail::OptionsOf<Impl>::type;

  Layer(std::nullptr_t, Location at = Location::current())  // NOLINT
      : std::shared_ptr<Impl>(static_cast<Impl*>(nullptr), detail::MadeEmpty{at}) {}
  Layer(std::shared_ptr<Impl> layer) : std::shared_ptr<Impl>(std::move(layer)) {  // NOLINT
    Module::RememberClass(this->get());
  }
  explicit Layer(const Options& options, Location at = Location::current()) requires
      std::constructible_from<Impl, const Options&> : Layer(Make(at, options)) {}
  /// `nn::LayerNorm({8, 16})`
  template <std::integral T, size_t count>
  requires std::constructible_from<Impl, const Sizes&>
  explicit Layer(const T (&sizes)[count], Location at = Location::current())
      : Layer(Make(at, Sizes(sizes))) {}
  explicit Layer(Location at = Location::current()) requires std::default_initializable<Impl>
      : Layer(Make(at)) {}
  // A default argument cannot follow a pack: errors of lists of more than six do not know their
  // line.
  template <class A>
  requires(std::constructible_from<Impl, A> &&
           !std::derived_from<std::remove_cvref_t<A>,
                              Layer>) explicit Layer(A&& a, Location at = Location::current())
      : Layer(Make(at, std::forward<A>(a))) {}
  template <class A, class B>
  requires std::constructible_from<Impl, A, B>
  explicit Layer(A&& a, B&& b, Location at = Location::current())
      : Layer(Make(at, std::forward<A>(a), std::forward<B>(b))) {}
  template <class A, class B, class C>
  requires std::constructible_from<Impl, A, B, C>
  explicit Layer(A&& a, B&& b, C&& c, Location at = Location::current())
      : Layer(Make(at, std::forward<A>(a), std::forward<B>(b), std::forward<C>(c))) {}
  template <class A, class B, class C, class D>
  requires std::constructible_from<Impl, A, B, C, D>
  explicit Layer(A&& a, B&& b, C&& c, D&& d, Location at = Location::current())
      : Layer(Make(at, std::forward<A>(a), std::forward<B>(b), std::forward<C>(c),
                   std::forward<D>(d))) {}
  template <class A, class B, class C, class D, class E>
  requires std::constructible_from<Impl, A, B, C, D, E>
  explicit Layer(A&& a, B&& b, C&& c, D&& d, E&& e, Location at = Location::current())
      : Layer(Make(at, std::forward<A>(a), std::forward<B>(b), std::forward<C>(c),
                   std::forward<D>(d), std::forward<E>(e))) {}
  template <class A, class B, class C, class D, class E, class F>
  requires std::constructible_from<Impl, A, B, C, D, E, F>
  explicit Layer(A&& a, B&& b, C&& c, D&& d, E&& e, F&& f, Location at = Location::current())
      : Layer(Make(at, std::forward<A>(a), std::forward<B>(b), std::forward<C>(c),
                   std::forward<D>(d), std::forward<E>(e), std::forward<F>(f))) {}
  template <class... Args>
  requires(sizeof...(Args) > 6 &&
           std::constructible_from<Impl, Args...>) explicit Layer(Args&&... args)
      : Layer(std::make_shared<Impl>(std::forward<Args>(args)...)) {}

  /// The same layer; while the module that has it as a member is cloned, that of the clone.
  Layer(const Layer& other)
      : std::shared_ptr<Impl>(Module::IsCloning() ? InClone(other) : other.shared()) {}
  Layer(Layer&&) noexcept = default;
  Layer& operator=(const Layer&) = default;
  Layer& operator=(Layer&&) noexcept = default;

  /// The error of a handle without a layer has the line where that was made: the operator cannot
  /// know its own.
  Impl* operator->() const {
    if (!this->get()) [[unlikely]]
      detail::ThrowNull(std::get_deleter<detail::MadeEmpty>(shared()));
    return this->get();
  }

  /// `forward` between the hooks; what Hammock's layers record belongs to the line of the call.
  template <class... Args>
  decltype(auto) operator()(const TensorAt& input, Args&&... rest) const {
    return Call(input.at, input.tensor, std::forward<Args>(rest)...);
  }
  template <class... Args>
  decltype(auto) operator()(const PackedAt& input, Args&&... rest) const {
    return Call(input.at, input.sequence, std::forward<Args>(rest)...);
  }

 private:
  template <class... Args>
  static std::shared_ptr<Impl> Make(const Location& at, Args&&... args) {
    CallerScope caller(at);
    return std::make_shared<Impl>(std::forward<Args>(args)...);
  }

  /// Of the class that the layer really is, where that overrides the one of a UnaryModule.
  template <class... Args>
  static decltype(auto) Forward(Impl& layer, Args&&... args) {
    constexpr bool kUnary = requires {
      requires std::same_as<decltype(&Impl::forward), Tensor (UnaryLayer::*)(const TensorAt&)>;
    };
    if constexpr (kUnary && sizeof...(Args) == 1) {
      return static_cast<UnaryModule&>(layer).forward(std::forward<Args>(args)...);
    } else {
      return layer.forward(std::forward<Args>(args)...);
    }
  }

  template <class... Args>
  decltype(auto) Call(const Location& at, Args&&... args) const {
    if (!this->get()) [[unlikely]]
      detail::ThrowNull(at);
    Impl& layer = **this;
    using Result = decltype(Forward(layer, std::forward<Args>(args)...));
    if (Module* other = layer.replacement()) [[unlikely]] {
      return detail::CallReplacement<Result>(*other, at, args...);
    }
    Module::BeginOfCall();
    Result result = [&]() -> Result {
      ModuleFrameScope frame(Module::FrameLabel, layer, "forward", at);
      if (!layer.hooks()) [[likely]]
        return Forward(layer, std::forward<Args>(args)...);
      auto forward = [&](const auto&... each) { return Forward(layer, each...); };
      return hammock::detail::CallHooked(layer.hooks(), forward, std::decay_t<Args>(args)...);
    }();
    Module::EndOfCall(at);
    return result;
  }

  const std::shared_ptr<Impl>& shared() const { return *this; }
  static std::shared_ptr<Impl> InClone(const Layer& layer) {
    auto copy = std::dynamic_pointer_cast<Impl>(Module::InClone(layer));
    if (layer && !copy) Module::ThrowUnknownClass(*layer);
    return copy;
  }
};

/// A layer of its own; see hammock::clone.
template <class Impl>
Layer<Impl> clone(const Layer<Impl>& layer) {
  return hammock::clone(*layer);
}

/// The tree of modules, as of the module itself.
template <class Impl>
std::ostream& operator<<(std::ostream& os, const Layer<Impl>& layer) {
  return layer ? os << static_cast<const Module&>(*layer) : os << "null";
}

}  // namespace hammock::nn
