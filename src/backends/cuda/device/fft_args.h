#pragma once

#include "backends/cuda/device/args.h"

namespace hammock::cuda {

template <class Element>
struct ScaleArgs {
  int64_t count;
  double factor;
  Element* at;
};

}  // namespace hammock::cuda
