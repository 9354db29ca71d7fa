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
#include <string>
#include <utility>

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

  Layer(std::nullptr_t) {}                                                        // NOLINT
  Layer(std::shared_ptr<Impl> layer) : std::shared_ptr<Impl>(std::move(layer)) {  // NOLINT
    Module::RememberClass(this->get());
  }
  explicit Layer(const Options& options) requires std::constructible_from<Impl, const Options&>
      : Layer(std::make_shared<Impl>(options)) {}
  /// `nn::LayerNorm({8, 16})`
  template <std::integral T, size_t count>
  requires std::constructible_from<Impl, const Sizes&>
  explicit Layer(const T (&sizes)[count]) : Layer(std::make_shared<Impl>(Sizes(sizes))) {}
  template <class... Args>
  requires(std::constructible_from<Impl, Args...> &&
           !(sizeof...(Args) == 1 && (std::derived_from<std::remove_cvref_t<Args>, Layer> &&
                                      ...))) explicit Layer(Args&&... args)
      : Layer(std::make_shared<Impl>(std::forward<Args>(args)...)) {}

  /// The same layer; while the module that has it as a member is cloned, that of the clone.
  Layer(const Layer& other)
      : std::shared_ptr<Impl>(Module::IsCloning() ? InClone(other) : other.shared()) {}
  Layer(Layer&&) noexcept = default;
  Layer& operator=(const Layer&) = default;
  Layer& operator=(Layer&&) noexcept = default;

  /// `forward` between the hooks; what it records belongs to the line of the call.
  template <class... Args>
  decltype(auto) operator()(const TensorAt& input, Args&&... rest) const {
    LocationScope scope(input.at);
    auto forward = [this](const Tensor& first, auto&&... others) -> decltype(auto) {
      return (*this)->forward(first, std::forward<decltype(others)>(others)...);
    };
    if (!(*this)->hooks()) return forward(input.tensor, std::forward<Args>(rest)...);
    return hammock::detail::CallHooked((*this)->hooks(), forward, input.tensor,
                                       std::remove_cvref_t<Args>(rest)...);
  }
  template <class... Args>
  decltype(auto) operator()(const PackedAt& input, Args&&... rest) const {
    LocationScope scope(input.at);
    auto forward = [this](const PackedSequence& first, auto&&... others) -> decltype(auto) {
      return (*this)->forward(first, std::forward<decltype(others)>(others)...);
    };
    if (!(*this)->hooks()) return forward(input.sequence, std::forward<Args>(rest)...);
    return hammock::detail::CallHooked((*this)->hooks(), forward, input.sequence,
                                       std::remove_cvref_t<Args>(rest)...);
  }

 private:
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
