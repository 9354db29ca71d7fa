#pragma once
/// Transposed convolutions, as ops and gradients record them.

#include "hammock/tensor.h"

namespace hammock::ops {

struct ConvolutionWindow {
  Dims stride, padding, dilation;
  int64_t groups = 1;
};

/// The elements at the end of the result that no window reaches, where `output_padding` is more
/// than the padding, are zeros that are added behind the convolution: so its kernels are those of
/// all others.
Tensor ConvolveTransposed(const Tensor& input, const Tensor& weight,
                          const ConvolutionWindow& window, Dims output_padding, const Location& at);

}  // namespace hammock::ops
