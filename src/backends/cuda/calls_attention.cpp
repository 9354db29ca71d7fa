// Attention of 16-bit floats without ever holding the scores.
//
// Note [Attention on a GPU]
// A block has some queries, 16 or 32 for each of its four warps, and meets the keys some at a time
// (Note [Tiles of attention]), with a running largest score and sum of powers for each query; when
// the largest grows, what was summed is scaled down. Scores are f32 and powers of two; they are
// rounded to the operands' dtype before they meet the values. The order of sums depends on shapes
// alone.
#include <fmt/format.h>

#include "backends/cuda/attention_text.h"
#include "backends/cuda/call_kit.h"
#include "backends/cuda/expand_attention.h"
#include "ops/attention_node.h"

namespace hammock::cuda {
namespace {

constexpr const char* kBody = R"(
  constexpr int kSteps = kWidth / 16, kTile = kKeys * (kWidth + 8);
  __shared__ Words<16> shared[4 * kTile / 8];
  unsigned short* tiles = (unsigned short*)shared;
  const int queries = (int)w6, count = (int)w7, lane = threadIdx.x % 32;
  const float scale = __int_as_float((int)w8);
  const int inner = (int)w0;
  const Matrix key = matrix_of(w2, w12, w13, w14, inner), value = matrix_of(w3, w15, w16, w17, inner);
  const Matrix result = matrix_of(w4, w18, w19, w20, inner);
  const Mask mask = mask_of(kMask, w21, w22, w23, w24, w25, w26, inner);
  // The longest rows come first.
  const int group = kCausal ? gridDim.x - 1 - blockIdx.x : blockIdx.x;
  const int warp_row = (group * 4 + threadIdx.x / 32) * kTiles * 16, first = warp_row + lane / 4;
  unsigned q[kTiles][kSteps][4];
  load_operand(q, matrix_of(w1, w9, w10, w11, inner), first, queries);
  float out[kTiles][kWidth / 8][4], largest[kTiles][2], sum[kTiles][2];
  clear(out);
  const float never = __int_as_float(0xff800000);
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
    largest[t][0] = largest[t][1] = never;
    sum[t][0] = sum[t][1] = 0;
  }
  const int last = (group + 1) * kTiles * 64, end = kCausal && last < count ? last : count;
  copy_tile<kKeys, kWidth>(tiles, key, 0, count);
  copy_tile<kKeys, kWidth>(tiles + kTile, value, 0, count);
  for (int start = 0, stage = 0; start < end; start += kKeys, stage ^= 1) {
    unsigned short* keys = tiles + stage * 2 * kTile;
    finish_copies();
    __syncthreads();
    if (start + kKeys < end) {
      unsigned short* next = tiles + (stage ^ 1) * 2 * kTile;
      copy_tile<kKeys, kWidth>(next, key, start + kKeys, count);
      copy_tile<kKeys, kWidth>(next + kTile, value, start + kKeys, count);
    }
    float s[kTiles][kKeys / 8][4];
    clear(s);
    multiply_rows(s, q, keys);
    if (kMask != 0 || start + kKeys > count || (kCausal && start + kKeys > warp_row + 1)) {
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
#pragma unroll
        for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const int column = start + n * 8 + lane % 4 * 2 + i % 2;
            const int row = first + t * 16 + i / 2 * 8;
            if (kMask != 0 && row < queries && column < count) {
              s[t][n][i] = masked<kMask>(s[t][n][i], mask, row, column);
            }
            if ((kCausal && column > row) || column >= count) s[t][n][i] = never;
          }
        }
      }
    }
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        float now = largest[t][r];
#pragma unroll
        for (int n = 0; n < kKeys / 8; ++n) {
          now = fmaxf(now, fmaxf(s[t][n][2 * r], s[t][n][2 * r + 1]));
        }
        now = fmaxf(now, shuffle_xor(now, 1));
        now = fmaxf(now, shuffle_xor(now, 2));
        const float from = now == never ? 0.0f : now * scale;
        const float shrink = power_of_two(fmaf(largest[t][r], scale, -from));
        largest[t][r] = now;
        sum[t][r] *= shrink;
#pragma unroll
        for (int n = 0; n < kWidth / 8; ++n) {
          out[t][n][2 * r] *= shrink;
          out[t][n][2 * r + 1] *= shrink;
        }
#pragma unroll
        for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
          for (int i = 2 * r; i < 2 * r + 2; ++i) {
            s[t][n][i] = power_of_two(fmaf(s[t][n][i], scale, -from));
            sum[t][r] += s[t][n][i];
          }
        }
      }
    }
    unsigned weights[kTiles][kKeys / 16][4];
    round_operand(weights, s);
    multiply_columns(out, weights, keys + kTile);
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

class AttentionCall : public Call {
 public:
  AttentionCall(const Graph&, const GraphNode& node)
      : sizes_(SizesOf(node)),
        dtype_(node.type().dtype()),
        is_causal_(node.attrs[0].boolean()),
        scale_(node.attrs[1].real()),
        tiles_(sizes_.width <= 64 ? 2 : 1),
        mask_(MaskOf(node)) {
    for (size_t i = 0; i < kOperands; ++i) rows_[i] = LayoutOf(node, i);
  }

  std::vector<KernelSource> Sources() const override {
    std::string numbers = fmt::format(
        "  constexpr int kWidth = {}, kTiles = {}, kKeys = {}, kMask = {};\n"
        "  constexpr bool kCausal = {};\n",
        sizes_.width, tiles_, sizes_.width <= 64 ? 64 : 32, mask_.kind, is_causal_);
    return {BlockKernel(27, AttentionFunctions(dtype_), numbers + kBody)};
  }
  void Run(Machine& machine, const Operands& operands) const override {
    int64_t rows = int64_t{64} * tiles_;
    Grid grid = {.x = static_cast<unsigned>((sizes_.queries + rows - 1) / rows),
                 .y = static_cast<unsigned>(sizes_.batch()),
                 .block_x = 128};
    std::vector<uint64_t> words = {WordOf(sizes_.inner)};
    for (size_t i = 0; i < 3; ++i) words.push_back(AddressOf(operands.in[i], rows_[i]));
    words.insert(words.end(), {operands.out[0], operands.out[1], WordOf(sizes_.queries),
                               WordOf(sizes_.keys), WordOfFloat(scale_ * kLog2OfE)});
    for (const RowLayout& layout : rows_) {
      for (uint64_t word : WordsOf(layout)) words.push_back(word);
    }
    for (uint64_t word : WordsOf(mask_, operands.in[3], scale_)) words.push_back(word);
    machine.Launch(function(0), grid, words);
  }

 private:
  static constexpr size_t kOperands = 4;  // query, key, value, result
  AttentionSizes sizes_;
  DType dtype_;
  bool is_causal_;
  double scale_;
  int tiles_;  // of 16 queries, of a warp
  MaskLayout mask_;
  RowLayout rows_[kOperands];
};

constexpr CallEntry kCalls[] = {{&ops::kAttention, MakeNode<AttentionCall>},
                                {&ops::kAttentionBackward, MakeAttentionBackward}};

}  // namespace

std::span<const CallEntry> AttentionCalls() { return kCalls; }

}  // namespace hammock::cuda
