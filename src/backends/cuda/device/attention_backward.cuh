#pragma once
// Note [Gradients of attention].

#include "backends/cuda/device/attention_tiles.cuh"

namespace hammock::cuda {

// Sums over `end` tiles; Note [Overlapped matmuls]. The matmuls of ask_scores give `weights`, which
// weigh and round make the operands of those of ask_sums. Copies are two tiles ahead.
template <class Tiles, class Scores, class Copy, class AskScores, class Weigh, class Round,
          class AskSums, class FinishSums>
__device__ __forceinline__ void sum_overlapped(int end, Scores& weights, Copy copy,
                                               AskScores ask_scores, Weigh weigh, Round round,
                                               AskSums ask_sums, FinishSums finish_sums) {
  if (end <= 0) return;
  copy(0);
  show_copies<Tiles>();
  copy(1);
  Tiles::begin_products();
  ask_scores(0);
  Tiles::start_products();
  Tiles::finish_products(weights);
  weigh(0);
  round();
  for (int tile = 0; tile + 1 < end; ++tile) {
    show_copies<Tiles>();
    copy(tile + 2);
    Tiles::begin_products();
    ask_scores(tile + 1);
    Tiles::start_products();
    ask_sums(tile);
    Tiles::start_products();
    Tiles::finish_earlier(weights);
    weigh(tile + 1);
    finish_sums();
    round();
  }
  Tiles::begin_products();
  ask_sums(end - 1);
  finish_sums();
}

// Registers of a thread for the queries of its block: rows of them, and sums of their gradient.
template <class Kind>
struct QueryGradient {
  using Narrow = typename Kind::Narrow;
  static constexpr int kTiles = Kind::kTiles, kWidth = Kind::kWidth;
  template <int kColumns>
  using Scores = float[kTiles][kColumns][4];

  __device__ __forceinline__ explicit QueryGradient(const AttentionBackwardArgs& args)
      // The longest rows come first.
      : group(Kind::kCausal ? gridDim.x - 1 - blockIdx.x : blockIdx.x),
        warp_row((group * (Kind::kThreads / 32) + (int)threadIdx.x / 32) * kTiles * 16),
        first(warp_row + threadIdx.x % 32 / 4),
        mask(mask_of<Kind::kMask>(args.mask, (int)args.inner)) {
    const int inner = (int)args.inner, queries = (int)args.queries;
    load_operand(grad, matrix_of(args.grad, inner), first, queries);
    load_operand(q, matrix_of(args.query, inner), first, queries);
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
  }

  __device__ __forceinline__ int end_of_keys(int count) const {
    const int last = (group + 1) * kTiles * (Kind::kThreads / 2);
    return Kind::kCausal && last < count ? last : count;
  }

  // `s`, the gradients of weights, become those of scores; keys from `start` on.
  template <int kColumns>
  __device__ __forceinline__ void of_scores(Scores<kColumns>& s, Scores<kColumns>& weights,
                                            const AttentionBackwardArgs& args, int start) const {
    const int queries = (int)args.queries, count = (int)args.keys;
    if (Kind::kMask != 0 || start + kColumns * 8 > count ||
        (Kind::kCausal && start + kColumns * 8 > warp_row + 1)) {
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
#pragma unroll
        for (int n = 0; n < kColumns; ++n) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const int column = start + n * 8 + threadIdx.x % 4 * 2 + i % 2;
            const int row = first + t * 16 + i / 2 * 8;
            if (Kind::kMask != 0 && row < queries && column < count) {
              weights[t][n][i] = masked<Narrow, Kind::kMask>(weights[t][n][i], mask, row, column);
            }
            if ((Kind::kCausal && column > row) || column >= count) weights[t][n][i] = never();
          }
        }
      }
    }
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
#pragma unroll
      for (int n = 0; n < kColumns; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float weight = power_of_two(fmaf(weights[t][n][i], args.scale, -log_sum[t][i / 2]));
          s[t][n][i] = weight * (s[t][n][i] - delta[t][i / 2]);
        }
      }
    }
  }

  __device__ __forceinline__ void store(const AttentionBackwardArgs& args) const {
    const Matrix result = matrix_of(args.query_result, (int)args.inner);
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int row = first + t * 16 + r * 8;
        if (row >= args.queries) continue;
        store_row<Narrow, Kind::kPacked>(result, row, sum[t], r, args.result_scale);
      }
    }
  }

  const int group;
  const int warp_row;  // the first row of the warp, and of the thread
  const int first;
  const Mask mask;
  unsigned grad[kTiles][kWidth / 16][4], q[kTiles][kWidth / 16][4];
  float sum[kTiles][kWidth / 8][4], log_sum[kTiles][2], delta[kTiles][2];
};

