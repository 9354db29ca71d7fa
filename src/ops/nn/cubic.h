#pragma once

#include <vector>

#include "hammock/tensor.h"

namespace hammock::ops {

/// Weights of the four neighbours of a point that lies `t` behind the second one, by Keys' cubic
/// kernel with PyTorch's parameter -0.75.
std::vector<Tensor> CubicWeights(const Tensor& t);

}  // namespace hammock::ops
