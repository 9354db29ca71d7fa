#pragma once
// The positions of elements that are not 0, in order. `Tested` has the type Element and
// is_nonzero(element).

#include "backends/cuda/device/block_sums.cuh"
#include "backends/cuda/device/sort_args.h"

namespace hammock::cuda {

// A block for each tile counts its elements.
template <class Tested>
__device__ __forceinline__ void count_nonzero(const NonzeroArgs<typename Tested::Element>& args) {
  __shared__ unsigned found;
  if (threadIdx.x == 0) found = 0;
  __syncthreads();
  unsigned mine = 0;
  for (int k = threadIdx.x; k < kSortTile; k += 256) {
    const int64_t at = (int64_t)blockIdx.x * kSortTile + k;
    if (at < args.numel && Tested::is_nonzero(args.elements[at])) ++mine;
  }
  atomicAdd(&found, mine);
  __syncthreads();
  if (threadIdx.x == 0) args.counts[blockIdx.x] = found;
}

// One block: counts become offsets.
template <class Element>
__device__ __forceinline__ void nonzero_offsets(const NonzeroArgs<Element>& args) {
  const int t = threadIdx.x;
  const int64_t tiles = args.tiles;
  unsigned* counts = args.counts;
  __shared__ unsigned sums[8];
  __shared__ unsigned all;
  unsigned before = 0;
  for (int64_t first = 0; first < tiles; first += 256) {
    const unsigned mine = first + t < tiles ? counts[first + t] : 0;
    const unsigned here = sum_to_here(mine, sums, t);
    if (first + t < tiles) counts[first + t] = before + here - mine;
    if (t == 255) all = here;
    __syncthreads();
    before += all;
    __syncthreads();
  }
  if (t == 0) counts[tiles] = before;
}

// A block for each tile writes the coordinates of its elements.
template <class Tested, int kRank>
__device__ __forceinline__ void write_nonzero(
    const NonzeroSizeArgs<typename Tested::Element, kRank>& args) {
  const int t = threadIdx.x;
  __shared__ unsigned sums[8];
  const int64_t first = (int64_t)blockIdx.x * kSortTile + 8 * t;
  unsigned mine = 0;
  for (int k = 0; k < 8; ++k) {
    const int64_t at = first + k;
    if (at < args.numel && Tested::is_nonzero(args.elements[at])) mine |= 1u << k;
  }
  unsigned count = 0;
  for (int k = 0; k < 8; ++k) count += mine >> k & 1;
  int64_t row = args.counts[blockIdx.x] + sum_to_here(count, sums, t) - count;
  for (int k = 0; k < 8; ++k) {
    if (!(mine >> k & 1)) continue;
    if (row >= args.limit) return;
    int64_t rest = first + k;
    int64_t* to = args.positions + row++ * kRank;
#pragma unroll
    for (int d = kRank - 1; d >= 0; --d) {
      to[d] = rest % args.sizes[d];
      rest /= args.sizes[d];
    }
  }
}

// A thread for each coordinate; those that no element has become -1.
template <class Element, int kRank>
__device__ __forceinline__ void fill_nonzero(const NonzeroArgs<Element>& args) {
  const int64_t i = element_index();
  if (i >= args.limit * kRank) return;
  if (i / kRank >= args.counts[args.tiles]) args.positions[i] = -1;
}

}  // namespace hammock::cuda
