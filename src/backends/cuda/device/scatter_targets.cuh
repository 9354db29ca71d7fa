#pragma once

#include "backends/cuda/device/radix_sort.cuh"
#include "backends/cuda/device/scatter_args.h"

namespace hammock::cuda {

// The destination of index `i`; a wrong one comes last.
template <bool kRows, bool kFew, class Index, int kDims>
__device__ __forceinline__ unsigned target_of(const TargetArgs<Index>& args,
                                              const Strided<kDims>& in_self, int64_t i) {
  const int64_t index = args.index[i];
  int64_t target = index;
  if constexpr (!kRows) target = offset_of<kFew>(in_self, i) + index * args.inner;
  return index >= 0 && index < args.extent ? (unsigned)target : kWrongTarget;
}

template <class Index>
__device__ __forceinline__ void note_wrong_index(const TargetArgs<Index>& args, int64_t i) {
  note_fault(args.fault, i, args.index[i]);
}

// Targets as items of one word.
template <class Index, bool kRows, bool kFew, int kDims>
__device__ __forceinline__ void target_items(const TargetItemDimArgs<Index, kDims>& args) {
  const int64_t i = element_index();
  if (i >= args.count) return;
  const unsigned target = target_of<kRows, kFew>(args.targets, args.in_self, i);
  if (target == kWrongTarget) note_wrong_index(args.targets, i);
  args.items[i] = (uint64_t)target << 32 | (uint64_t)i;
}

// Targets as Items of a radix sort. kCarried: elements go with them, else positions.
template <class Index, class LoadType, bool kCarried, bool kRows, bool kFew, int kDims>
struct RadixTargets {
  using Key = unsigned;
  using Load = LoadType;
  using Args = RadixTargetDimArgs<Index, Load, kDims>;
  static constexpr bool kNarrows = false;

  static __device__ __forceinline__ unsigned order_key(Key key) { return key; }
  static __device__ __forceinline__ Key read_key(const Args& args, int64_t, int64_t, int64_t at) {
    return target_of<kRows, kFew>(args.targets, args.in_self, at);
  }
  static __device__ __forceinline__ Load read_load(const Args& args, int64_t at) {
    return kCarried ? args.source[at] : (Load)at;
  }
  static __device__ __forceinline__ void check(const Args& args, int64_t at, unsigned digits) {
    if (digits == kWrongTarget) note_wrong_index(args.targets, at);
  }
  static __device__ __forceinline__ void write(const Args& args, int64_t, int64_t at, Key key,
                                               Load load) {
    args.sorted[at] = key;
    args.loads[at] = load;
  }
};

}  // namespace hammock::cuda
