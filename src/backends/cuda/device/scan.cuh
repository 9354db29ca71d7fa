#pragma once
// Running values along lines. `Fn` says what runs:
//   From, To, Wide          types of elements, results and running values
//   identity(), value(from), result(wide), combine(before, wide)

#include "backends/cuda/device/kernel.cuh"
#include "backends/cuda/device/scan_args.h"

namespace hammock::cuda {

template <class Fn>
using ScanArgsOf = ScanArgs<typename Fn::From, typename Fn::To>;

// Eight threads for each line: each goes over an eighth of it, and when the totals are known goes
// over it again. Neighbouring threads have neighbouring lines.
template <class Fn, bool kReverse>
__device__ __forceinline__ void scan_eighths(const ScanArgsOf<Fn>& args) {
  using Wide = typename Fn::Wide;
  const int lane = threadIdx.x % 32, eighth = threadIdx.x / 32;
  const int64_t extent = args.extent, inner = args.inner, lines = args.lines;
  const int64_t line = (int64_t)blockIdx.x * 32 + lane, each = (extent + 7) / 8;
  const int64_t first = line / inner * extent * inner + line % inner;
  const int64_t begin = eighth * each, end = begin + each < extent ? begin + each : extent;
  __shared__ Wide totals[8][32];
  Wide running = Fn::identity();
  for (int64_t k = begin; line < lines && k < end; ++k) {
    const int64_t at = first + (kReverse ? extent - 1 - k : k) * inner;
    running = Fn::combine(running, Fn::value(args.from[at]));
  }
  totals[eighth][lane] = running;
  __syncthreads();
  running = Fn::identity();
  for (int k = 0; k < eighth; ++k) running = Fn::combine(running, totals[k][lane]);
  for (int64_t k = begin; line < lines && k < end; ++k) {
    const int64_t at = first + (kReverse ? extent - 1 - k : k) * inner;
    running = Fn::combine(running, Fn::value(args.from[at]));
    args.to[at] = Fn::result(running);
  }
}

// Where element `i` of a tile is. kWidth: a line's part of the tile.
template <int kWidth, bool kStrided, bool kReverse>
struct ScanPosition {
  template <class Args>
  __device__ __forceinline__ ScanPosition(const Args& args, int64_t tile, int i) {
    constexpr int kLines = kScanTile / kWidth;
    const int64_t extent = args.extent, inner = kStrided ? args.inner : 1;
    const int r = kStrided ? i % kLines : i / kWidth, k = kStrided ? i / kLines : i % kWidth;
    const int64_t line = (int64_t)blockIdx.x * kLines + r, along = tile + k;
    const int index = r * kWidth + k;
    inside = line < args.lines && along < extent;
    at = (line / inner * extent + (kReverse ? extent - 1 - along : along)) * inner + line % inner;
    shared = index + index / 8;
  }
  bool inside;
  int64_t at;
  int shared;
};

// A block goes along a line tile by tile, or has several short lines in a tile. Eight elements are
// scanned by each thread, then the threads' totals, in an order that depends on the shape alone.
template <class Fn, int kWidth, bool kStrided, bool kReverse>
__device__ __forceinline__ void scan_tiles(const ScanArgsOf<Fn>& args) {
  using Wide = typename Fn::Wide;
  using Position = ScanPosition<kWidth, kStrided, kReverse>;
  constexpr int kGroup = kWidth / kScanEach;  // threads that share a line
  constexpr int kLanes = kGroup < 32 ? kGroup : 32;
  const Wide none = Fn::identity();
  const int t = threadIdx.x;
  __shared__ Wide values[kScanTile + kScanTile / 8];
  __shared__ Wide totals[8];
  Wide before = none;
  for (int64_t tile = 0; tile < args.extent; tile += kScanTile) {
    for (int i = t; i < kScanTile; i += 256) {
      const Position in(args, tile, i);
      values[in.shared] = in.inside ? Fn::value(args.from[in.at]) : none;
    }
    __syncthreads();
    Wide mine[8];
    Wide running = none;
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      if (kWidth < 8 && k % kWidth == 0) running = none;
      running = Fn::combine(running, values[9 * t + k]);
      mine[k] = running;
    }
    Wide whole = none;
    if constexpr (kGroup > 1) {
      // The value of the elements before this thread's in its group.
      Wide total = running;
      for (int step = 1; step < kLanes; step *= 2) {
        const Wide other = shuffle_up(total, step);
        if (t % kLanes >= step) total = Fn::combine(other, total);
      }
      Wide left = shuffle_up(total, 1);
      if (t % kLanes == 0) left = none;
      if (t % 32 == 31) totals[t / 32] = total;
      __syncthreads();
      Wide offset = before;
      if (kGroup > 32) {
        for (int k = t / kGroup * kGroup / 32; k < t / 32; ++k) {
          offset = Fn::combine(offset, totals[k]);
        }
      }
      offset = Fn::combine(offset, left);
      if (kWidth == kScanTile) {
        for (int k = 0; k < 8; ++k) whole = Fn::combine(whole, totals[k]);
      }
#pragma unroll
      for (int k = 0; k < 8; ++k) values[9 * t + k] = Fn::combine(offset, mine[k]);
    } else {
#pragma unroll
      for (int k = 0; k < 8; ++k) values[9 * t + k] = mine[k];
    }
    __syncthreads();
    for (int i = t; i < kScanTile; i += 256) {
      const Position in(args, tile, i);
      const Wide x = values[in.shared];
      if (in.inside) args.to[in.at] = Fn::result(x);
    }
    if (kWidth == kScanTile) before = Fn::combine(before, whole);
    __syncthreads();
  }
}

}  // namespace hammock::cuda
