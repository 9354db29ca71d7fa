#pragma once
/// Gradients of a module against the slopes that its values show.

#include <string>
#include <vector>

#include "hammock/module.h"

namespace hammock::onnx_suite {

/// Why the gradient of a weighted sum of all outputs of `forward`, by parameters and inputs of
/// floats, is wrong; empty where
/// - the sum rises along the gradient by the gradient's length,
/// - it rises along random directions as the gradient says,
/// - and no tensor that it depends on has the gradient 0.
std::string CheckGradients(Module& module, const std::vector<Any>& inputs, int directions);

}  // namespace hammock::onnx_suite
