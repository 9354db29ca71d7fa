#pragma once

#include "backends/cuda/device/kernel.cuh"

namespace hammock::cuda {

// The sum of x over the threads of a block up to this one; `sums` is shared memory for 8.
__device__ inline unsigned sum_to_here(unsigned x, unsigned* sums, int t) {
  for (int step = 1; step < 32; step *= 2) {
    const unsigned other = shuffle_up(x, step);
    if (t % 32 >= step) x += other;
  }
  __syncthreads();
  if (t % 32 == 31) sums[t / 32] = x;
  __syncthreads();
  for (int warp = 0; warp < t / 32; ++warp) x += sums[warp];
  return x;
}

}  // namespace hammock::cuda
