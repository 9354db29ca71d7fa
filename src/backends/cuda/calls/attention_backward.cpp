// The gradients of attention of 16-bit floats; the scores are never stored.
//
// Note [Gradients of attention]
// The softmax is recomputed from its denominators: weights = exp(scores - log_sum), and the
// gradient of the scores is weights * (grad . value - delta). Both are rounded to the operands'
// dtype before they are multiplied. One kernel has queries in its rows and sums the query's
// gradient over the keys, the other one has keys and sums theirs and the values' over the queries,
// so no two blocks add to the same memory, and the order of sums depends on shapes alone.
#include <fmt/format.h>

#include "backends/cuda/calls/attention_text.h"
#include "backends/cuda/calls/call_kit.h"
#include "backends/cuda/passes/expand_attention.h"
#include "ops/nn/attention_node.h"

namespace hammock::cuda {
namespace {

constexpr const char* kQueryBody = R"(
  constexpr int kSteps = kWidth / 16, kTile = tile_size<kOthers, kWidth>();
  alignas(1024) __shared__ Words<16> shared[4 * kTile / 8];
  unsigned short* tiles = (unsigned short*)shared;
  const int inner = (int)w0, queries = (int)w7, count = (int)w8, lane = threadIdx.x % 32;
  const float scale = __int_as_float((int)w9);
  const Matrix key = matrix_of(w3, w17, w18, w19, inner), value = matrix_of(w4, w20, w21, w22, inner);
  const Matrix result = matrix_of(w29, w30, w31, w32, inner);
  const Mask mask = mask_of(kMask, w23, w24, w25, w26, w27, w28, inner);
  const int group = kCausal ? gridDim.x - 1 - blockIdx.x : blockIdx.x;
  const int warp_row = (group * (kThreads / 32) + threadIdx.x / 32) * kTiles * 16, first = warp_row + lane / 4;
  const float never = __int_as_float(0xff800000);
  unsigned grad[kTiles][kSteps][4], q[kTiles][kSteps][4];
  load_operand(grad, matrix_of(w1, w11, w12, w13, inner), first, queries);
  load_operand(q, matrix_of(w2, w14, w15, w16, inner), first, queries);
  float sum[kTiles][kWidth / 8][4], log_sum[kTiles][2], delta[kTiles][2];
  clear(sum);
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = first + t * 16 + r * 8;
      const long long at = (long long)blockIdx.y * queries + (row < queries ? row : 0);
      log_sum[t][r] = ((const float*)w5)[at] * 0x1.715476p+0f;
      delta[t][r] = ((const float*)w6)[at];
    }
  }
  const int last = (group + 1) * kTiles * (kThreads / 2), end = kCausal && last < count ? last : count;
  copy_tile<kOthers, kWidth>(tiles, key, 0, count);
  copy_tile<kOthers, kWidth>(tiles + kTile, value, 0, count);
  float s[kTiles][kPart / 8][4], weights[kTiles][kPart / 8][4];
  unsigned of_scores[kTiles][kPart / 16][4];
  for (int start = 0, stage = 0; start < end; start += kOthers, stage ^= 1) {
    unsigned short* keys = tiles + stage * 2 * kTile;
    finish_products();
    finish_copies();
    show_tiles();
    __syncthreads();
    if (start + kOthers < end) {
      unsigned short* next = tiles + (stage ^ 1) * 2 * kTile;
      copy_tile<kOthers, kWidth>(next, key, start + kOthers, count);
      copy_tile<kOthers, kWidth>(next + kTile, value, start + kOthers, count);
    }
#pragma unroll
    for (int part = 0; part < kOthers; part += kPart) {
      clear(weights);
      clear(s);
      begin_products();
      ask_rows<kOthers>(weights, q, part_of<kWidth>(keys, part));
      ask_rows<kOthers>(s, grad, part_of<kWidth>(keys + kTile, part));
      finish_products();
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
                weights[t][n][i] = masked<kMask>(weights[t][n][i], mask, row, column);
              }
              if ((kCausal && column > row) || column >= count) weights[t][n][i] = never;
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
      round_operand(of_scores, s);
      begin_products();
      ask_columns<kOthers>(sum, of_scores, part_of<kWidth>(keys, part));
      start_products();
    }
  }
  finish_products();
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = first + t * 16 + r * 8;
      if (row >= queries) continue;
      store_row(result, row, sum[t], r, __int_as_float((int)w10));
    }
  }
)";

