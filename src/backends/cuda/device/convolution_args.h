#pragma once

#include "backends/cuda/device/args.h"

namespace hammock::cuda {

/// A convolution or its gradient with respect to the weight, of one dtype.
template <class Element>
struct ConvolutionArgs {
  int64_t count;     ///< elements of the result
  const Element* a;  ///< the input, or the gradient of the result
  const Element* b;  ///< the weight, or the input
  Element* out;
};

}  // namespace hammock::cuda
