#pragma once
// Types and functions that device code of several kernels uses.

#include "backends/cuda/device/args.h"
#include "backends/cuda/device/prelude.cuh"

namespace hammock::cuda {

// The type of the arguments of a kernel's function.
template <class Args>
__device__ Args args_of(void (*)(const Args&));

// The number of this thread in a grid of blocks of 256.
__device__ __forceinline__ int64_t element_index() { return blockIdx.x * 256ll + threadIdx.x; }

// Where item `i` is in shared memory: threads have eight neighbouring items, so some indices are
// left out to use all banks.
__device__ inline int index_of(int i) { return i + i / 8; }

template <bool kFirst, class A, class B>
struct Either {
  using Type = A;
};
template <class A, class B>
struct Either<false, A, B> {
  using Type = B;
};

// The offset of an element among dims up to kDim. No loop: it would keep those around it from being
// unrolled.
template <int kDim, class Index, int kDims>
__device__ __forceinline__ int64_t offset_up_to(const Strided<kDims>& dims, Index i) {
  if constexpr (kDim == 0) {
    return (int64_t)i * dims.strides[0];
  } else {
    const Index size = (Index)dims.sizes[kDim];
    return (int64_t)(i % size) * dims.strides[kDim] +
           offset_up_to<kDim - 1>(dims, (Index)(i / size));
  }
}

// The offset of element `i`: the sum of its coordinates, each times its stride. `kFew`: i fits into
// 32 bits, which divide faster.
template <bool kFew = false, int kDims>
__device__ __forceinline__ int64_t offset_of(const Strided<kDims>& dims, int64_t i) {
  using Index = typename Either<kFew, unsigned, int64_t>::Type;
  return offset_up_to<kDims - 1>(dims, (Index)i);
}

}  // namespace hammock::cuda
