#pragma once
/// Parametrisations: parameters that are functions of others, computed anew at each call of their
/// module (`layer(x)`; of Hammock's own layers also `layer->forward(x)`); between calls the member
/// is undefined. Names in the state_dict are PyTorch's: `parametrizations.weight.original`.
///
///   nn::Linear layer = nn::weight_norm(nn::Linear(4, 3));
///   nn::Conv2d conv = nn::spectral_norm(nn::Conv2d(options));
///   nn::register_parametrization(*layer, "bias", nn::Tanh());
///
/// Optimisers that are made afterwards see the originals.

#include <optional>
#include <string>

#include "hammock/export.h"
#include "hammock/nn/layer.h"

namespace hammock::nn {

/// `parametrization` has a method `forward` that gives the value; if it has `right_inverse` too,
/// that makes the originals (one tensor, or several) of the parameter's present value. A further
/// one is applied to what the first gives.
HAMMOCK_API void register_parametrization(Module& module, const std::string& name,
                                          const ModulePtr& parametrization,
                                          Location at = Location::current());
HAMMOCK_API bool is_parametrized(const Module& module, const std::string& name);
/// The present value becomes the parameter.
HAMMOCK_API void remove_parametrizations(Module& module, const std::string& name,
                                         Location at = Location::current());

/// A length for each slice along `dim` times a direction; none: one length for all.
HAMMOCK_API ModulePtr WeightNorm(std::optional<int64_t> dim = 0, Location at = Location::current());
/// Divided by its largest singular value, which each call in training estimates better.
HAMMOCK_API ModulePtr SpectralNorm(const Tensor& weight, int64_t n_power_iterations = 1,
                                   int64_t dim = 0, double eps = 1e-12,
                                   Location at = Location::current());

template <class Impl>
Layer<Impl> weight_norm(Layer<Impl> layer, const std::string& name = "weight",
                        std::optional<int64_t> dim = 0, Location at = Location::current()) {
  register_parametrization(*layer, name, WeightNorm(dim, at), at);
  return layer;
}
/// Without `dim`, that of the outputs: 1 for transposed convolutions, else 0.
template <class Impl>
Layer<Impl> spectral_norm(Layer<Impl> layer, const std::string& name = "weight",
                          int64_t n_power_iterations = 1, double eps = 1e-12,
                          std::optional<int64_t> dim = std::nullopt,
                          Location at = Location::current()) {
  bool transposed = layer->class_name().starts_with("ConvTranspose");
  register_parametrization(*layer, name,
                           SpectralNorm(layer->get_tensor(name, at), n_power_iterations,
                                        dim.value_or(transposed ? 1 : 0), eps, at),
                           at);
  return layer;
}

}  // namespace hammock::nn
