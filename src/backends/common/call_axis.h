#pragma once
#include <cstdint>

#include "hammock/ir/shape.h"

namespace hammock {

/// A dim of a tensor of outer * extent * inner elements. A 0-d tensor has the dim 0.
struct CallAxis {
  CallAxis(const Dims& sizes, int64_t dim) {
    for (int d = 0; d < sizes.size(); ++d)
      (d < dim ? outer : d == dim ? extent : inner) *= sizes[d];
  }
  int64_t outer = 1;
  int64_t extent = 1;
  int64_t inner = 1;
};

}  // namespace hammock