constexpr const char* kKeyBody = R"(
  constexpr int kSteps = kWidth / 16, kTile = tile_size<kOthers, kWidth>();
  alignas(1024) __shared__ Words<16> shared[4 * kTile / 8];
  __shared__ float shared_rows[4 * kOthers];
  unsigned short* tiles = (unsigned short*)shared;
  const int inner = (int)w0, queries = (int)w7, count = (int)w8, lane = threadIdx.x % 32;
  const float scale = __int_as_float((int)w9);
  const Matrix grad = matrix_of(w1, w11, w12, w13, inner), query = matrix_of(w2, w14, w15, w16, inner);
  const Matrix key_result = matrix_of(w29, w30, w31, w32, inner);
  const Matrix value_result = matrix_of(w33, w34, w35, w36, inner);
  const Mask mask = mask_of(kMask, w23, w24, w25, w26, w27, w28, inner);
  const float* log_sum = (const float*)w5 + (long long)blockIdx.y * queries;
  const float* delta = (const float*)w6 + (long long)blockIdx.y * queries;
  const int warp_row = (blockIdx.x * (kThreads / 32) + threadIdx.x / 32) * kTiles * 16, first = warp_row + lane / 4;
  const float never = __int_as_float(0xff800000);
  unsigned k[kTiles][kSteps][4], v[kTiles][kSteps][4];
  load_operand(k, matrix_of(w3, w17, w18, w19, inner), first, count);
  load_operand(v, matrix_of(w4, w20, w21, w22, inner), first, count);
  float of_key[kTiles][kWidth / 8][4], of_value[kTiles][kWidth / 8][4];
  clear(of_key);
  clear(of_value);
  auto copy = [&](int start, int stage) {
    copy_tile<kOthers, kWidth>(tiles + stage * 2 * kTile, query, start, queries);
    copy_tile<kOthers, kWidth>(tiles + stage * 2 * kTile + kTile, grad, start, queries);
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
    finish_products();
    finish_copies();
    show_tiles();
    __syncthreads();
    if (start + kOthers < queries) copy(start + kOthers, stage ^ 1);
#pragma unroll
    for (int part = 0; part < kOthers; part += kPart) {
      const unsigned short* q = part_of<kWidth>(queries_of, part);
      clear(weights);
      clear(s);
      begin_products();
      ask_rows<kOthers>(weights, k, q);
      ask_rows<kOthers>(s, v, q + kTile);
      finish_products();
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
                weights[t][n][i] = masked<kMask>(weights[t][n][i], mask, column, row);
              }
              if (kCausal && column < row) weights[t][n][i] = never;
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
      round_operand(shares, weights);
      round_operand(of_scores, s);
      begin_products();
      ask_columns<kOthers>(of_value, shares, q + kTile);
      ask_columns<kOthers>(of_key, of_scores, q);
      start_products();
    }
  }
  finish_products();
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = first + t * 16 + r * 8;
      if (row >= count) continue;
      store_row(key_result, row, of_key[t], r, __int_as_float((int)w10));
      store_row(value_result, row, of_value[t], r, 1.0f);
    }
  }
)";

class AttentionBackwardCall : public AttentionKernels {
 public:
  AttentionBackwardCall(const GraphNode& node, const Machine& machine)
      : AttentionKernels(node, machine) {
    for (size_t i = 0; i < kOperands; ++i) rows_[i] = LayoutOf(node, i);
    for (size_t i = 0; i < kResults; ++i) results_[i] = LayoutOf(node, kOperands + i);
    // As much as registers hold.
    of_queries_.others = is_wide() ? 32 : 64;
    of_queries_.part = 16;
    of_queries_.tiles = is_wide() || is_async_ ? 1 : 2;
    of_keys_ = of_queries_;
    if (is_async_) {
      of_queries_.is_async = of_keys_.is_async = true;
      of_queries_.part = of_keys_.part = is_wide() ? 32 : 64;
      of_queries_.blocks = is_wide() ? 2 : 3;
      of_keys_.blocks = 2;
    }
  }

  std::vector<KernelSource> Sources() const override {
    return {Kernel(33, of_queries_, "", kQueryBody), Kernel(37, of_keys_, "", kKeyBody)};
  }
  void Run(Machine& machine, const Operands& operands) const override {
    std::vector<uint64_t> arguments = {Argument(sizes_.inner)};
    for (size_t i = 0; i < kOperands; ++i) {
      arguments.push_back(AddressOf(operands.in[i], rows_[i]));
    }
    arguments.insert(arguments.end(), {operands.in[5], operands.in[6], Argument(sizes_.queries),
                                       Argument(sizes_.keys), FloatArgument(scale_ * kLog2OfE),
                                       FloatArgument(scale_)});
    for (const RowLayout& rows : rows_) Append(arguments, rows);
    for (uint64_t argument : ArgumentsOf(mask_, operands.in[4], scale_))
      arguments.push_back(argument);
    std::vector<uint64_t> of_keys = arguments;
    AppendResult(arguments, operands, 0);
    AppendResult(of_keys, operands, 1);
    AppendResult(of_keys, operands, 2);
    machine.Launch(function(0), GridFor(sizes_.queries, of_queries_), arguments);
    machine.Launch(function(1), GridFor(sizes_.keys, of_keys_), of_keys);
  }

 private:
  static constexpr size_t kOperands = 4;  // grad, query, key, value
  static constexpr size_t kResults = 3;

  static void Append(std::vector<uint64_t>& arguments, const RowLayout& rows) {
    for (uint64_t argument : ArgumentsOf(rows)) arguments.push_back(argument);
  }
  void AppendResult(std::vector<uint64_t>& arguments, const Operands& operands, size_t i) const {
    arguments.push_back(operands.out[i]);
    Append(arguments, results_[i]);
  }
  AttentionTiling of_queries_, of_keys_;
  RowLayout rows_[kOperands], results_[kResults];
};

}  // namespace

std::unique_ptr<Call> MakeAttentionBackward(const Graph&, const GraphNode& node,
                                            const CallContext& context) {
  return std::make_unique<AttentionBackwardCall>(node, context.machine);
}

}  // namespace hammock::cuda
