#pragma once

#include "backends/cuda/device/fft_args.h"
#include "backends/cuda/device/kernel.cuh"

namespace hammock::cuda {

// Every element times a factor: transforms of the library have none.
template <class Element>
__device__ __forceinline__ void scale(const ScaleArgs<Element>& args) {
  const int64_t i = element_index();
  if (i < args.count) args.at[i] *= static_cast<Element>(args.factor);
}

}  // namespace hammock::cuda
