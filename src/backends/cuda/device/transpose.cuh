#pragma once

#include "backends/cuda/device/kernel.cuh"
#include "backends/cuda/device/transpose_args.h"

namespace hammock::cuda {

// A block for each tile.
template <class Element, int kDims>
__device__ __forceinline__ void transpose(const TransposeDimArgs<Element, kDims>& args) {
  constexpr int kTile = kTransposeTile, kEach = kTile * kTile / 256, kStep = 256 / kTile;
  const int64_t block = blockIdx.x, size = args.read_size, others = args.written_size;
  const int64_t columns = (size + kTile - 1) / kTile, rows = (others + kTile - 1) / kTile;
  const int64_t other = block / columns / rows;
  const int64_t column = block % columns * kTile, row = block / columns % rows * kTile;
  const Element* from = args.from + offset_of(args.others_in_from, other);
  Element* to = args.to + offset_of(args.others_in_to, other);
  const int x = threadIdx.x % kTile, y = threadIdx.x / kTile;
  __shared__ Element tile[kTile][kTile + 1];
  Element held[kEach];
#pragma unroll
  for (int k = 0; k < kEach; ++k) {
    const int64_t at = row + y + kStep * k;
    if (column + x < size && at < others) held[k] = from[at * args.written_stride + column + x];
  }
#pragma unroll
  for (int k = 0; k < kEach; ++k) tile[y + kStep * k][x] = held[k];
  __syncthreads();
#pragma unroll
  for (int k = 0; k < kEach; ++k) {
    const int64_t at = column + y + kStep * k;
    if (row + x < others && at < size) to[at * args.read_stride + row + x] = tile[x][y + kStep * k];
  }
}

}  // namespace hammock::cuda
