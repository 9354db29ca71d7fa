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

}  // namespace hammock::cuda
