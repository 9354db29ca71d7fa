#include "backends/cuda/calls/attention_text.h"

#include <fmt/format.h>

#include <cstring>

#include "backends/cuda/calls/call_kit.h"

namespace hammock::cuda {
namespace {

/// Functions in PTX, and their plain variants for emulation.
constexpr const char* kInstructions = R"(
__device__ __forceinline__ float from_narrow(unsigned short x) {{ return from_{0}(x); }}
#if HAMMOCK_PTX
__device__ __forceinline__ void multiply_add(float* d, const unsigned* a, unsigned b0, unsigned b1) {{
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.{0}.{0}.f32 {{%0,%1,%2,%3}}, {{%4,%5,%6,%7}}, "
      "{{%8,%9}}, {{%0,%1,%2,%3}};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}}
__device__ __forceinline__ unsigned shared_place(const unsigned short* at, int pitch) {{
  const int lane = threadIdx.x % 32;
  return (unsigned)__cvta_generic_to_shared(at + lane % 16 * pitch + lane / 16 * 8);
}}
// Four tiles of 8 by 8 of 16 rows: the upper left, the lower left, the upper right, the lower right.
__device__ __forceinline__ void load_tiles(const unsigned short* at, int pitch, unsigned* b) {{
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%0,%1,%2,%3}}, [%4];"
               : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3]) : "r"(shared_place(at, pitch)));
}}
// Each of them transposed.
__device__ __forceinline__ void load_turned(const unsigned short* at, int pitch, unsigned* b) {{
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {{%0,%1,%2,%3}}, [%4];"
               : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3]) : "r"(shared_place(at, pitch)));
}}
// Copies into shared memory that have ended after finish_copies; zeros where there is nothing.
__device__ __forceinline__ void copy_words(void* to, const void* from, bool inside) {{
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::
               "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from), "r"(inside ? 16 : 0)
               : "memory");
}}
__device__ __forceinline__ void copy_float(float* to, const float* from, bool inside) {{
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::
               "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from), "r"(inside ? 4 : 0)
               : "memory");
}}
__device__ __forceinline__ void finish_copies() {{
  asm volatile("cp.async.wait_all;" ::: "memory");
}}
__device__ __forceinline__ unsigned pair_of(float low, float high) {{
  unsigned pair;
  asm("cvt.rn.{0}x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}}
__device__ __forceinline__ float power_of_two(float x) {{
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
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
      rows[i] = __shfl_sync(0xffffffffu, a[i + k / 8 * 2], lane / 4 * 4 + k % 8 / 2, 32);
      columns[i] = __shfl_sync(0xffffffffu, k < 8 ? b0 : b1, (lane % 4 * 2 + i) * 4 + k % 8 / 2, 32);
    }}
    for (int i = 0; i < 4; ++i) {{
      d[i] += half_of(rows[i / 2], 0) * half_of(columns[i % 2], 0);
      d[i] += half_of(rows[i / 2], 1) * half_of(columns[i % 2], 1);
    }}
  }}
}}
__device__ inline void load_tiles(const unsigned short* at, int pitch, unsigned* b) {{
  const int lane = threadIdx.x % 32;
  for (int i = 0; i < 4; ++i) {{
    const unsigned short* from = at + (i % 2 * 8 + lane / 4) * pitch + i / 2 * 8 + lane % 4 * 2;
    b[i] = from[0] | (unsigned)from[1] << 16;
  }}
}}
__device__ inline void load_turned(const unsigned short* at, int pitch, unsigned* b) {{
  const int lane = threadIdx.x % 32;
  for (int i = 0; i < 4; ++i) {{
    const unsigned short* from = at + (i % 2 * 8 + lane % 4 * 2) * pitch + i / 2 * 8 + lane / 4;
    b[i] = from[0] | (unsigned)from[pitch] << 16;
  }}
}}
__device__ inline void copy_words(void* to, const void* from, bool inside) {{
  Words<16> none = {{}};
  *(Words<16>*)to = inside ? *(const Words<16>*)from : none;
}}
__device__ inline void copy_float(float* to, const float* from, bool inside) {{
  *to = inside ? *from : 0;
}}
__device__ inline void finish_copies() {{}}
__device__ inline unsigned pair_of(float low, float high) {{
  return to_{0}(low) | (unsigned)to_{0}(high) << 16;
}}
__device__ inline float power_of_two(float x) {{ return exp2f(x); }}
#endif
)";

