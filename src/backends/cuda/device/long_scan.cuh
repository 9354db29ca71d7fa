#pragma once
// Scans of few long lines, Note [Scans of few lines]. `Fn` as in scan.cuh; besides, to_bits(wide)
// and from_bits(int64_t).

#include "backends/cuda/device/kernel.cuh"
#include "backends/cuda/device/scan_args.h"

namespace hammock::cuda {

// Totals that other blocks wait for: the halves of a word, each with a mark, so that nobody sees
// one half alone.
template <class Fn>
__device__ inline void post(uint64_t* totals, int64_t which, typename Fn::Wide x) {
  volatile uint64_t* at = (volatile uint64_t*)totals + 2 * which;
  const uint64_t bits = (uint64_t)Fn::to_bits(x);
  at[0] = bits << 32 | 1;
  at[1] = bits >> 32 << 32 | 1;
}
template <class Fn>
__device__ inline typename Fn::Wide posted(const uint64_t* totals, int64_t which) {
  const volatile uint64_t* at = (const volatile uint64_t*)totals + 2 * which;
  uint64_t low, high;
  do {
    low = at[0];
    high = at[1];
  } while (!(low & high & 1));
  return Fn::from_bits((int64_t)(high >> 32 << 32 | low >> 32));
}

// The value of what all threads have; `shared` is room for 8.
template <class Fn>
__device__ __forceinline__ typename Fn::Wide sum_of_block(typename Fn::Wide sum,
                                                          typename Fn::Wide* shared) {
  using Wide = typename Fn::Wide;
  for (int lanes = 1; lanes < 32; lanes *= 2) {
    const Wide other = shuffle_xor(sum, lanes);
    sum = Fn::combine(sum, other);
  }
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = sum;
  __syncthreads();
  Wide all = shared[0];
  for (int k = 1; k < 8; ++k) all = Fn::combine(all, shared[k]);
  return all;
}

// Eight elements from shared memory; kVectors: 16 bytes at once.
template <bool kVectors, class T>
__device__ __forceinline__ void load_eight(const T* from, T* to) {
  if constexpr (kVectors) {
    load_wide<8>(from, to);
  } else {
#pragma unroll
    for (int k = 0; k < 8; ++k) to[k] = from[k];
  }
}

// A block for each tile. kEach: elements of a thread; kVectors: four elements are contiguous and
// aligned; kSameSize: results have the size of elements, and lie in their shared memory.
template <class Fn, int kEach, bool kVectors, bool kSameSize, bool kStrided, bool kReverse>
__device__ __forceinline__ void long_scan(
    const LongScanArgs<typename Fn::From, typename Fn::To>& args) {
  using From = typename Fn::From;
  using To = typename Fn::To;
  using Wide = typename Fn::Wide;
  constexpr int kApart = kEach + (kVectors ? 4 : 1);
  const Wide none = Fn::identity();
  alignas(16) __shared__ From values[256 * kApart];
  __shared__ To other_results[kSameSize ? 1 : 256 * kApart];
  To* results = kSameSize ? (To*)values : other_results;
  const int t = threadIdx.x;
  __shared__ Wide totals[8], groups[8], whole;
  __shared__ unsigned ticket;
  if (t == 0) ticket = atomicAdd(args.ticket, 1u);
  __syncthreads();
  const int64_t extent = args.extent, tiles = args.tiles;
  const int64_t line = ticket / tiles, tile = ticket % tiles, first = tile * (256 * kEach);
  const int64_t group = tile / 256, in_group = tile % 256, all_groups = (tiles + 255) / 256;
  const int count = extent - first < 256 * kEach ? (int)(extent - first) : 256 * kEach;
  const int64_t inner = kStrided ? args.inner : 1, step = kReverse ? -inner : inner;
  const int64_t begin =
      (line / inner * extent + (kReverse ? extent - 1 - first : first)) * inner + line % inner;
  const From* from = args.from + begin;
  To* to = args.to + begin;

  // A thread's elements lie apart from those of the next one, to use all banks. What is behind the
  // end of the line is scanned too: nothing comes after it.
  const int mine = kVectors ? 4 * t + t / (kEach / 4) * 4 : t + t / kEach;
  if constexpr (kVectors) {
#pragma unroll
    for (int k = 0; k < kEach / 4; ++k) {
      From x[4];
      load_some<4>(from + 4 * t + k * 1024, count - 4 * t - k * 1024, x);
      store_wide<4>(values + mine + k * 1024 / kEach * kApart, x);
    }
  } else {
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      values[mine + k * 256 / kEach * kApart] =
          t + k * 256 < count ? from[(t + k * 256) * step] : From();
    }
  }
  __syncthreads();

  // The value of the elements before this thread's in the tile. The tile's total is posted: the
  // last thread's offset and its warp's. Eight elements at a time, and each twice: registers are
  // worth more.
  Wide total = none;
#pragma unroll
  for (int some = 0; some < kEach; some += 8) {
    From x[8];
    load_eight<kVectors>(values + t * kApart + some, x);
#pragma unroll
    for (int k = 0; k < 8; ++k) total = Fn::combine(total, Fn::value(x[k]));
  }
  for (int lanes = 1; lanes < 32; lanes *= 2) {
    const Wide other = shuffle_up(total, lanes);
    if (t % 32 >= lanes) total = Fn::combine(other, total);
  }
  Wide before = shuffle_up(total, 1);
  if (t % 32 == 0) before = none;
  if (t % 32 == 31) totals[t / 32] = total;
  __syncthreads();
  Wide offset = none;
  for (int k = 0; k < t / 32; ++k) offset = Fn::combine(offset, totals[k]);
  before = Fn::combine(offset, before);
  if (t == 255) {
    whole = Fn::combine(offset, total);
    post<Fn>(args.tile_totals, line * tiles + tile, whole);
  }
  __syncthreads();

  // The value of all elements before this thread's. A group's total is posted before anything of
  // other groups is waited for.
  const Wide tiles_before = sum_of_block<Fn>(
      t < in_group ? posted<Fn>(args.tile_totals, line * tiles + group * 256 + t) : none, totals);
  if (t == 0 && in_group == 255) {
    post<Fn>(args.group_totals, line * all_groups + group, Fn::combine(tiles_before, whole));
  }
  Wide sum = none;
  for (int64_t k = t; k < group; k += 256) {
    sum = Fn::combine(sum, posted<Fn>(args.group_totals, line * all_groups + k));
  }
  const Wide groups_before = sum_of_block<Fn>(sum, groups);
  Wide running = Fn::combine(groups_before, tiles_before);
  running = Fn::combine(running, before);

#pragma unroll
  for (int some = 0; some < kEach; some += 8) {
    From x[8];
    load_eight<kVectors>(values + t * kApart + some, x);
    To y[8];
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      running = Fn::combine(running, Fn::value(x[k]));
      y[k] = Fn::result(running);
    }
    if constexpr (kVectors) {
      store_wide<8>(results + t * kApart + some, y);
    } else {
#pragma unroll
      for (int k = 0; k < 8; ++k) results[t * kApart + some + k] = y[k];
    }
  }
  __syncthreads();
  if constexpr (kVectors) {
#pragma unroll
    for (int k = 0; k < kEach / 4; ++k) {
      To z[4];
      load_wide<4>(results + mine + k * 1024 / kEach * kApart, z);
      store_some<4>(to + 4 * t + k * 1024, count - 4 * t - k * 1024, z);
    }
  } else {
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      if (t + k * 256 < count) to[(t + k * 256) * step] = results[mine + k * 256 / kEach * kApart];
    }
  }
}

}  // namespace hammock::cuda
