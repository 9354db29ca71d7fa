#pragma once
// Scatters whose indices are taken in order, or whose results do not depend on the order.

#include "backends/cuda/device/kernel.cuh"
#include "backends/cuda/device/scatter_args.h"

namespace hammock::cuda {

// Notes a wrong index.
template <class Index>
__device__ __forceinline__ bool is_wrong(const TargetArgs<Index>& args, int64_t position,
                                         int64_t index) {
  if (index >= 0 && index < args.extent) return false;
  note_fault(args.fault, position, index);
  return true;
}

// One thread for each line takes its indices in order. `Fn` has the type Element, as it is in
// memory, and combine(old, element).
template <class Fn, class Index, int kDims, bool kFew>
__device__ __forceinline__ void line_scatter(
    const ScatterDimArgs<typename Fn::Element, Index, kDims>& args) {
  const int64_t i = element_index();
  if (i >= args.count) return;
  const int64_t at_self = offset_of<kFew>(args.in_self, i);
  const int64_t at_index = offset_of<kFew>(args.in_index, i);
  const int64_t at_source = offset_of<kFew>(args.in_source, i);
  for (int64_t k = 0; k < args.indices; ++k) {
    const int64_t position = at_index + k * args.index_stride;
    const int64_t index = args.targets.index[position];
    if (is_wrong(args.targets, position, index)) continue;
    const int64_t to = at_self + index * args.targets.inner;
    args.to[to] = Fn::combine(args.to[to], args.from[at_source + k * args.from_stride]);
  }
}

struct AtomicSum {
  template <class T>
  static __device__ void combine(T* to, T x) {
    atomicAdd(to, x);
  }
};
struct AtomicMax {
  template <class T>
  static __device__ void combine(T* to, T x) {
    atomicMax(to, x);
  }
};
struct AtomicMin {
  template <class T>
  static __device__ void combine(T* to, T x) {
    atomicMin(to, x);
  }
};

// One thread for each index.
template <class Fn, class Element, class Index, int kDims, bool kFew>
__device__ __forceinline__ void atomic_scatter(const ScatterDimArgs<Element, Index, kDims>& args) {
  const int64_t i = element_index();
  if (i >= args.count) return;
  const int64_t at_self = offset_of<kFew>(args.in_self, i);
  const int64_t position = offset_of<kFew>(args.in_index, i);
  const int64_t at_source = offset_of<kFew>(args.in_source, i);
  const int64_t index = args.targets.index[position];
  if (is_wrong(args.targets, position, index)) return;
  Fn::combine(args.to + at_self + index * args.targets.inner, args.from[at_source]);
}

// Each block first sums into shared-memory accumulators, one per destination.
template <class Element, class Index, int kDestinations>
__device__ __forceinline__ void histogram(const ScatterArgs<Element, Index>& args) {
  __shared__ Element sums[kDestinations];
  const int destinations = (int)args.targets.extent;
  for (int k = threadIdx.x; k < destinations; k += 256) sums[k] = 0;
  __syncthreads();
  for (int64_t i = element_index(); i < args.count; i += gridDim.x * 256ll) {
    const int64_t index = args.targets.index[i];
    if (is_wrong(args.targets, i, index)) continue;
    atomicAdd(&sums[index], args.from[i]);
  }
  __syncthreads();
  for (int k = threadIdx.x; k < destinations; k += 256) {
    if (sums[k] != 0) atomicAdd(args.to + k, sums[k]);
  }
}

}  // namespace hammock::cuda