// A block has some queries of a matrix, and sums their gradient over the keys.
template <class Kind>
__device__ __forceinline__ void attention_query_gradient(const AttentionBackwardArgs& args) {
  using Tiles = WarpTiles<Kind>;
  constexpr int kTiles = Kind::kTiles, kWidth = Kind::kWidth;
  constexpr int kOthers = Kind::kOthers, kPart = Kind::kPart;
  constexpr int kTile = Tiles::template tile_size<kOthers, kWidth>();
  alignas(1024) __shared__ Words<16> shared[4 * kTile / 8];
  unsigned short* tiles = (unsigned short*)shared;
  const int inner = (int)args.inner, count = (int)args.keys;
  const Matrix key = matrix_of(args.key, inner), value = matrix_of(args.value, inner);
  QueryGradient<Kind> rows(args);
  const int end = rows.end_of_keys(count);
  auto copy = [&](int start, int stage) {
    unsigned short* to = tiles + stage * 2 * kTile;
    Tiles::template copy_tile<kOthers, kWidth>(to, key, start, count);
    Tiles::template copy_tile<kOthers, kWidth>(to + kTile, value, start, count);
  };
  copy(0, 0);
  float s[kTiles][kPart / 8][4], weights[kTiles][kPart / 8][4];
  unsigned of_scores[kTiles][kPart / 16][4];
  for (int start = 0, stage = 0; start < end; start += kOthers, stage ^= 1) {
    unsigned short* keys = tiles + stage * 2 * kTile;
    finish_copies();
    __syncthreads();
    if (start + kOthers < end) copy(start + kOthers, stage ^ 1);
#pragma unroll
    for (int part = 0; part < kOthers; part += kPart) {
      const unsigned short* k = Tiles::template part_of<kWidth>(keys, part);
      clear(weights);
      clear(s);
      Tiles::template ask_rows<kOthers>(weights, rows.q, k);
      Tiles::template ask_rows<kOthers>(s, rows.grad, k + kTile);
      rows.of_scores(s, weights, args, start + part);
      round_operand<typename Kind::Narrow>(of_scores, s);
      Tiles::template ask_columns<kOthers>(rows.sum, of_scores, k);
    }
  }
  rows.store(args);
}

