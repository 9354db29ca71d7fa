#pragma once
// What device functions of kernels share.

#include "backends/cuda/device/args.h"
#include "backends/cuda/device/prelude.cuh"

namespace hammock::cuda {

// The type of the arguments of a kernel's function.
template <class Args>
__device__ Args args_of(void (*)(const Args&));

// The number of this thread in a grid of blocks of 256.
__device__ __forceinline__ int64_t element_index() { return blockIdx.x * 256ll + threadIdx.x; }

template <bool kFirst, class A, class B>
struct Either {
  using Type = A;
};
template <class A, class B>
struct Either<false, A, B> {
  using Type = B;
};

// The offset of element `i`: the sum of its coordinates, each times its stride. `kFew`: i fits into
// 32 bits, which divide faster.
template <bool kFew = false, int kDims>
__device__ __forceinline__ int64_t offset_of(const Strided<kDims>& dims, int64_t i) {
  using Index = typename Either<kFew, unsigned, int64_t>::Type;
  int64_t offset = 0;
  Index rest = (Index)i;
#pragma unroll
  for (int d = kDims - 1; d > 0; --d) {
    offset += (int64_t)(rest % (Index)dims.sizes[d]) * dims.strides[d];
    rest /= (Index)dims.sizes[d];
  }
  return offset + (int64_t)rest * dims.strides[0];  // the coordinate of the first dim is the rest
}

}  // namespace hammock::cuda