constexpr const char* kCommon = R"(
// Rows of one matrix of a stack.
struct Matrix {
  const unsigned short* at;
  long long stride;
};
__device__ __forceinline__ Matrix matrix_of(unsigned long long at, unsigned long long outer,
                                            unsigned long long inner, unsigned long long row,
                                            int inner_count) {
  const int batch = blockIdx.y;
  return {(const unsigned short*)at + batch / inner_count * (long long)outer +
              batch % inner_count * (long long)inner,
          (long long)row};
}
// Fragments of kTiles times 16 rows, `row` being the lane's first one.
template <int kTiles, int kSteps>
__device__ __forceinline__ void load_operand(unsigned (&a)[kTiles][kSteps][4],
                                             const Matrix& from, int row, int count) {
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int at = row + t * 16 + i % 2 * 8;
        const int column = k * 16 + i / 2 * 8 + threadIdx.x % 4 * 2;
        a[t][k][i] = at < count ? *(const unsigned*)(from.at + at * from.stride + column) : 0;
      }
    }
  }
}
template <int kTiles, int kColumns>
__device__ __forceinline__ void clear(float (&d)[kTiles][kColumns][4]) {
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
#pragma unroll
    for (int n = 0; n < kColumns; ++n) d[t][n][0] = d[t][n][1] = d[t][n][2] = d[t][n][3] = 0;
  }
}
// A score with a mask; `inverse` undoes the scale that all of it gets later.
struct Mask {
  unsigned long long at;
  long long row, column;
  float inverse;
};
__device__ __forceinline__ Mask mask_of(int kind, unsigned long long at, unsigned long long outer,
                                        unsigned long long inner, unsigned long long row,
                                        unsigned long long column, unsigned long long inverse,
                                        int inner_count) {
  const int batch = blockIdx.y;
  const long long place =
      batch / inner_count * (long long)outer + batch % inner_count * (long long)inner;
  return {at + place * (kind == 1 ? 1 : kind == 2 ? 2 : 4), (long long)row, (long long)column,
          __int_as_float((int)inverse)};
}
template <int kMask>
__device__ __forceinline__ float masked(float score, const Mask& mask, int row, int column) {
  const long long place = row * mask.row + column * mask.column;
  if (kMask == 1) {
    return ((const unsigned char*)mask.at)[place] ? score : __int_as_float(0xff800000);
  }
  const float add = kMask == 2 ? from_narrow(((const unsigned short*)mask.at)[place])
                               : ((const float*)mask.at)[place];
  return score + add * mask.inverse;
}
// Rounds a result, which is an operand then.
template <int kTiles, int kColumns>
__device__ __forceinline__ void round_operand(unsigned (&a)[kTiles][kColumns / 2][4],
                                              const float (&s)[kTiles][kColumns][4]) {
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
#pragma unroll
    for (int n = 0; n < kColumns; ++n) {
      a[t][n / 2][n % 2 * 2] = pair_of(s[t][n][0], s[t][n][1]);
      a[t][n / 2][n % 2 * 2 + 1] = pair_of(s[t][n][2], s[t][n][3]);
    }
  }
}
// The row that is 8 `r` after the lane's first one, times `scale`.
template <int kColumns>
__device__ __forceinline__ void store_row(const Matrix& to, int row, const float (&d)[kColumns][4],
                                          int r, float scale) {
#pragma unroll
  for (int n = 0; n < kColumns; ++n) {
    ((unsigned*)(to.at + row * to.stride))[n * 4 + threadIdx.x % 4] = pair_of(d[n][2 * r] * scale, d[n][2 * r + 1] * scale);
  }
}
)";

