#pragma once
/// Sliding windows as convolutions and pools have them: kernel, strides, dilations and pads.

#include <vector>

#include "onnx/operators/families.h"

namespace hammock::onnx {

struct Windows {
  std::vector<int64_t> kernel, strides, dilations, before, after;
  int rank() const { return static_cast<int>(kernel.size()); }
};

/// Pads follow from `auto_pad` for an input of `sizes` (its last dims are the windowed ones).
Windows WindowsOf(const Call& call, const Dims& sizes, std::vector<int64_t> kernel);
/// How many windows there are along a dim.
int64_t CountOf(const Windows& windows, int dim, int64_t size, bool ceil);
/// The convolution of `x` with the windows of `call`.
Tensor Convolved(const Call& call, Tensor x, const Tensor& weight,
                 const std::optional<Tensor>& bias);

}  // namespace hammock::onnx