// The same; Note [Overlapped matmuls].
template <class Kind>
__device__ __forceinline__ void attention_query_gradient_async(const AttentionBackwardArgs& args) {
  using Tiles = AsyncTiles<Kind>;
  using Narrow = typename Kind::Narrow;
  constexpr int kWidth = Kind::kWidth, kOthers = Kind::kOthers;
  constexpr int kTile = Tiles::template tile_size<kOthers, kWidth>();
  // Keys are multiplied twice, the second time together with those of the next tile.
  alignas(1024) __shared__ Words<16> shared[5 * kTile / 8];
  unsigned short* const keys = (unsigned short*)shared;
  unsigned short* const values = keys + 3 * kTile;
  const int inner = (int)args.inner, count = (int)args.keys;
  const Matrix key = matrix_of(args.key, inner), value = matrix_of(args.value, inner);
  QueryGradient<Kind> rows(args);
  const int end = (rows.end_of_keys(count) + kOthers - 1) / kOthers;
  auto copy = [&](int tile) {
    if (tile >= end) return;
    const int start = tile * kOthers;
    Tiles::template copy_tile<kOthers, kWidth>(keys + tile % 3 * kTile, key, start, count);
    Tiles::template copy_tile<kOthers, kWidth>(values + tile % 2 * kTile, value, start, count);
  };
  float s[1][kOthers / 8][4], weights[1][kOthers / 8][4];
  unsigned of_scores[1][kOthers / 16][4];
  auto ask_scores = [&](int tile) {
    Tiles::template ask_fresh_rows<kOthers>(weights, rows.q, keys + tile % 3 * kTile);
    Tiles::template ask_fresh_rows<kOthers>(s, rows.grad, values + tile % 2 * kTile);
  };
  auto ask_sums = [&](int tile) {
    Tiles::template ask_columns<kOthers>(rows.sum, of_scores, keys + tile % 3 * kTile);
  };
  auto weigh = [&](int tile) {
    Tiles::hold(s);
    rows.of_scores(s, weights, args, tile * kOthers);
  };
  auto finish_sums = [&] { Tiles::finish_products(rows.sum); };
  auto round = [&] { round_operand<Narrow>(of_scores, s); };
  sum_overlapped<Tiles>(end, weights, copy, ask_scores, weigh, round, ask_sums, finish_sums);
  rows.store(args);
}

// Registers of a thread for the keys of its block: rows of keys and values, and sums of the
// gradients of both.
template <class Kind>
struct KeyGradient {
  using Narrow = typename Kind::Narrow;
  static constexpr int kTiles = Kind::kTiles, kWidth = Kind::kWidth;
  template <int kColumns>
  using Scores = float[kTiles][kColumns][4];

  __device__ __forceinline__ explicit KeyGradient(const AttentionBackwardArgs& args)
      : warp_row((blockIdx.x * (Kind::kThreads / 32) + (int)threadIdx.x / 32) * kTiles * 16),
        first(warp_row + threadIdx.x % 32 / 4),
        mask(mask_of<Kind::kMask>(args.mask, (int)args.inner)) {
    const int inner = (int)args.inner, count = (int)args.keys;
    load_operand(k, matrix_of(args.key, inner), first, count);
    load_operand(v, matrix_of(args.value, inner), first, count);
    clear(of_key);
    clear(of_value);
  }

  // The first query, of a tile of kOthers, that sees a key of the block.
  static __device__ __forceinline__ int begin_of_queries() {
    constexpr int kRows = kTiles * (Kind::kThreads / 2);
    return Kind::kCausal ? (int)blockIdx.x * kRows / Kind::kOthers * Kind::kOthers : 0;
  }

  // Scores become weights, and `s`, their gradients, those of scores; queries from `start` on.
  // `of_queries` has the logarithms of sums and, kOthers further, the deltas.
  template <int kColumns>
  __device__ __forceinline__ void of_scores(Scores<kColumns>& s, Scores<kColumns>& weights,
                                            const float* of_queries,
                                            const AttentionBackwardArgs& args, int start) const {
    const int queries = (int)args.queries, count = (int)args.keys;
    if (Kind::kMask != 0 || (Kind::kCausal && start < warp_row + kTiles * 16)) {
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
#pragma unroll
        for (int n = 0; n < kColumns; ++n) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const int column = start + n * 8 + threadIdx.x % 4 * 2 + i % 2;
            const int row = first + t * 16 + i / 2 * 8;
            if (Kind::kMask != 0 && row < count && column < queries) {
              weights[t][n][i] = masked<Narrow, Kind::kMask>(weights[t][n][i], mask, column, row);
            }
            if (Kind::kCausal && column < row) weights[t][n][i] = never();
          }
        }
      }
    }
