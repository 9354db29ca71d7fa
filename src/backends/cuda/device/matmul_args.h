#pragma once

#include "backends/cuda/device/args.h"

namespace hammock::cuda {

/// out[batch, m, n] = a[batch, m, k] * b[batch, k, n] + bias[n]; strides in elements.
template <class Element, class Out>
struct MatMulArgs {
  int64_t count;  ///< elements of the result
  const Element* a;
  const Element* b;
  Out* out;
  const Out* bias;
  int64_t m, n, k;
  int64_t a_row, a_column, a_batch;
  int64_t b_row, b_column, b_batch;
};

/// A convolution or its gradient with respect to the weight, of one dtype.
template <class Element>
struct ConvolutionArgs {
  int64_t count;     ///< elements of the result
  const Element* a;  ///< the input, or the gradient of the result
  const Element* b;  ///< the weight, or the input
  Element* out;
};

/// out[i] = i
struct IotaArgs {
  int64_t count;
  int64_t* out;
};

/// Sets `failed` if a fault word or a word at one of the addresses `earlier` is set.
struct GatherFaultsArgs {
  uint64_t* failed;
  const uint64_t* faults;
  int64_t count;
  const uint64_t* earlier[8];  ///< null for none
};

}  // namespace hammock::cuda
