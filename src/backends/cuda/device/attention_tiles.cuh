#pragma once
// Matmuls of tiles for kernels of attention.
//
// Note [Tiles of attention]
// A warp multiplies from fragments that its lanes hold: lane l has rows l / 4 and l / 4 + 8, and
// columns 2 (l % 4) and the next, of each tile of 16 by 8. Fragments of results have the layout of
// fragments of operands, so scores, rounded to the operands' dtype, are operands of the next
// matmul. The operand that all warps of a block share is loaded into shared memory, one tile ahead
// of its use; rows there are padded by 16 bytes beyond a multiple of 128, so that eight rows use
// all banks.
//
// Note [Asynchronous matmuls]
// Hopper's tensor cores also multiply for four warps at once, 64 rows, and read the second operand
// from shared memory themselves. Rows of a tile are 128 bytes then, and the 16 bytes with number i
// of row r are at position i ^ r % 8; wider tiles are several such tiles, one after another.
//
// Note [Overlapped matmuls]
// While a block works on the scores of one tile, the tensor cores multiply what it made of the tile
// before: the matmuls of both are issued together, and the former is waited for first. Registers of
// operands may only be written while nothing is multiplied, or the compiler lets all matmuls wait
// for each other.
//
// `Kind` has:
//   Narrow                  F16 or Bf16
//   kThreads                of a block
//   kWidth                  of rows
//   kTiles                  tiles of 16 rows that each warp holds
//   kOthers, kPart          rows of a tile in shared memory, and those that are multiplied at once
//   kAsync                  Note [Asynchronous matmuls]
//   kMask, kCausal

#include "backends/cuda/device/attention_args.h"
#include "backends/cuda/device/narrow.cuh"

