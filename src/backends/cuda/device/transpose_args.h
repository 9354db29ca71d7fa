#pragma once

#include "backends/cuda/device/args.h"

namespace hammock::cuda {

/// Permutes by square tiles of so many rows.
inline constexpr int kTransposeTile = 64;

template <class Element>
struct TransposeArgs {
  const Element* from;
  Element* to;
  int64_t read_size, written_size;  ///< of the dims that are contiguous in `from` and in `to`
  int64_t written_stride;           ///< in `from`
  int64_t read_stride;              ///< in `to`
};

template <class Element, int kDims>
struct TransposeDimArgs : TransposeArgs<Element> {
  Strided<kDims> others_in_from, others_in_to;
};

}  // namespace hammock::cuda
