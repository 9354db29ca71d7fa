#pragma once
/// Initial values of parameters, PyTorch's by name. Each fills its tensor, without history, and
/// returns it.

#include <optional>
#include <string>
#include <utility>

#include "hammock/export.h"
#include "hammock/tensor.h"

namespace hammock::nn::init {

HAMMOCK_API Tensor uniform_(Tensor tensor, double a = 0, double b = 1,
                            Location at = Location::current());
HAMMOCK_API Tensor normal_(Tensor tensor, double mean = 0, double std = 1,
                           Location at = Location::current());
/// Normal, drawn again where outside [a, b].
HAMMOCK_API Tensor trunc_normal_(Tensor tensor, double mean = 0, double std = 1, double a = -2,
                                 double b = 2, Location at = Location::current());
HAMMOCK_API Tensor constant_(Tensor tensor, double value, Location at = Location::current());
HAMMOCK_API Tensor ones_(Tensor tensor, Location at = Location::current());
HAMMOCK_API Tensor zeros_(Tensor tensor, Location at = Location::current());
HAMMOCK_API Tensor eye_(Tensor tensor, Location at = Location::current());
/// A convolution that keeps its input.
HAMMOCK_API Tensor dirac_(Tensor tensor, int64_t groups = 1, Location at = Location::current());
HAMMOCK_API Tensor xavier_uniform_(Tensor tensor, double gain = 1,
                                   Location at = Location::current());
HAMMOCK_API Tensor xavier_normal_(Tensor tensor, double gain = 1,
                                  Location at = Location::current());
/// `mode` is fan_in or fan_out, `a` the slope of a leaky_relu.
HAMMOCK_API Tensor kaiming_uniform_(Tensor tensor, double a = 0, const std::string& mode = "fan_in",
                                    const std::string& nonlinearity = "leaky_relu",
                                    Location at = Location::current());
HAMMOCK_API Tensor kaiming_normal_(Tensor tensor, double a = 0, const std::string& mode = "fan_in",
                                   const std::string& nonlinearity = "leaky_relu",
                                   Location at = Location::current());
HAMMOCK_API Tensor orthogonal_(Tensor tensor, double gain = 1, Location at = Location::current());
/// `sparsity` of each column are zeros, the rest normal.
HAMMOCK_API Tensor sparse_(Tensor tensor, double sparsity, double std = 0.01,
                           Location at = Location::current());

/// The factor that keeps the scale of values through a nonlinearity.
HAMMOCK_API double calculate_gain(const std::string& nonlinearity,
                                  std::optional<double> param = std::nullopt,
                                  Location at = Location::current());
/// Inputs and outputs that each value has a part in.
HAMMOCK_API std::pair<int64_t, int64_t> calculate_fan_in_and_fan_out(
    const Tensor& tensor, Location at = Location::current());

}  // namespace hammock::nn::init
