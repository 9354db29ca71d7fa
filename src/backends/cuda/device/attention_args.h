#pragma once

#include "backends/cuda/device/args.h"

namespace hammock::cuda {

/// The rows of a stack of matrices [outer, inner, rows, width] of 16-bit floats; strides in
/// elements.
struct RowArgs {
  unsigned short* at;
  int64_t outer, inner, row;
};

/// A mask; strides in elements. `inverse` undoes the scale that all of a score gets later.
struct MaskArgs {
  const void* at;
  int64_t outer, inner, row, column;
  float inverse;
  float unused = 0;
};

struct AttentionArgs {
  int64_t inner;  ///< the second size of the stacks
  RowArgs query, key, value, result;
  float* log_sums;
  int64_t queries, keys;
  float scale;  ///< of powers of two
  float unused = 0;
  MaskArgs mask;
};

struct AttentionBackwardArgs {
  int64_t inner;
  RowArgs grad, query, key, value;
  const float* log_sums;
  const float* deltas;
  int64_t queries, keys;
  float scale, result_scale;
  MaskArgs mask;
  RowArgs query_result, key_result, value_result;
};

}  // namespace hammock::cuda