namespace hammock::cuda {

// The score of a key that is never chosen.
__device__ __forceinline__ float never() { return __int_as_float(0xff800000); }

#if HAMMOCK_PTX
__device__ __forceinline__ unsigned shared_address(const unsigned short* at, int pitch) {
  const int lane = threadIdx.x % 32;
  return (unsigned)__cvta_generic_to_shared(at + lane % 16 * pitch + lane / 16 * 8);
}
// Four tiles of 8 by 8 of 16 rows: the upper left, the lower left, the upper right, the lower
// right.
__device__ __forceinline__ void load_tiles(const unsigned short* at, int pitch, unsigned* b) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
               : "r"(shared_address(at, pitch)));
}
// Each of them transposed.
__device__ __forceinline__ void load_transposed(const unsigned short* at, int pitch, unsigned* b) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
               : "r"(shared_address(at, pitch)));
}
// Copies into shared memory that have ended after finish_copies; zeros where there is nothing.
__device__ __forceinline__ void copy_words(void* to, const void* from, bool inside) {
  asm volatile(
      "cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((unsigned)__cvta_generic_to_shared(to)),
      "l"(from), "r"(inside ? 16 : 0)
      : "memory");
}
__device__ __forceinline__ void copy_float(float* to, const float* from, bool inside) {
  asm volatile(
      "cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"((unsigned)__cvta_generic_to_shared(to)),
      "l"(from), "r"(inside ? 4 : 0)
      : "memory");
}
__device__ __forceinline__ void finish_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }
__device__ __forceinline__ float power_of_two(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
#else
__device__ inline void load_tiles(const unsigned short* at, int pitch, unsigned* b) {
  const int lane = threadIdx.x % 32;
  for (int i = 0; i < 4; ++i) {
    const unsigned short* from = at + (i % 2 * 8 + lane / 4) * pitch + i / 2 * 8 + lane % 4 * 2;
    b[i] = from[0] | (unsigned)from[1] << 16;
  }
}
__device__ inline void load_transposed(const unsigned short* at, int pitch, unsigned* b) {
  const int lane = threadIdx.x % 32;
  for (int i = 0; i < 4; ++i) {
    const unsigned short* from = at + (i % 2 * 8 + lane % 4 * 2) * pitch + i / 2 * 8 + lane / 4;
    b[i] = from[0] | (unsigned)from[pitch] << 16;
  }
}
__device__ inline void copy_words(void* to, const void* from, bool inside) {
  Words<16> none = {};
  *(Words<16>*)to = inside ? *(const Words<16>*)from : none;
}
__device__ inline void copy_float(float* to, const float* from, bool inside) {
  *to = inside ? *from : 0;
}
__device__ inline void finish_copies() {}
__device__ inline float power_of_two(float x) { return exp2f(x); }
#endif

// Rows of one matrix of a stack.
struct Matrix {
  unsigned short* at;
  int64_t stride;
};
__device__ __forceinline__ Matrix matrix_of(const RowArgs& rows, int inner_count) {
  const int batch = blockIdx.y;
  return {rows.at + batch / inner_count * rows.outer + batch % inner_count * rows.inner, rows.row};
}
// Fragments of kTiles times 16 rows, `row` being the lane's first one.
template <int kTiles, int kSteps>
__device__ __forceinline__ void load_operand(unsigned (&a)[kTiles][kSteps][4], const Matrix& from,
                                             int row, int count) {
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
// The mask of one matrix of scores. kMask: 1 for a boolean one, 2 or 3 if it is added and has the
// operands' dtype or f32.
struct Mask {
  const char* at;
  int64_t row, column;
  float inverse;
};
template <int kMask>
__device__ __forceinline__ Mask mask_of(const MaskArgs& mask, int inner_count) {
  const int batch = blockIdx.y;
  const int64_t offset = batch / inner_count * mask.outer + batch % inner_count * mask.inner;
  return {(const char*)mask.at + offset * (kMask == 1   ? 1
                                           : kMask == 2 ? 2
                                                        : 4),
          mask.row, mask.column, mask.inverse};
}
template <class Narrow, int kMask>
__device__ __forceinline__ float masked(float score, const Mask& mask, int row, int column) {
  const int64_t offset = row * mask.row + column * mask.column;
  if (kMask == 1) return ((const unsigned char*)mask.at)[offset] ? score : never();
  const float add = kMask == 2 ? Narrow::from(((const unsigned short*)mask.at)[offset])
                               : ((const float*)mask.at)[offset];
  return score + add * mask.inverse;
}
// Rounds a result, which is an operand then.
template <class Narrow, int kTiles, int kColumns>
__device__ __forceinline__ void round_operand(unsigned (&a)[kTiles][kColumns / 2][4],
                                              const float (&s)[kTiles][kColumns][4]) {
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
#pragma unroll
    for (int n = 0; n < kColumns; ++n) {
      a[t][n / 2][n % 2 * 2] = Narrow::pair(s[t][n][0], s[t][n][1]);
      a[t][n / 2][n % 2 * 2 + 1] = Narrow::pair(s[t][n][2], s[t][n][3]);
    }
  }
}
// Two 16-bit floats, with -0 as 0.
__device__ __forceinline__ unsigned plus_zero(unsigned pair) {
  if ((pair & 0x7fff) == 0) pair &= ~0x8000u;
  if ((pair & 0x7fff0000) == 0) pair &= 0x7fffffff;
  return pair;
}
// The row that is 8 `r` after the lane's first one, times `scale`.
template <class Narrow, bool kPlusZero = false, int kColumns>
__device__ __forceinline__ void store_row(const Matrix& to, int row, const float (&d)[kColumns][4],
                                          int r, float scale) {
#pragma unroll
  for (int n = 0; n < kColumns; ++n) {
    const unsigned pair = Narrow::pair(d[n][2 * r] * scale, d[n][2 * r + 1] * scale);
    ((unsigned*)(to.at + row * to.stride))[n * 4 + threadIdx.x % 4] =
        kPlusZero ? plus_zero(pair) : pair;
  }
}

// Matmuls by a single warp, which waits for them.
template <class Kind>
struct WarpTiles {
  using Narrow = typename Kind::Narrow;

  template <int kRows, int kWidth>
  static __device__ constexpr int tile_size() {
    return kRows * (kWidth + 8);
  }
  // Copied tiles may be multiplied after the next barrier.
  static __device__ __forceinline__ void show_tiles() {}
  // Matmuls are issued between `begin` and `start`, or `finish`, which waits for all of them. Until
  // then their operands and results must not be touched.
  static __device__ __forceinline__ void begin_products() {}
  static __device__ __forceinline__ void start_products() {}
  static __device__ __forceinline__ void finish_products() {}
  // The rows of a tile from `first` on, a multiple of 16.
  template <int kWidth, class T>
  static __device__ __forceinline__ T* part_of(T* tile, int first) {
    return tile + first * (kWidth + 8);
  }
  // Copies a tile of kRows rows of a matrix, by all threads; rows from `count` on become 0.
  template <int kRows, int kWidth>
  static __device__ __forceinline__ void copy_tile(unsigned short* to, const Matrix& from,
                                                   int first, int count) {
    constexpr int kParts = kWidth / 8;
#pragma unroll
    for (int i = threadIdx.x; i < kRows * kParts; i += Kind::kThreads) {
      const int row = i / kParts, column = i % kParts * 8;
      const bool inside = first + row < count;
      copy_words(to + row * (kWidth + 8) + column,
                 from.at + (inside ? (first + row) * from.stride + column : 0), inside);
    }
  }
  // d += a * b, where rows of `at` are the columns of b.
  template <int kRows, int kTiles, int kColumns, int kSteps>
  static __device__ __forceinline__ void ask_rows(float (&d)[kTiles][kColumns][4],
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
          Narrow::multiply_add(d[t][n], a[t][k], b[0], b[2]);
          Narrow::multiply_add(d[t][n + 1], a[t][k], b[1], b[3]);
        }
      }
    }
  }
  // d += a * b, where rows of `at` are the rows of b.
  template <int kRows, int kTiles, int kColumns, int kSteps>
  static __device__ __forceinline__ void ask_columns(float (&d)[kTiles][kColumns][4],
                                                     const unsigned (&a)[kTiles][kSteps][4],
                                                     const unsigned short* at) {
    constexpr int kPitch = kColumns * 8 + 8;
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
#pragma unroll
      for (int n = 0; n < kColumns; n += 2) {
        unsigned b[4];
        load_transposed(at + k * 16 * kPitch + n * 8, kPitch, b);
#pragma unroll
        for (int t = 0; t < kTiles; ++t) {
          Narrow::multiply_add(d[t][n], a[t][k], b[0], b[1]);
          Narrow::multiply_add(d[t][n + 1], a[t][k], b[2], b[3]);
        }
      }
    }
  }
};

