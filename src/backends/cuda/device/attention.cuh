#pragma once
// Note [Attention on a GPU].

#include "backends/cuda/device/attention_tiles.cuh"

namespace hammock::cuda {

// Scores of keys that a query does not see are never chosen. `first` is the lane's first query,
// `start` the first key.
template <class Narrow, bool kCausal, int kMask, int kTiles, int kColumns>
__device__ __forceinline__ void hide_scores(float (&s)[kTiles][kColumns][4], const Mask& mask,
                                            int first, int start, int queries, int count) {
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
#pragma unroll
    for (int n = 0; n < kColumns; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int column = start + n * 8 + threadIdx.x % 4 * 2 + i % 2;
        const int row = first + t * 16 + i / 2 * 8;
        if (kMask != 0 && row < queries && column < count) {
          s[t][n][i] = masked<Narrow, kMask>(s[t][n][i], mask, row, column);
        }
        if ((kCausal && column > row) || column >= count) s[t][n][i] = never();
      }
    }
  }
}
// Scores become powers; the earlier sums are scaled down where the largest score grows.
template <int kTiles, int kColumns, int kWidth>
__device__ __forceinline__ void weigh_scores(float (&s)[kTiles][kColumns][4],
                                             float (&out)[kTiles][kWidth][4],
                                             float (&largest)[kTiles][2], float (&sum)[kTiles][2],
                                             float scale) {
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float now = largest[t][r];
#pragma unroll
      for (int n = 0; n < kColumns; ++n) {
        now = fmaxf(now, fmaxf(s[t][n][2 * r], s[t][n][2 * r + 1]));
      }
      now = fmaxf(now, shuffle_xor(now, 1));
      now = fmaxf(now, shuffle_xor(now, 2));
      const float from = now == never() ? 0.0f : now * scale;
      const float shrink = power_of_two(fmaf(largest[t][r], scale, -from));
      largest[t][r] = now;
      sum[t][r] *= shrink;
#pragma unroll
      for (int n = 0; n < kWidth; ++n) {
        out[t][n][2 * r] *= shrink;
        out[t][n][2 * r + 1] *= shrink;
      }
#pragma unroll
      for (int n = 0; n < kColumns; ++n) {
#pragma unroll
        for (int i = 2 * r; i < 2 * r + 2; ++i) {
          s[t][n][i] = power_of_two(fmaf(s[t][n][i], scale, -from));
          sum[t][r] += s[t][n][i];
        }
      }
    }
  }
}

// A block has some queries of a matrix and visits the keys tile by tile.
template <class Kind>
__device__ __forceinline__ void attention(const AttentionArgs& args) {
  using Narrow = typename Kind::Narrow;
  using Tiles = TilesOf<Kind>;
  constexpr int kThreads = Kind::kThreads, kWidth = Kind::kWidth, kTiles = Kind::kTiles;
  constexpr int kOthers = Kind::kOthers, kPart = Kind::kPart, kMask = Kind::kMask;
  constexpr bool kCausal = Kind::kCausal;
  constexpr int kSteps = kWidth / 16, kTile = Tiles::template tile_size<kOthers, kWidth>();
  alignas(1024) __shared__ Words<16> shared[4 * kTile / 8];
  unsigned short* tiles = (unsigned short*)shared;
  const int queries = (int)args.queries, count = (int)args.keys, lane = threadIdx.x % 32;
  const float scale = args.scale;
  const int inner = (int)args.inner;
  const Matrix key = matrix_of(args.key, inner), value = matrix_of(args.value, inner);
  const Matrix result = matrix_of(args.result, inner);
  const Mask mask = mask_of<kMask>(args.mask, inner);
  // The longest rows come first.
  const int group = kCausal ? gridDim.x - 1 - blockIdx.x : blockIdx.x;
  const int warp_row = (group * (kThreads / 32) + threadIdx.x / 32) * kTiles * 16;
  const int first = warp_row + lane / 4;
  unsigned q[kTiles][kSteps][4];
  load_operand(q, matrix_of(args.query, inner), first, queries);
  float out[kTiles][kWidth / 8][4], largest[kTiles][2], sum[kTiles][2];
  clear(out);
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
    largest[t][0] = largest[t][1] = never();
    sum[t][0] = sum[t][1] = 0;
  }
  const int last = (group + 1) * kTiles * (kThreads / 2);
  const int end = kCausal && last < count ? last : count;
  auto copy = [&](int start, int stage) {
    Tiles::template copy_tile<kOthers, kWidth>(tiles + stage * 2 * kTile, key, start, count);
    Tiles::template copy_tile<kOthers, kWidth>(tiles + stage * 2 * kTile + kTile, value, start,
                                               count);
  };
  copy(0, 0);
  for (int start = 0, stage = 0; start < end; start += kOthers, stage ^= 1) {
    const unsigned short* keys = tiles + stage * 2 * kTile;
    finish_copies();
    Tiles::show_tiles();
    __syncthreads();
    if (start + kOthers < end) copy(start + kOthers, stage ^ 1);
    float s[kTiles][kOthers / 8][4];
    clear(s);
    Tiles::begin_products();
    Tiles::template ask_rows<kOthers>(s, q, keys);
    Tiles::finish_products();
    if (kMask != 0 || start + kOthers > count || (kCausal && start + kOthers > warp_row + 1)) {
      hide_scores<Narrow, kCausal, kMask>(s, mask, first, start, queries, count);
    }
    weigh_scores(s, out, largest, sum, scale);
    unsigned weights[kTiles][kOthers / 16][4];
    round_operand<Narrow>(weights, s);
    Tiles::begin_products();
    Tiles::template ask_columns<kOthers>(out, weights, keys + kTile);
    Tiles::finish_products();
  }
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      sum[t][r] += shuffle_xor(sum[t][r], 1);
      sum[t][r] += shuffle_xor(sum[t][r], 2);
      const int row = first + t * 16 + r * 8;
      if (row >= queries) continue;
      store_row<Narrow>(result, row, out[t], r, 1.0f / sum[t][r]);
      if (lane % 4 == 0) {
        args.log_sums[(int64_t)blockIdx.y * queries + row] =
            (largest[t][r] * scale + log2f(sum[t][r])) * 0x1.62e43p-1f;
      }
    }
  }
}

}  // namespace hammock::cuda