/// Matmuls by a single warp, which waits for them.
constexpr const char* kWarpTiles = R"(
template <int kRows, int kWidth>
__device__ constexpr int tile_size() {
  return kRows * (kWidth + 8);
}
// Copied tiles may be multiplied after the next barrier.
__device__ __forceinline__ void show_tiles() {}
// Matmuls are issued between `begin` and `start`, or `finish`, which waits for all of them. Until
// then their operands and results must not be touched.
__device__ __forceinline__ void begin_products() {}
__device__ __forceinline__ void start_products() {}
__device__ __forceinline__ void finish_products() {}
// The rows of a tile from `first` on, a multiple of 16.
template <int kWidth, class T>
__device__ __forceinline__ T* part_of(T* tile, int first) {
  return tile + first * (kWidth + 8);
}
// Copies a tile of kRows rows of a matrix, by all threads; rows from `count` on become 0.
template <int kRows, int kWidth>
__device__ __forceinline__ void copy_tile(unsigned short* to, const Matrix& from, int first,
                                          int count) {
  constexpr int kParts = kWidth / 8;
#pragma unroll
  for (int i = threadIdx.x; i < kRows * kParts; i += kThreads) {
    const int row = i / kParts, column = i % kParts * 8;
    const bool inside = first + row < count;
    copy_words(to + row * (kWidth + 8) + column,
               from.at + (inside ? (first + row) * from.stride + column : 0), inside);
  }
}
// d += a * b, where rows of `at` are the columns of b.
template <int kRows, int kTiles, int kColumns, int kSteps>
__device__ __forceinline__ void ask_rows(float (&d)[kTiles][kColumns][4],
                                              const unsigned (&a)[kTiles][kSteps][4],
                                              const unsigned short* at) {
  constexpr int kPitch = kSteps * 16 + 8;
#pragma unroll
  for (int n = 0; n < kColumns; n += 2) {
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
      unsigned b[4];
      load_tiles(at + n * 8 * kPitch + k * 16, kPitch, b);
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
        multiply_add(d[t][n], a[t][k], b[0], b[2]);
        multiply_add(d[t][n + 1], a[t][k], b[1], b[3]);
      }
    }
  }
}
// d += a * b, where rows of `at` are the rows of b.
template <int kRows, int kTiles, int kColumns, int kSteps>
__device__ __forceinline__ void ask_columns(float (&d)[kTiles][kColumns][4],
                                                 const unsigned (&a)[kTiles][kSteps][4],
                                                 const unsigned short* at) {
  constexpr int kPitch = kColumns * 8 + 8;
#pragma unroll
  for (int k = 0; k < kSteps; ++k) {
#pragma unroll
    for (int n = 0; n < kColumns; n += 2) {
      unsigned b[4];
      load_turned(at + k * 16 * kPitch + n * 8, kPitch, b);
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
        multiply_add(d[t][n], a[t][k], b[0], b[1]);
        multiply_add(d[t][n + 1], a[t][k], b[2], b[3]);
      }
    }
  }
}
)";

