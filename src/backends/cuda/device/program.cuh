#pragma once
// Kernels that programs and loops need besides their steps.

#include "backends/cuda/device/kernel.cuh"
#include "backends/cuda/device/program_args.h"

namespace hammock::cuda {

__device__ __forceinline__ void iota(const IotaArgs& args) {
  const int64_t i = element_index();
  if (i < args.count) args.out[i] = i;
}

// One block.
__device__ __forceinline__ void gather_faults(const GatherFaultsArgs& args) {
  __shared__ int failed;
  if (threadIdx.x == 0) {
    failed = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (args.earlier[i] && *args.earlier[i]) failed = 1;
    }
  }
  __syncthreads();
  for (unsigned i = threadIdx.x; i < args.count; i += 256) {
    if (((const volatile uint64_t*)args.faults)[i]) failed = 1;
  }
  __syncthreads();
  if (threadIdx.x == 0) *args.failed = failed;
}

}  // namespace hammock::cuda
