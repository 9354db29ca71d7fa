#pragma once
// Note [Gradients of attention].

#include "backends/cuda/device/attention_tiles.cuh"

namespace hammock::cuda {

// A block has some queries of a matrix, and sums their gradient over the keys.
template <class Kind>
__device__ __forceinline__ void attention_query_gradient(const AttentionBackwardArgs& args) {
  using Narrow = typename Kind::Narrow;
  using Tiles = TilesOf<Kind>;
  constexpr int kThreads = Kind::kThreads, kWidth = Kind::kWidth, kTiles = Kind::kTiles;
  constexpr int kOthers = Kind::kOthers, kPart = Kind::kPart, kMask = Kind::kMask;
  constexpr bool kCausal = Kind::kCausal;
  constexpr int kSteps = kWidth / 16, kTile = Tiles::template tile_size<kOthers, kWidth>();
  alignas(1024) __shared__ Words<16> shared[4 * kTile / 8];
  unsigned short* tiles = (unsigned short*)shared;
  const int inner = (int)args.inner, queries = (int)args.queries, count = (int)args.keys,
            lane = threadIdx.x % 32;
  const float scale = args.scale;
  const Matrix key = matrix_of(args.key, inner), value = matrix_of(args.value, inner);
  const Matrix result = matrix_of(args.query_result, inner);
  const Mask mask = mask_of<kMask>(args.mask, inner);
  const int group = kCausal ? gridDim.x - 1 - blockIdx.x : blockIdx.x;
  const int warp_row = (group * (kThreads / 32) + threadIdx.x / 32) * kTiles * 16,
            first = warp_row + lane / 4;
  unsigned grad[kTiles][kSteps][4], q[kTiles][kSteps][4];
  load_operand(grad, matrix_of(args.grad, inner), first, queries);
  load_operand(q, matrix_of(args.query, inner), first, queries);
  float sum[kTiles][kWidth / 8][4], log_sum[kTiles][2], delta[kTiles][2];
  clear(sum);
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = first + t * 16 + r * 8;
      const int64_t at = (int64_t)blockIdx.y * queries + (row < queries ? row : 0);
      log_sum[t][r] = args.log_sums[at] * 0x1.715476p+0f;
      delta[t][r] = args.deltas[at];
    }
  }
  const int last = (group + 1) * kTiles * (kThreads / 2),
            end = kCausal && last < count ? last : count;
  Tiles::template copy_tile<kOthers, kWidth>(tiles, key, 0, count);
  Tiles::template copy_tile<kOthers, kWidth>(tiles + kTile, value, 0, count);
  float s[kTiles][kPart / 8][4], weights[kTiles][kPart / 8][4];
  unsigned of_scores[kTiles][kPart / 16][4];
  for (int start = 0, stage = 0; start < end; start += kOthers, stage ^= 1) {
    unsigned short* keys = tiles + stage * 2 * kTile;
    Tiles::finish_products();
    finish_copies();
    Tiles::show_tiles();
    __syncthreads();
    if (start + kOthers < end) {
      unsigned short* next = tiles + (stage ^ 1) * 2 * kTile;
      Tiles::template copy_tile<kOthers, kWidth>(next, key, start + kOthers, count);
      Tiles::template copy_tile<kOthers, kWidth>(next + kTile, value, start + kOthers, count);
    }
#pragma unroll
    for (int part = 0; part < kOthers; part += kPart) {
      clear(weights);
      clear(s);
      Tiles::begin_products();
      Tiles::template ask_rows<kOthers>(weights, q, Tiles::template part_of<kWidth>(keys, part));
      Tiles::template ask_rows<kOthers>(s, grad,
                                        Tiles::template part_of<kWidth>(keys + kTile, part));
      Tiles::finish_products();
      if (kMask != 0 || start + kOthers > count || (kCausal && start + kOthers > warp_row + 1)) {
#pragma unroll
        for (int t = 0; t < kTiles; ++t) {
#pragma unroll
          for (int n = 0; n < kPart / 8; ++n) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
              const int column = start + part + n * 8 + lane % 4 * 2 + i % 2;
              const int row = first + t * 16 + i / 2 * 8;
              if (kMask != 0 && row < queries && column < count) {
                weights[t][n][i] = masked<Narrow, kMask>(weights[t][n][i], mask, row, column);
              }
              if ((kCausal && column > row) || column >= count) weights[t][n][i] = never();
            }
          }
        }
      }
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
#pragma unroll
        for (int n = 0; n < kPart / 8; ++n) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const float weight = power_of_two(fmaf(weights[t][n][i], scale, -log_sum[t][i / 2]));
            s[t][n][i] = weight * (s[t][n][i] - delta[t][i / 2]);
          }
        }
      }
      round_operand<Narrow>(of_scores, s);
      Tiles::begin_products();
      Tiles::template ask_columns<kOthers>(sum, of_scores,
                                           Tiles::template part_of<kWidth>(keys, part));
      Tiles::start_products();
    }
  }
  Tiles::finish_products();
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = first + t * 16 + r * 8;
      if (row >= queries) continue;
      store_row<Narrow, Kind::kPacked>(result, row, sum[t], r, args.result_scale);
    }
  }
}

