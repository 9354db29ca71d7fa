#pragma once

#include "backends/cuda/device/args.h"

namespace hammock::cuda {

/// to[i] = the elements i of all ranks, in their order
template <class Element>
struct RankSumsArgs {
  int64_t count;
  const Element* own;     ///< of this rank
  const Element* others;  ///< of each other rank r, `count` elements from r * stride on
  Element* to;
  int64_t stride;
  int64_t rank, ranks;
};

}  // namespace hammock::cuda
