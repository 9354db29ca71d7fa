#pragma once

#include "backends/cuda/device/radix_sort.cuh"
#include "backends/cuda/device/sort_key.cuh"

namespace hammock::cuda {

// Elements with their positions, as Items of a radix sort.
template <class SortKey, bool kStrided, bool kNarrow>
struct RadixElements {
  using Key = typename SortKey::Element;
  using Load = unsigned;
  using Args = RadixElementArgs<Key>;
  static constexpr bool kNarrows = kNarrow;

  static __device__ __forceinline__ auto order_key(Key key) { return SortKey::order(key); }
  static __device__ __forceinline__ Key read_key(const Args& args, int64_t extent, int64_t row,
                                                 int64_t at) {
    const int64_t inner = kStrided ? args.inner : 1;
    return args.elements[(row / inner * extent + at) * inner + row % inner];
  }
  static __device__ __forceinline__ Load read_load(const Args&, int64_t at) { return (Load)at; }
  template <class Digits>
  static __device__ __forceinline__ void check(const Args&, int64_t, Digits) {}
  static __device__ __forceinline__ void write(const Args& args, int64_t row, int64_t at, Key key,
                                               Load load) {
    const int64_t inner = kStrided ? args.inner : 1;
    const int64_t to = (row / inner * args.kept + at) * inner + row % inner;
    if (at < args.kept) {
      args.values[to] = key;
      args.positions[to] = load;
    }
  }
};

}  // namespace hammock::cuda