// Matmuls that four warps issue together.
template <class Kind>
struct AsyncTiles {
  using Narrow = typename Kind::Narrow;

  template <int kRows, int kWidth>
  static __device__ constexpr int tile_size() {
    return kRows * kWidth;
  }
  static __device__ __forceinline__ void show_tiles() {
#if HAMMOCK_PTX
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
  }
  template <int kWidth, class T>
  static __device__ __forceinline__ T* part_of(T* tile, int first) {
    return tile + first * 64;
  }
  // The index of an element of a tile.
  template <int kRows>
  static __device__ __forceinline__ int index_of(int row, int column) {
    return (column / 64 * kRows + row) * 64 + (column / 8 % 8 ^ row % 8) * 8 + column % 8;
  }
  // Threads copy every kApart-th row, which is at the same position among 8 rows.
  template <int kRows, int kWidth>
  static __device__ __forceinline__ void copy_tile(unsigned short* to, const Matrix& from,
                                                   int first, int count) {
    constexpr int kParts = kWidth / 8, kApart = Kind::kThreads / kParts;
    static_assert(kApart % 8 == 0);
    const int row = threadIdx.x / kParts, column = threadIdx.x % kParts * 8;
    unsigned short* const target = to + index_of<kRows>(row, column);
    const unsigned short* const at = from.at + (first + row) * from.stride + column;
#pragma unroll
    for (int i = 0; i < kRows; i += kApart) {
      if (i + kApart > kRows && row + i >= kRows) break;
      copy_words(target + i * 64, at + i * from.stride, first + row + i < count);
    }
  }
#if HAMMOCK_PTX
  // The descriptor of a tile at `at`: groups of 8 rows are 1024 bytes apart, groups of 64 columns
  // `apart` bytes.
  static __device__ __forceinline__ uint64_t tile_words(const unsigned short* at, int apart) {
    const unsigned address = (unsigned)__cvta_generic_to_shared(at);
    return (uint64_t)((address & 0x3ffff) >> 4) | (uint64_t)(apart >> 4) << 16 | 64ull << 32 |
           1ull << 62;
  }
  static __device__ __forceinline__ void begin_products() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  }
  static __device__ __forceinline__ void start_products() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  }
  static __device__ __forceinline__ void finish_products() {
    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
  }
  template <int kTiles, int kColumns>
  static __device__ __forceinline__ void finish_products(float (&d)[kTiles][kColumns][4]) {
    finish_products();
    hold(d);
  }
  // Waits for all matmuls but those of the last start_products; `d`, a result, may be read then.
  template <int kTiles, int kColumns>
  static __device__ __forceinline__ void finish_earlier(float (&d)[kTiles][kColumns][4]) {
    asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
    hold(d);
  }
  // Keeps reads of `d` behind this line.
  template <int kTiles, int kColumns>
  static __device__ __forceinline__ void hold(float (&d)[kTiles][kColumns][4]) {
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
#pragma unroll
      for (int n = 0; n < kColumns; ++n) {
        asm volatile("" : "+f"(d[t][n][0]), "+f"(d[t][n][1]), "+f"(d[t][n][2]), "+f"(d[t][n][3]));
      }
    }
  }
  // d = a * b, where rows of `at` are the columns of b.
  template <int kRows, int kTiles, int kColumns, int kSteps>
  static __device__ __forceinline__ void ask_fresh_rows(float (&d)[kTiles][kColumns][4],
                                                        const unsigned (&a)[kTiles][kSteps][4],
                                                        const unsigned short* at) {
    Narrow::template add_product<0, 0>(d[0], a[0][0], tile_words(at, 0));
#pragma unroll
    for (int k = 1; k < kSteps; ++k) {
      Narrow::template add_product<0, 1>(d[0], a[0][k],
                                         tile_words(at + k / 4 * kRows * 64 + k % 4 * 16, 0));
    }
  }
  template <int kRows, int kTiles, int kColumns, int kSteps>
  static __device__ __forceinline__ void ask_rows(float (&d)[kTiles][kColumns][4],
                                                  const unsigned (&a)[kTiles][kSteps][4],
                                                  const unsigned short* at) {
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
      Narrow::template add_product<0, 1>(d[0], a[0][k],
                                         tile_words(at + k / 4 * kRows * 64 + k % 4 * 16, 0));
    }
  }
  template <int kRows, int kTiles, int kColumns, int kSteps>
  static __device__ __forceinline__ void ask_columns(float (&d)[kTiles][kColumns][4],
                                                     const unsigned (&a)[kTiles][kSteps][4],
                                                     const unsigned short* at) {
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
      Narrow::template add_product<1, 1>(d[0], a[0][k], tile_words(at + k * 16 * 64, kRows * 128));
    }
  }
