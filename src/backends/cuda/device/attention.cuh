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
// Scores become powers of two. `shrink` is what earlier sums are to be multiplied by, since the
// largest score may have grown.
template <int kTiles, int kColumns>
__device__ __forceinline__ void weigh_scores(float (&s)[kTiles][kColumns][4],
                                             float (&shrink)[kTiles][2],
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
      shrink[t][r] = power_of_two(fmaf(largest[t][r], scale, -from));
      largest[t][r] = now;
      sum[t][r] *= shrink[t][r];
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
template <int kTiles, int kColumns>
__device__ __forceinline__ void scale_rows(float (&out)[kTiles][kColumns][4],
                                           const float (&by)[kTiles][2]) {
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
#pragma unroll
    for (int n = 0; n < kColumns; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) out[t][n][i] *= by[t][i / 2];
    }
  }
}

// Registers of a thread for the queries of its block: rows of results and their sums.
template <class Kind>
struct QueryRows {
  using Narrow = typename Kind::Narrow;
  static constexpr int kTiles = Kind::kTiles, kWidth = Kind::kWidth;

  __device__ __forceinline__ explicit QueryRows(const AttentionArgs& args)
      // The longest rows come first.
      : group(Kind::kCausal ? gridDim.x - 1 - blockIdx.x : blockIdx.x),
        warp_row((group * (Kind::kThreads / 32) + (int)threadIdx.x / 32) * kTiles * 16),
        first(warp_row + threadIdx.x % 32 / 4),
        mask(mask_of<Kind::kMask>(args.mask, (int)args.inner)) {
    load_operand(q, matrix_of(args.query, (int)args.inner), first, (int)args.queries);
    clear(out);
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
      largest[t][0] = largest[t][1] = never();
      sum[t][0] = sum[t][1] = 0;
    }
  }

  // The end of the keys that a query of the block sees.
  __device__ __forceinline__ int end_of_keys(int count) const {
    const int last = (group + 1) * kTiles * (Kind::kThreads / 2);
    return Kind::kCausal && last < count ? last : count;
  }

  // Scores of the keys from `start` on become weights.
  template <int kColumns>
  __device__ __forceinline__ void weigh(float (&s)[kTiles][kColumns][4], float (&shrink)[kTiles][2],
                                        const AttentionArgs& args, int start) {
    constexpr int kKeys = kColumns * 8;
    const int count = (int)args.keys;
    if (Kind::kMask != 0 || start + kKeys > count ||
        (Kind::kCausal && start + kKeys > warp_row + 1)) {
      hide_scores<Narrow, Kind::kCausal, Kind::kMask>(s, mask, first, start, (int)args.queries,
                                                      count);
    }
    weigh_scores(s, shrink, largest, sum, args.scale);
  }

  __device__ __forceinline__ void store(const AttentionArgs& args) {
    const Matrix result = matrix_of(args.result, (int)args.inner);
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        sum[t][r] += shuffle_xor(sum[t][r], 1);
        sum[t][r] += shuffle_xor(sum[t][r], 2);
        const int row = first + t * 16 + r * 8;
        if (row >= args.queries) continue;
        store_row<Narrow>(result, row, out[t], r, 1.0f / sum[t][r]);
        if (threadIdx.x % 4 == 0) {
          args.log_sums[blockIdx.y * args.queries + row] =
              (largest[t][r] * args.scale + log2f(sum[t][r])) * 0x1.62e43p-1f;
        }
      }
    }
  }

  const int group;
  const int warp_row;  // the first row of the warp, and of the thread
  const int first;
  const Mask mask;
  unsigned q[kTiles][kWidth / 16][4];
  float out[kTiles][kWidth / 8][4], largest[kTiles][2], sum[kTiles][2];
};

