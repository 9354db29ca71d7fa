// Attention of 16-bit floats without ever holding the scores.
//
// Note [Attention on a GPU]
// A block has 64 queries, 16 for each of its four warps, and meets the keys 64 at a time, with a
// running largest score and sum of powers for each query; when the largest grows, what was summed
// is scaled down. Products are made by the matrix units from fragments that lanes hold: lane l has
// rows l / 4 and l / 4 + 8, and columns 2 (l % 4) and the next, of each tile of 16 by 8. Scores are
// f32 and powers of two; they are rounded to the operands' dtype before they meet the values, for
// which fragments of results and of operands lie alike. The order of sums depends on shapes alone.
#include <fmt/format.h>

#include <cstring>

#include "backends/cuda/call_kit.h"
#include "backends/cuda/expand_attention.h"
#include "ops/attention_node.h"

namespace hammock::cuda {
namespace {

constexpr int64_t kQueries = 64;

/// What the kernel calls; T is "bf16" or "f16".
constexpr const char* kFunctions = R"(
#if HAMMOCK_PTX
__device__ inline void multiply_add(float* d, const unsigned* a, unsigned b0, unsigned b1) {{
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.{0}.{0}.f32 {{%0,%1,%2,%3}}, {{%4,%5,%6,%7}}, "
      "{{%8,%9}}, {{%0,%1,%2,%3}};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}}
// Fragments of 16 rows by two tiles of 8 columns, transposed.
__device__ inline void load_columns(const unsigned short* at, int pitch, unsigned* b) {{
  const int lane = threadIdx.x % 32;
  const unsigned from = (unsigned)__cvta_generic_to_shared(at + lane % 16 * pitch + lane / 16 * 8);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {{%0,%1,%2,%3}}, [%4];"
               : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3]) : "r"(from));
}}
#else
__device__ inline float half_of(unsigned pair, int which) {{
  return from_{0}((unsigned short)(pair >> (16 * which)));
}}
__device__ inline void multiply_add(float* d, const unsigned* a, unsigned b0, unsigned b1) {{
  const int lane = threadIdx.x % 32;
  for (int k = 0; k < 16; k += 2) {{
    unsigned rows[2], columns[2];
    for (int i = 0; i < 2; ++i) {{
      for (int high = 0; high < 2; ++high) {{
        const unsigned x = __shfl_sync(0xffffffffu, a[i + 2 * high], lane / 4 * 4 + k % 8 / 2, 32);
        const unsigned y = __shfl_sync(0xffffffffu, high ? b1 : b0,
                                       (lane % 4 * 2 + i) * 4 + k % 8 / 2, 32);
        if (high == k / 8) {{ rows[i] = x; columns[i] = y; }}
      }}
    }}
    for (int i = 0; i < 4; ++i) {{
      d[i] += half_of(rows[i / 2], 0) * half_of(columns[i % 2], 0);
      d[i] += half_of(rows[i / 2], 1) * half_of(columns[i % 2], 1);
    }}
  }}
}}
__device__ inline void load_columns(const unsigned short* at, int pitch, unsigned* b) {{
  const int lane = threadIdx.x % 32;
  for (int i = 0; i < 4; ++i) {{
    const unsigned short* from = at + (i % 2 * 8 + lane % 4 * 2) * pitch + i / 2 * 8 + lane / 4;
    b[i] = from[0] | (unsigned)from[pitch] << 16;
  }}
}}
#endif
__device__ inline unsigned pair_of(float low, float high) {{
  return to_{0}(low) | (unsigned)to_{0}(high) << 16;
}}
)";

constexpr const char* kBody = R"(
  constexpr int kWidth = {0}, kPitch = kWidth + 8, kSteps = kWidth / 16;
  __shared__ Words<16> key_words[64 * kPitch / 8], value_words[64 * kPitch / 8];
  unsigned short* keys = (unsigned short*)key_words;
  unsigned short* values = (unsigned short*)value_words;
  const int queries = (int)w6, count = (int)w7, lane = threadIdx.x % 32;
  const float scale = __int_as_float((int)w8);
  const long long batch = blockIdx.y;
  const unsigned short* query = (const unsigned short*)w1 + batch * queries * kWidth;
  const unsigned short* key = (const unsigned short*)w2 + batch * count * kWidth;
  const unsigned short* value = (const unsigned short*)w3 + batch * count * kWidth;
  const int first = (int)blockIdx.x * 64 + threadIdx.x / 32 * 16 + lane / 4;
  unsigned q[kSteps][4];
#pragma unroll
  for (int k = 0; k < kSteps; ++k) {{
#pragma unroll
    for (int i = 0; i < 4; ++i) {{
      const int row = first + i % 2 * 8, column = k * 16 + i / 2 * 8 + lane % 4 * 2;
      q[k][i] = row < queries ? *(const unsigned*)(query + (long long)row * kWidth + column) : 0;
    }}
  }}
  float out[kWidth / 8][4], largest[2], sum[2];