#else
  static __device__ void begin_products() {}
  static __device__ void start_products() {}
  static __device__ void finish_products() {}
  template <class Result>
  static __device__ void finish_products(Result&) {}
  template <class Result>
  static __device__ void finish_earlier(Result&) {}
  template <class Result>
  static __device__ void hold(Result&) {}
  template <int kRows, int kTiles, int kColumns, int kSteps>
  static __device__ void ask_fresh_rows(float (&d)[kTiles][kColumns][4],
                                        const unsigned (&a)[kTiles][kSteps][4],
                                        const unsigned short* at) {
    clear(d);
    ask_rows<kRows>(d, a, at);
  }
  template <int kRows, int kTiles, int kColumns, int kSteps>
  static __device__ void ask_rows(float (&d)[kTiles][kColumns][4],
                                  const unsigned (&a)[kTiles][kSteps][4],
                                  const unsigned short* at) {
    const int lane = threadIdx.x % 32;
    for (int n = 0; n < kColumns; ++n) {
      for (int k = 0; k < kSteps; ++k) {
        unsigned b[2];
        for (int i = 0; i < 2; ++i) {
          const unsigned short* from =
              at + index_of<kRows>(n * 8 + lane / 4, k * 16 + i * 8 + lane % 4 * 2);
          b[i] = from[0] | (unsigned)from[1] << 16;
        }
        Narrow::multiply_add(d[0][n], a[0][k], b[0], b[1]);
      }
    }
  }
  template <int kRows, int kTiles, int kColumns, int kSteps>
  static __device__ void ask_columns(float (&d)[kTiles][kColumns][4],
                                     const unsigned (&a)[kTiles][kSteps][4],
                                     const unsigned short* at) {
    const int lane = threadIdx.x % 32;
    for (int k = 0; k < kSteps; ++k) {
      for (int n = 0; n < kColumns; ++n) {
        unsigned b[2];
        for (int i = 0; i < 2; ++i) {
          const int row = k * 16 + i * 8 + lane % 4 * 2, column = n * 8 + lane / 4;
          b[i] = at[index_of<kRows>(row, column)] | (unsigned)at[index_of<kRows>(row + 1, column)]
                                                        << 16;
        }
        Narrow::multiply_add(d[0][n], a[0][k], b[0], b[1]);
      }
    }
  }
#endif
};

// Copied tiles may be multiplied by the block's warps after this.
template <class Tiles>
__device__ __forceinline__ void show_copies() {
  finish_copies();
  Tiles::show_tiles();
  __syncthreads();
}

template <class Kind>
using TilesOf = typename Either<Kind::kAsync, AsyncTiles<Kind>, WarpTiles<Kind>>::Type;

}  // namespace hammock::cuda