/// Matmuls that four warps issue together, Note [Asynchronous matmuls].
constexpr const char* kAsyncTiles = R"(
template <int kRows, int kWidth>
__device__ constexpr int tile_size() {
  return kRows * kWidth;
}
__device__ __forceinline__ void show_tiles() {
#if HAMMOCK_PTX
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}
template <int kWidth, class T>
__device__ __forceinline__ T* part_of(T* tile, int first) {
  return tile + first * 64;
}
// The index of an element of a tile.
template <int kRows>
__device__ __forceinline__ int place_of(int row, int column) {
  return (column / 64 * kRows + row) * 64 + (column / 8 % 8 ^ row % 8) * 8 + column % 8;
}
template <int kRows, int kWidth>
__device__ __forceinline__ void copy_tile(unsigned short* to, const Matrix& from, int first,
                                          int count) {
  constexpr int kParts = kWidth / 8;
#pragma unroll
  for (int i = threadIdx.x; i < kRows * kParts; i += kThreads) {
    const int row = i / kParts, column = i % kParts * 8;
    const bool inside = first + row < count;
    copy_words(to + place_of<kRows>(row, column),
               from.at + (inside ? (first + row) * from.stride + column : 0), inside);
  }
}
#if HAMMOCK_PTX
// The descriptor of a tile at `at`: groups of 8 rows are 1024 bytes apart, groups of 64 columns
// `apart` bytes.
__device__ __forceinline__ unsigned long long tile_words(const unsigned short* at, int apart) {
  const unsigned place = (unsigned)__cvta_generic_to_shared(at);
  return (unsigned long long)((place & 0x3ffff) >> 4) | (unsigned long long)(apart >> 4) << 16 |
         64ull << 32 | 1ull << 62;
}
__device__ __forceinline__ void begin_products() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void start_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void finish_products() {
  asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
}
template <int kRows, int kTiles, int kColumns, int kSteps>
__device__ __forceinline__ void ask_rows(float (&d)[kTiles][kColumns][4],
                                              const unsigned (&a)[kTiles][kSteps][4],
                                              const unsigned short* at) {
#pragma unroll
  for (int k = 0; k < kSteps; ++k) {
    add_product<0>(d[0], a[0][k], tile_words(at + k / 4 * kRows * 64 + k % 4 * 16, 0));
  }
}
template <int kRows, int kTiles, int kColumns, int kSteps>
__device__ __forceinline__ void ask_columns(float (&d)[kTiles][kColumns][4],
                                                 const unsigned (&a)[kTiles][kSteps][4],
                                                 const unsigned short* at) {
#pragma unroll
  for (int k = 0; k < kSteps; ++k) {
    add_product<1>(d[0], a[0][k], tile_words(at + k * 16 * 64, kRows * 128));
  }
}
#else
__device__ inline void begin_products() {}
__device__ inline void start_products() {}
__device__ inline void finish_products() {}
template <int kRows, int kTiles, int kColumns, int kSteps>
__device__ inline void ask_rows(float (&d)[kTiles][kColumns][4],
                                     const unsigned (&a)[kTiles][kSteps][4],
                                     const unsigned short* at) {
  const int lane = threadIdx.x % 32;
  for (int n = 0; n < kColumns; ++n) {
    for (int k = 0; k < kSteps; ++k) {
      unsigned b[2];
      for (int i = 0; i < 2; ++i) {
        const unsigned short* from =
            at + place_of<kRows>(n * 8 + lane / 4, k * 16 + i * 8 + lane % 4 * 2);
        b[i] = from[0] | (unsigned)from[1] << 16;
      }
      multiply_add(d[0][n], a[0][k], b[0], b[1]);
    }
  }
}
template <int kRows, int kTiles, int kColumns, int kSteps>
__device__ inline void ask_columns(float (&d)[kTiles][kColumns][4],
                                        const unsigned (&a)[kTiles][kSteps][4],
                                        const unsigned short* at) {
  const int lane = threadIdx.x % 32;
  for (int k = 0; k < kSteps; ++k) {
    for (int n = 0; n < kColumns; ++n) {
      unsigned b[2];
      for (int i = 0; i < 2; ++i) {
        const int row = k * 16 + i * 8 + lane % 4 * 2, column = n * 8 + lane / 4;
        b[i] = at[place_of<kRows>(row, column)] |
               (unsigned)at[place_of<kRows>(row + 1, column)] << 16;
      }
      multiply_add(d[0][n], a[0][k], b[0], b[1]);
    }
  }
}
#endif
)";