// A block has some keys of a matrix, and sums their gradient and that of the values over the
// queries.
template <class Kind>
__device__ __forceinline__ void attention_key_gradient(const AttentionBackwardArgs& args) {
  using Narrow = typename Kind::Narrow;
  using Tiles = TilesOf<Kind>;
  constexpr int kThreads = Kind::kThreads, kWidth = Kind::kWidth, kTiles = Kind::kTiles;
  constexpr int kOthers = Kind::kOthers, kPart = Kind::kPart, kMask = Kind::kMask;
  constexpr bool kCausal = Kind::kCausal;
  constexpr int kSteps = kWidth / 16, kTile = Tiles::template tile_size<kOthers, kWidth>();
  alignas(1024) __shared__ Words<16> shared[4 * kTile / 8];
  __shared__ float shared_rows[4 * kOthers];
  unsigned short* tiles = (unsigned short*)shared;
  const int inner = (int)args.inner, queries = (int)args.queries, count = (int)args.keys,
            lane = threadIdx.x % 32;
  const float scale = args.scale;
  const Matrix grad = matrix_of(args.grad, inner), query = matrix_of(args.query, inner);
  const Matrix key_result = matrix_of(args.key_result, inner);
  const Matrix value_result = matrix_of(args.value_result, inner);
  const Mask mask = mask_of<kMask>(args.mask, inner);
  const float* log_sum = args.log_sums + (int64_t)blockIdx.y * queries;
  const float* delta = args.deltas + (int64_t)blockIdx.y * queries;
  const int warp_row = (blockIdx.x * (kThreads / 32) + threadIdx.x / 32) * kTiles * 16,
            first = warp_row + lane / 4;
  unsigned k[kTiles][kSteps][4], v[kTiles][kSteps][4];
  load_operand(k, matrix_of(args.key, inner), first, count);
  load_operand(v, matrix_of(args.value, inner), first, count);
  float of_key[kTiles][kWidth / 8][4], of_value[kTiles][kWidth / 8][4];
  clear(of_key);
  clear(of_value);
  auto copy = [&](int start, int stage) {
    Tiles::template copy_tile<kOthers, kWidth>(tiles + stage * 2 * kTile, query, start, queries);
    Tiles::template copy_tile<kOthers, kWidth>(tiles + stage * 2 * kTile + kTile, grad, start,
                                               queries);
    if (threadIdx.x < 2 * kOthers) {
      const int row = start + threadIdx.x % kOthers;
      const bool inside = row < queries;
      copy_float(shared_rows + stage * 2 * kOthers + threadIdx.x,
                 (threadIdx.x < kOthers ? log_sum : delta) + (inside ? row : 0), inside);
    }
  };
  const int begin = kCausal ? (int)blockIdx.x * kTiles * (kThreads / 2) / kOthers * kOthers : 0;
  if (begin < queries) copy(begin, 0);
  float s[kTiles][kPart / 8][4], weights[kTiles][kPart / 8][4];
  unsigned shares[kTiles][kPart / 16][4], of_scores[kTiles][kPart / 16][4];
  for (int start = begin, stage = 0; start < queries; start += kOthers, stage ^= 1) {
    unsigned short* queries_of = tiles + stage * 2 * kTile;
    const float* rows = shared_rows + stage * 2 * kOthers;
    Tiles::finish_products();
    finish_copies();
    Tiles::show_tiles();
    __syncthreads();
    if (start + kOthers < queries) copy(start + kOthers, stage ^ 1);
#pragma unroll
    for (int part = 0; part < kOthers; part += kPart) {
      const unsigned short* q = Tiles::template part_of<kWidth>(queries_of, part);
      clear(weights);
      clear(s);
      Tiles::begin_products();
      Tiles::template ask_rows<kOthers>(weights, k, q);
      Tiles::template ask_rows<kOthers>(s, v, q + kTile);
      Tiles::finish_products();
      if (kMask != 0 || (kCausal && start < warp_row + kTiles * 16)) {
#pragma unroll
        for (int t = 0; t < kTiles; ++t) {
#pragma unroll
          for (int n = 0; n < kPart / 8; ++n) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
              const int column = start + part + n * 8 + lane % 4 * 2 + i % 2;
              const int row = first + t * 16 + i / 2 * 8;
              if (kMask != 0 && row < count && column < queries) {
                weights[t][n][i] = masked<Narrow, kMask>(weights[t][n][i], mask, column, row);
              }
              if (kCausal && column < row) weights[t][n][i] = never();
            }
          }
        }
      }
#pragma unroll
      for (int n = 0; n < kPart / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const float* of_row = rows + part + n * 8 + lane % 4 * 2 + i;
          const float from = of_row[0] * 0x1.715476p+0f, mean = of_row[kOthers];
#pragma unroll
          for (int t = 0; t < kTiles; ++t) {
#pragma unroll
            for (int r = i; r < 4; r += 2) {
              weights[t][n][r] = power_of_two(fmaf(weights[t][n][r], scale, -from));
              s[t][n][r] = weights[t][n][r] * (s[t][n][r] - mean);
            }
          }
        }
      }
      round_operand<Narrow>(shares, weights);
      round_operand<Narrow>(of_scores, s);
      Tiles::begin_products();
      Tiles::template ask_columns<kOthers>(of_value, shares, q + kTile);
      Tiles::template ask_columns<kOthers>(of_key, of_scores, q);
      Tiles::start_products();
    }
  }
  Tiles::finish_products();
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = first + t * 16 + r * 8;
      if (row >= count) continue;
      store_row<Narrow, Kind::kPacked>(key_result, row, of_key[t], r, args.result_scale);
      store_row<Narrow, Kind::kPacked>(value_result, row, of_value[t], r, 1.0f);
    }
  }
}

}  // namespace hammock::cuda
