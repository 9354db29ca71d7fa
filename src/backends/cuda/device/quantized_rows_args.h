#pragma once

#include "backends/cuda/device/args.h"

namespace hammock::cuda {

/// out[m, n] = sum over k of x[m, k] * (weight[n, k] - zero[n, group of k]) * scale[n, group of k]
///             + bias[n]
template <class Element, class Scale>
struct QuantizedRowsArgs {
  const Element* x;
  const void* weight;
  const Scale* scale;
  const void* zero;     ///< null: zero points are 0
  const Element* bias;  ///< may be null
  Element* out;
  int64_t n, k;
  int64_t scale_row;  ///< scales and zero points from a row to the next: 0 where all share them
};

}  // namespace hammock::cuda