/// The instruction for results with so many columns: d += a * b.
std::string AsyncMatMul(DType dtype, int columns) {
  std::string registers, operands;
  for (int i = 0; i < columns / 2; ++i) {
    registers += fmt::format("{}%{}", i == 0 ? "" : ",", i);
    operands += fmt::format("{}\"+f\"(d[{}][{}])", i == 0 ? "" : ", ", i / 4, i % 4);
  }
  const int next = columns / 2;
  return fmt::format(R"(
template <int kTurned>
__device__ __forceinline__ void add_product(float (&d)[{0}][4], const unsigned (&a)[4],
                                            unsigned long long b) {{
  asm volatile(
      "{{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n{1}k16.f32.{2}.{2} {{{3}}}, {{%{4},%{5},%{6},%{7}}}, "
      "%{8}, p, 1, 1, %{9};\n}}\n"
      : {10}
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(kTurned));
}}
)",
                     columns / 8, columns, NameOf(dtype), registers, next, next + 1, next + 2,
                     next + 3, next + 4, next + 5, operands);
}

}  // namespace

std::string AttentionFunctions(DType dtype, int threads, const std::set<int>& async_columns) {
  std::string text = fmt::format("constexpr int kThreads = {};\n", threads) +
                     fmt::format(fmt::runtime(kInstructions), NameOf(dtype)) + kCommon;
  if (async_columns.empty()) return text + kWarpTiles;
  text += "#if HAMMOCK_PTX\n";
  for (int columns : async_columns) text += AsyncMatMul(dtype, columns);
  return text + "#endif\n" + kAsyncTiles;
}

AttentionKernels::AttentionKernels(const GraphNode& node, const Machine& machine)
    : sizes_(SizesOf(node)),
      dtype_(node.type().dtype()),
      is_causal_(node.attrs[0].boolean()),
      scale_(node.attrs[1].real()),
      mask_(MaskOf(node)),
      is_async_(machine.has_async_matmuls() && sizes_.width % 64 == 0) {}

KernelSource AttentionKernels::Kernel(int arguments, const AttentionTiling& tiling,
                                      const std::string& functions, const std::string& body) const {
  std::set<int> async_columns;
  if (tiling.is_async) async_columns = {tiling.part, static_cast<int>(sizes_.width)};
  std::string numbers = fmt::format(
      "  constexpr int kWidth = {}, kTiles = {}, kOthers = {}, kPart = {}, kMask = {};\n"
      "  constexpr bool kCausal = {};\n",
      sizes_.width, tiling.tiles, tiling.others, tiling.part, mask_.kind, is_causal_);
  return BlockKernel(arguments,
                     AttentionFunctions(dtype_, tiling.threads, async_columns) + functions,
                     numbers + body, tiling.blocks, tiling.threads);
}

Grid AttentionKernels::GridFor(int64_t rows, const AttentionTiling& tiling) const {
  return {.x = static_cast<unsigned>((rows + tiling.rows() - 1) / tiling.rows()),
          .y = static_cast<unsigned>(sizes_.batch()),
          .block_x = static_cast<unsigned>(tiling.threads)};
}

std::vector<uint64_t> ArgumentsOf(const RowLayout& rows) {
  return {static_cast<uint64_t>(rows.outer), static_cast<uint64_t>(rows.inner),
          static_cast<uint64_t>(rows.row)};
}

std::vector<uint64_t> ArgumentsOf(const MaskLayout& mask, Address at, double scale) {
  auto stride = [](int64_t elements) { return static_cast<uint64_t>(elements); };
  return {at,
          stride(mask.outer),
          stride(mask.inner),
          stride(mask.row),
          stride(mask.column),
          FloatArgument(1 / scale)};
}

uint64_t FloatArgument(double value) {
  float narrow = static_cast<float>(value);
  uint32_t bits = 0;
  std::memcpy(&bits, &narrow, sizeof bits);
  return bits;
}

}  // namespace hammock::cuda
