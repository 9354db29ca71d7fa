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

template <class Impl>
class Layer : public std::shared_ptr<Impl> {
 public:
  using Options = typename detail::OptionsOf<Impl>::type;

  Layer(std::nullptr_t) {}                                                         // NOLINT
  Layer(std::shared_ptr<Impl> layer) : std::shared_ptr<Impl>(std::move(layer)) {}  // NOLINT
  explicit Layer(const Options& options) requires std::constructible_from<Impl, const Options&>
      : std::shared_ptr<Impl>(std::make_shared<Impl>(options)) {}
  /// `nn::LayerNorm({8, 16})`
  template <std::integral T, size_t count>
  requires std::constructible_from<Impl, const Sizes&>
  explicit Layer(const T (&sizes)[count])
      : std::shared_ptr<Impl>(std::make_shared<Impl>(Sizes(sizes))) {}
  template <class... Args>
  requires std::constructible_from<Impl, Args...>
  explicit Layer(Args&&... args)
      : std::shared_ptr<Impl>(std::make_shared<Impl>(std::forward<Args>(args)...)) {}

  /// `forward`; what it records belongs to the line of the call.
  template <class... Args>
  decltype(auto) operator()(const TensorAt& input, Args&&... rest) const {
    LocationScope scope(input.at);
    return (*this)->forward(input.tensor, std::forward<Args>(rest)...);
  }
};

/// The tree of modules, as of the module itself.
template <class Impl>
std::ostream& operator<<(std::ostream& os, const Layer<Impl>& layer) {
  return layer ? os << static_cast<const Module&>(*layer) : os << "null";
}

}  // namespace hammock::nn