#pragma unroll
    for (int n = 0; n < kColumns; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float* of_query = of_queries + n * 8 + threadIdx.x % 4 * 2 + i;
        const float from = of_query[0] * 0x1.715476p+0f, delta = of_query[Kind::kOthers];
#pragma unroll
        for (int t = 0; t < kTiles; ++t) {
#pragma unroll
          for (int r = i; r < 4; r += 2) {
            weights[t][n][r] = power_of_two(fmaf(weights[t][n][r], args.scale, -from));
            s[t][n][r] = weights[t][n][r] * (s[t][n][r] - delta);
          }
        }
      }
    }
  }

  __device__ __forceinline__ void store(const AttentionBackwardArgs& args) const {
    const Matrix key_result = matrix_of(args.key_result, (int)args.inner);
    const Matrix value_result = matrix_of(args.value_result, (int)args.inner);
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int row = first + t * 16 + r * 8;
        if (row >= args.keys) continue;
        store_row<Narrow, Kind::kPacked>(key_result, row, of_key[t], r, args.result_scale);
        store_row<Narrow, Kind::kPacked>(value_result, row, of_value[t], r, 1.0f);
      }
    }
  }

  const int warp_row;  // the first row of the warp, and of the thread
  const int first;
  const Mask mask;
  unsigned k[kTiles][kWidth / 16][4], v[kTiles][kWidth / 16][4];
  float of_key[kTiles][kWidth / 8][4], of_value[kTiles][kWidth / 8][4];
};

// Copies of queries, their gradients, and two numbers of each query into a stage of shared memory.
template <class Kind, class Tiles>
struct QueryStages {
  static constexpr int kWidth = Kind::kWidth, kOthers = Kind::kOthers;
  static constexpr int kTile = Tiles::template tile_size<kOthers, kWidth>();

  __device__ __forceinline__ QueryStages(const AttentionBackwardArgs& args, unsigned short* tiles,
                                         float* numbers)
      : grad(matrix_of(args.grad, (int)args.inner)),
        query(matrix_of(args.query, (int)args.inner)),
        log_sum(args.log_sums + blockIdx.y * args.queries),
        delta(args.deltas + blockIdx.y * args.queries),
        queries((int)args.queries),
        tiles(tiles),
        numbers(numbers) {}

  __device__ __forceinline__ void copy(int start, int stage) const {
    if (start >= queries) return;
    unsigned short* to = tiles + stage * 2 * kTile;
    Tiles::template copy_tile<kOthers, kWidth>(to, query, start, queries);
    Tiles::template copy_tile<kOthers, kWidth>(to + kTile, grad, start, queries);
    if (threadIdx.x < 2 * kOthers) {
      const int row = start + threadIdx.x % kOthers;
      const bool inside = row < queries;
      copy_float(numbers + stage * 2 * kOthers + threadIdx.x,
                 (threadIdx.x < kOthers ? log_sum : delta) + (inside ? row : 0), inside);
    }
  }
  __device__ __forceinline__ const unsigned short* queries_of(int stage) const {
    return tiles + stage * 2 * kTile;
  }
  __device__ __forceinline__ const float* numbers_of(int stage) const {
    return numbers + stage * 2 * kOthers;
  }

  const Matrix grad, query;
  const float* log_sum;
  const float* delta;
  const int queries;
  unsigned short* tiles;
  float* numbers;
};

