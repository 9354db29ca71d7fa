// Attention of 16-bit floats that never stores the scores.
//
// Note [Attention on a GPU]
// A block has some queries, 16 or 32 for each of its four warps, and visits the keys tile by tile
// (Note [Tiles of attention]), with a running largest score and sum of powers for each query; when
// the largest score grows, the earlier sums are scaled down. Scores are f32; their powers of two
// are rounded to the operands' dtype before they are multiplied by the values. The order of sums
// depends on shapes alone.
#include <fmt/format.h>

#include "backends/cuda/calls/attention_text.h"
#include "backends/cuda/calls/call_kit.h"
#include "backends/cuda/passes/expand_attention.h"
#include "ops/primitives/fused_forms.h"

namespace hammock::cuda {
namespace {

constexpr const char* kFunctions = R"(
#define NEVER __int_as_float(0xff800000)
// Scores of keys that a query does not see are never chosen. `first` is the lane's first query,
// `start` the first key.
template <bool kCausal, int kMask, int kTiles, int kColumns>
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
          s[t][n][i] = masked<kMask>(s[t][n][i], mask, row, column);
        }
        if ((kCausal && column > row) || column >= count) s[t][n][i] = NEVER;
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
      const float from = now == NEVER ? 0.0f : now * scale;
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
)";

constexpr const char* kBody = R"(
  constexpr int kSteps = kWidth / 16, kTile = tile_size<kOthers, kWidth>();
  alignas(1024) __shared__ Words<16> shared[4 * kTile / 8];
  unsigned short* tiles = (unsigned short*)shared;
  const int queries = (int)w6, count = (int)w7, lane = threadIdx.x % 32;
  const float scale = __int_as_float((int)w8);
  const int inner = (int)w0;
  const Matrix key = matrix_of(w2, w12, w13, w14, inner), value = matrix_of(w3, w15, w16, w17, inner);
  const Matrix result = matrix_of(w4, w18, w19, w20, inner);
  const Mask mask = mask_of(kMask, w21, w22, w23, w24, w25, w26, inner);
  // The longest rows come first.
  const int group = kCausal ? gridDim.x - 1 - blockIdx.x : blockIdx.x;
  const int warp_row = (group * (kThreads / 32) + threadIdx.x / 32) * kTiles * 16;
  const int first = warp_row + lane / 4;
  unsigned q[kTiles][kSteps][4];
  load_operand(q, matrix_of(w1, w9, w10, w11, inner), first, queries);
  float out[kTiles][kWidth / 8][4], largest[kTiles][2], sum[kTiles][2];
  clear(out);
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
    largest[t][0] = largest[t][1] = NEVER;
    sum[t][0] = sum[t][1] = 0;
  }
  const int last = (group + 1) * kTiles * (kThreads / 2);
  const int end = kCausal && last < count ? last : count;
  auto copy = [&](int start, int stage) {
    copy_tile<kOthers, kWidth>(tiles + stage * 2 * kTile, key, start, count);
    copy_tile<kOthers, kWidth>(tiles + stage * 2 * kTile + kTile, value, start, count);
  };
  copy(0, 0);
  for (int start = 0, stage = 0; start < end; start += kOthers, stage ^= 1) {
    const unsigned short* keys = tiles + stage * 2 * kTile;
    finish_copies();
    show_tiles();
    __syncthreads();
    if (start + kOthers < end) copy(start + kOthers, stage ^ 1);
    float s[kTiles][kOthers / 8][4];
    clear(s);
    begin_products();
    ask_rows<kOthers>(s, q, keys);
    finish_products();
    if (kMask != 0 || start + kOthers > count || (kCausal && start + kOthers > warp_row + 1)) {
      hide_scores<kCausal, kMask>(s, mask, first, start, queries, count);
    }
    weigh_scores(s, out, largest, sum, scale);
    unsigned weights[kTiles][kOthers / 16][4];
    round_operand(weights, s);
    begin_products();
    ask_columns<kOthers>(out, weights, keys + kTile);
    finish_products();
  }
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      sum[t][r] += shuffle_xor(sum[t][r], 1);
      sum[t][r] += shuffle_xor(sum[t][r], 2);
      const int row = first + t * 16 + r * 8;
      if (row >= queries) continue;
      store_row(result, row, out[t], r, 1.0f / sum[t][r]);
      if (lane % 4 == 0) {
        ((float*)w5)[(long long)blockIdx.y * queries + row] = (largest[t][r] * scale + log2f(sum[t][r])) * 0x1.62e43p-1f;
      }
    }
  }
)";

class AttentionCall : public AttentionKernels {
 public:
  AttentionCall(const GraphNode& node, const Machine& machine) : AttentionKernels(node, machine) {
    for (size_t i = 0; i < kOperands; ++i) rows_[i] = LayoutOf(node, i);
    tiling_.others = tiling_.part = is_wide() ? 32 : 64;
    tiling_.tiles = is_wide() || is_async_ ? 1 : 2;
    if (is_async_) {
      tiling_.is_async = true;
      tiling_.threads = 256;
      tiling_.blocks = is_wide() ? 1 : 2;
    }
  }

  std::vector<KernelSource> Sources() const override {
    return {Kernel(27, tiling_, kFunctions, kBody)};
  }
  void Run(Machine& machine, const Operands& operands) const override {
    std::vector<uint64_t> arguments = {Argument(sizes_.inner)};
    for (size_t i = 0; i < 3; ++i) arguments.push_back(AddressOf(operands.in[i], rows_[i]));
    arguments.insert(arguments.end(), {operands.out[0], operands.out[1], Argument(sizes_.queries),
                                       Argument(sizes_.keys), FloatArgument(scale_ * kLog2OfE)});
    for (const RowLayout& layout : rows_) {
      for (uint64_t argument : ArgumentsOf(layout)) arguments.push_back(argument);
    }
    for (uint64_t argument : ArgumentsOf(mask_, operands.in[3], scale_))
      arguments.push_back(argument);
    machine.Launch(function(0), GridFor(sizes_.queries, tiling_), arguments);
  }

 private:
  static constexpr size_t kOperands = 4;  // query, key, value, result
  AttentionTiling tiling_;
  RowLayout rows_[kOperands];
};

std::unique_ptr<Call> MakeAttention(const Graph&, const GraphNode& node,
                                    const CallContext& context) {
  return std::make_unique<AttentionCall>(node, context.machine);
}

constexpr CallEntry kCalls[] = {
    {&ops::kAttentionStrided, MakeAttention},
    {&ops::kAttentionStridedBackward, MakeAttentionBackward},
};

}  // namespace

std::span<const CallEntry> AttentionCalls() { return kCalls; }

}  // namespace hammock::cuda