#pragma unroll
  for (int n = 0; n < kWidth / 8; ++n) {{
#pragma unroll
    for (int i = 0; i < 4; ++i) out[n][i] = 0;
  }}
  const float never = __int_as_float(0xff800000);
  largest[0] = largest[1] = never;
  sum[0] = sum[1] = 0;
  const int end = {1};
  for (int start = 0; start < end; start += 64) {{
    __syncthreads();
    for (int i = threadIdx.x; i < 64 * kWidth / 8; i += 128) {{
      const int row = i / (kWidth / 8), column = i % (kWidth / 8);
      Words<16> none = {{}};
      const bool inside = start + row < count;
      const long long from = (long long)(start + row) * kWidth + column * 8;
      key_words[row * (kPitch / 8) + column] = inside ? *(const Words<16>*)(key + from) : none;
      value_words[row * (kPitch / 8) + column] = inside ? *(const Words<16>*)(value + from) : none;
    }}
    __syncthreads();
    float s[8][4];
#pragma unroll
    for (int n = 0; n < 8; ++n) {{
      s[n][0] = s[n][1] = s[n][2] = s[n][3] = 0;
#pragma unroll
      for (int k = 0; k < kSteps; ++k) {{
        const unsigned short* from = keys + (n * 8 + lane / 4) * kPitch + k * 16 + lane % 4 * 2;
        multiply_add(s[n], q[k], *(const unsigned*)from, *(const unsigned*)(from + 8));
      }}
    }}
    float now[2] = {{largest[0], largest[1]}};
#pragma unroll
    for (int n = 0; n < 8; ++n) {{
#pragma unroll
      for (int i = 0; i < 4; ++i) {{
        const int column = start + n * 8 + lane % 4 * 2 + i % 2;
        s[n][i] = {2} ? s[n][i] * scale : never;
        now[i / 2] = fmaxf(now[i / 2], s[n][i]);
      }}
    }}
#pragma unroll
    for (int r = 0; r < 2; ++r) {{
      now[r] = fmaxf(now[r], shuffle_xor(now[r], 1));
      now[r] = fmaxf(now[r], shuffle_xor(now[r], 2));
      const float from = now[r] == never ? 0.0f : now[r];
      const float shrink = exp2f(largest[r] - from);
      largest[r] = now[r];
      now[r] = from;
      sum[r] *= shrink;
#pragma unroll
      for (int n = 0; n < kWidth / 8; ++n) {{
        out[n][2 * r] *= shrink;
        out[n][2 * r + 1] *= shrink;
      }}
    }}
#pragma unroll
    for (int n = 0; n < 8; ++n) {{
#pragma unroll
      for (int i = 0; i < 4; ++i) {{
        s[n][i] = exp2f(s[n][i] - now[i / 2]);
        sum[i / 2] += s[n][i];
      }}
    }}
#pragma unroll
    for (int k = 0; k < 4; ++k) {{
      const unsigned a[4] = {{pair_of(s[2 * k][0], s[2 * k][1]), pair_of(s[2 * k][2], s[2 * k][3]),
                             pair_of(s[2 * k + 1][0], s[2 * k + 1][1]),
                             pair_of(s[2 * k + 1][2], s[2 * k + 1][3])}};
#pragma unroll
      for (int n = 0; n < kWidth / 8; n += 2) {{
        unsigned b[4];
        load_columns(values + k * 16 * kPitch + n * 8, kPitch, b);
        multiply_add(out[n], a, b[0], b[1]);
        multiply_add(out[n + 1], a, b[2], b[3]);
      }}
    }}
  }}
#pragma unroll
  for (int r = 0; r < 2; ++r) {{
    sum[r] += shuffle_xor(sum[r], 1);
    sum[r] += shuffle_xor(sum[r], 2);
    const int row = first + r * 8;
    if (row >= queries) continue;
    const float inverse = 1.0f / sum[r];
    unsigned* to = (unsigned*)((unsigned short*)w4 + (batch * queries + row) * kWidth);
#pragma unroll
    for (int n = 0; n < kWidth / 8; ++n) {{
      to[n * 4 + lane % 4] = pair_of(out[n][2 * r] * inverse, out[n][2 * r + 1] * inverse);
    }}
    if (lane % 4 == 0) {{
      ((float*)w5)[batch * queries + row] = (largest[r] + log2f(sum[r])) * 0x1.62e43p-1f;
    }}
  }}
)";

class AttentionCall : public Call {
 public:
  AttentionCall(const Graph& graph, const GraphNode& node)
      : dtype_(node.type().dtype()),
        is_causal_(node.attrs[0].boolean()),
        scale_(static_cast<float>(node.attrs[1].real() * 1.4426950408889634)) {
    const Shape& query = graph.TypeOf(node.inputs[0]);
    const Shape& key = graph.TypeOf(node.inputs[1]);
    width_ = query.size(query.rank() - 1);
    queries_ = query.size(query.rank() - 2);
    keys_ = key.size(key.rank() - 2);
    batch_ = query.numel() / (width_ * queries_);
  }

  std::vector<KernelSource> Sources() const override {
    std::string seen =
        is_causal_ ? "column < count && column <= first + i / 2 * 8" : "column < count";
    std::string end = is_causal_ ? "count < ((int)blockIdx.x + 1) * 64 ? count : "
                                   "((int)blockIdx.x + 1) * 64"
                                 : "count";
    return {BlockKernel(9, fmt::format(fmt::runtime(kFunctions), NameOf(dtype_)),
                        fmt::format(fmt::runtime(kBody), width_, end, "(" + seen + ")"))};
  }
  void Run(Machine& machine, const Operands& operands) const override {
    Grid grid = {.x = static_cast<unsigned>((queries_ + kQueries - 1) / kQueries),
                 .y = static_cast<unsigned>(batch_),
                 .block_x = 128};
    uint32_t scale = 0;
    std::memcpy(&scale, &scale_, sizeof scale);
    machine.Launch(function(0), grid,
                   std::vector<uint64_t>{WordOf(batch_), operands.in[0], operands.in[1],
                                         operands.in[2], operands.out[0], operands.out[1],
                                         WordOf(queries_), WordOf(keys_), scale});
  }

 private:
  DType dtype_;
  bool is_causal_;
  float scale_;
  int64_t width_, queries_, keys_, batch_;
};

constexpr CallEntry kCalls[] = {{&ops::kAttention, MakeNode<AttentionCall>}};

}  // namespace

std::span<const CallEntry> AttentionCalls() { return kCalls; }

}  // namespace hammock::cuda