// A block has some keys of a matrix, and sums their gradient and that of the values over the
// queries.
template <class Kind>
__device__ __forceinline__ void attention_key_gradient(const AttentionBackwardArgs& args) {
  using Narrow = typename Kind::Narrow;
  using Tiles = TilesOf<Kind>;
  constexpr int kTiles = Kind::kTiles, kWidth = Kind::kWidth;
  constexpr int kOthers = Kind::kOthers, kPart = Kind::kPart;
  constexpr int kTile = Tiles::template tile_size<kOthers, kWidth>();
  alignas(1024) __shared__ Words<16> shared[4 * kTile / 8];
  __shared__ float numbers[4 * kOthers];
  const int queries = (int)args.queries;
  const QueryStages<Kind, Tiles> stages(args, (unsigned short*)shared, numbers);
  KeyGradient<Kind> rows(args);
  const int begin = rows.begin_of_queries();
  stages.copy(begin, 0);
  float s[kTiles][kPart / 8][4], weights[kTiles][kPart / 8][4];
  unsigned shares[kTiles][kPart / 16][4], of_scores[kTiles][kPart / 16][4];
  for (int start = begin, stage = 0; start < queries; start += kOthers, stage ^= 1) {
    Tiles::finish_products();
    finish_copies();
    Tiles::show_tiles();
    __syncthreads();
    stages.copy(start + kOthers, stage ^ 1);
#pragma unroll
    for (int part = 0; part < kOthers; part += kPart) {
      const unsigned short* q = Tiles::template part_of<kWidth>(stages.queries_of(stage), part);
      clear(weights);
      clear(s);
      Tiles::begin_products();
      Tiles::template ask_rows<kOthers>(weights, rows.k, q);
      Tiles::template ask_rows<kOthers>(s, rows.v, q + kTile);
      Tiles::finish_products();
      rows.of_scores(s, weights, stages.numbers_of(stage) + part, args, start + part);
      round_operand<Narrow>(shares, weights);
      round_operand<Narrow>(of_scores, s);
      Tiles::begin_products();
      Tiles::template ask_columns<kOthers>(rows.of_value, shares, q + kTile);
      Tiles::template ask_columns<kOthers>(rows.of_key, of_scores, q);
      Tiles::start_products();
    }
  }
  Tiles::finish_products();
  rows.store(args);
}

// The same; Note [Overlapped matmuls].
template <class Kind>
__device__ __forceinline__ void attention_key_gradient_async(const AttentionBackwardArgs& args) {
  using Narrow = typename Kind::Narrow;
  using Tiles = AsyncTiles<Kind>;
  constexpr int kWidth = Kind::kWidth, kOthers = Kind::kOthers;
  constexpr int kTile = Tiles::template tile_size<kOthers, kWidth>();
  alignas(1024) __shared__ Words<16> shared[6 * kTile / 8];
  __shared__ float numbers[6 * kOthers];
  const QueryStages<Kind, Tiles> stages(args, (unsigned short*)shared, numbers);
  KeyGradient<Kind> rows(args);
  const int begin = rows.begin_of_queries();
  const int end = ((int)args.queries - begin + kOthers - 1) / kOthers;
  auto copy = [&](int tile) { stages.copy(begin + tile * kOthers, tile % 3); };
  float s[1][kOthers / 8][4], weights[1][kOthers / 8][4];
  unsigned shares[1][kOthers / 16][4], of_scores[1][kOthers / 16][4];
  auto ask_scores = [&](int tile) {
    const unsigned short* q = stages.queries_of(tile % 3);
    Tiles::template ask_fresh_rows<kOthers>(weights, rows.k, q);
    Tiles::template ask_fresh_rows<kOthers>(s, rows.v, q + kTile);
  };
  auto ask_sums = [&](int tile) {
    const unsigned short* q = stages.queries_of(tile % 3);
    Tiles::template ask_columns<kOthers>(rows.of_value, shares, q + kTile);
    Tiles::template ask_columns<kOthers>(rows.of_key, of_scores, q);
  };
  auto weigh = [&](int tile) {
    Tiles::hold(s);
    rows.of_scores(s, weights, stages.numbers_of(tile % 3), args, begin + tile * kOthers);
  };
  auto finish_sums = [&] {
    Tiles::finish_products(rows.of_value);
    Tiles::hold(rows.of_key);
  };
  auto round = [&] {
    round_operand<Narrow>(shares, weights);
    round_operand<Narrow>(of_scores, s);
  };
  sum_overlapped<Tiles>(end, weights, copy, ask_scores, weigh, round, ask_sums, finish_sums);
  rows.store(args);
}

}  // namespace hammock::cuda