// A block has some queries of a matrix and visits the keys tile by tile.
template <class Kind>
__device__ __forceinline__ void attention(const AttentionArgs& args) {
  using Tiles = TilesOf<Kind>;
  constexpr int kTiles = Kind::kTiles, kWidth = Kind::kWidth, kOthers = Kind::kOthers;
  constexpr int kTile = Tiles::template tile_size<kOthers, kWidth>();
  alignas(1024) __shared__ Words<16> shared[4 * kTile / 8];
  unsigned short* tiles = (unsigned short*)shared;
  const int count = (int)args.keys, inner = (int)args.inner;
  const Matrix key = matrix_of(args.key, inner), value = matrix_of(args.value, inner);
  QueryRows<Kind> rows(args);
  const int end = rows.end_of_keys(count);
  auto copy = [&](int start, int stage) {
    Tiles::template copy_tile<kOthers, kWidth>(tiles + stage * 2 * kTile, key, start, count);
    Tiles::template copy_tile<kOthers, kWidth>(tiles + stage * 2 * kTile + kTile, value, start,
                                               count);
  };
  copy(0, 0);
  for (int start = 0, stage = 0; start < end; start += kOthers, stage ^= 1) {
    const unsigned short* keys = tiles + stage * 2 * kTile;
    finish_copies();
    __syncthreads();
    if (start + kOthers < end) copy(start + kOthers, stage ^ 1);
    float s[kTiles][kOthers / 8][4], shrink[kTiles][2];
    clear(s);
    Tiles::template ask_rows<kOthers>(s, rows.q, keys);
    rows.weigh(s, shrink, args, start);
    scale_rows(rows.out, shrink);
    unsigned weights[kTiles][kOthers / 16][4];
    round_operand<typename Kind::Narrow>(weights, s);
    Tiles::template ask_columns<kOthers>(rows.out, weights, keys + kTile);
  }
  rows.store(args);
}

// The same by asynchronous matmuls; Note [Overlapped matmuls].
template <class Kind>
__device__ __forceinline__ void attention_async(const AttentionArgs& args) {
  using Tiles = AsyncTiles<Kind>;
  using Narrow = typename Kind::Narrow;
  constexpr int kWidth = Kind::kWidth, kOthers = Kind::kOthers;
  constexpr int kTile = Tiles::template tile_size<kOthers, kWidth>();
  alignas(1024) __shared__ Words<16> shared[4 * kTile / 8];
  unsigned short* const keys = (unsigned short*)shared;
  unsigned short* const values = keys + 2 * kTile;
  const int count = (int)args.keys, inner = (int)args.inner;
  const Matrix key = matrix_of(args.key, inner), value = matrix_of(args.value, inner);
  QueryRows<Kind> rows(args);
  const int end = (rows.end_of_keys(count) + kOthers - 1) / kOthers;
  auto copy = [&](unsigned short* to, const Matrix& from, int tile) {
    if (tile >= end) return;
    Tiles::template copy_tile<kOthers, kWidth>(to + tile % 2 * kTile, from, tile * kOthers, count);
  };
  float s[1][kOthers / 8][4], shrink[1][2];
  unsigned weights[1][kOthers / 16][4];
  copy(keys, key, 0);
  show_copies<Tiles>();
  copy(keys, key, 1);
  copy(values, value, 0);
  Tiles::begin_products();
  Tiles::template ask_fresh_rows<kOthers>(s, rows.q, keys);
  Tiles::finish_products(s);
  rows.weigh(s, shrink, args, 0);
  round_operand<Narrow>(weights, s);
  for (int tile = 0; tile + 1 < end; ++tile) {
    show_copies<Tiles>();
    copy(keys, key, tile + 2);
    copy(values, value, tile + 1);
    Tiles::begin_products();
    Tiles::template ask_fresh_rows<kOthers>(s, rows.q, keys + (tile + 1) % 2 * kTile);
    Tiles::start_products();
    Tiles::template ask_columns<kOthers>(rows.out, weights, values + tile % 2 * kTile);
    Tiles::start_products();
    Tiles::finish_earlier(s);
    rows.weigh(s, shrink, args, (tile + 1) * kOthers);
    Tiles::finish_products(rows.out);
    scale_rows(rows.out, shrink);
    round_operand<Narrow>(weights, s);
  }
  show_copies<Tiles>();
  Tiles::begin_products();
  Tiles::template ask_columns<kOthers>(rows.out, weights, values + (end - 1) % 2 * kTile);
  Tiles::finish_products(rows.out);
  rows.store(args);
}

}  // namespace hammock::cuda
