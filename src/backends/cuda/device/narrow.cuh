#pragma once
// 16-bit floats, two in a word, and their matmuls by tensor cores.

#include "backends/cuda/device/kernel.cuh"

namespace hammock::cuda {

#if HAMMOCK_PTX
// d += a * b, by a warp: fragments as Note [Tiles of attention] says. And by four warps, Note
// [Asynchronous matmuls]: `b` is the descriptor of a tile in shared memory, of 8 rows of `d` each.
#define HAMMOCK_FOUR(n) "+f"(d[n][0]), "+f"(d[n][1]), "+f"(d[n][2]), "+f"(d[n][3])
#define HAMMOCK_EIGHT(n) HAMMOCK_FOUR(n), HAMMOCK_FOUR(n + 1)
#define HAMMOCK_MMA(type)                                                   \
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type       \
               ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" \
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])             \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1))
#define HAMMOCK_WGMMA(type, columns, registers, operands, adds, ...)                               \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " adds                                            \
               ", 0;\n"                                                                            \
               "wgmma.mma_async.sync.aligned.m64n" columns "k16.f32." type "." type " {" registers \
               "}, " operands ";\n}\n"                                                             \
               : __VA_ARGS__                                                                       \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(kTransposed), "n"(kAdds))
#define HAMMOCK_16 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define HAMMOCK_32 HAMMOCK_16 ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define HAMMOCK_64                                                                             \
  HAMMOCK_32                                                                                   \
  ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%" \
  "54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define HAMMOCK_MATMULS(type)                                                                   \
  static __device__ __forceinline__ void multiply_add(float* d, const unsigned* a, unsigned b0, \
                                                      unsigned b1) {                            \
    HAMMOCK_MMA(type);                                                                          \
  }                                                                                             \
  template <int kTransposed, int kAdds>                                                         \
  static __device__ __forceinline__ void add_product(float(&d)[4][4], const unsigned(&a)[4],    \
                                                     uint64_t b) {                              \
    HAMMOCK_WGMMA(type, "32", HAMMOCK_16, "{%16,%17,%18,%19}, %20, p, 1, 1, %21", "%22",        \
                  HAMMOCK_EIGHT(0), HAMMOCK_EIGHT(2));                                          \
  }                                                                                             \
  template <int kTransposed, int kAdds>                                                         \
  static __device__ __forceinline__ void add_product(float(&d)[8][4], const unsigned(&a)[4],    \
                                                     uint64_t b) {                              \
    HAMMOCK_WGMMA(type, "64", HAMMOCK_32, "{%32,%33,%34,%35}, %36, p, 1, 1, %37", "%38",        \
                  HAMMOCK_EIGHT(0), HAMMOCK_EIGHT(2), HAMMOCK_EIGHT(4), HAMMOCK_EIGHT(6));      \
  }                                                                                             \
  template <int kTransposed, int kAdds>                                                         \
  static __device__ __forceinline__ void add_product(float(&d)[16][4], const unsigned(&a)[4],   \
                                                     uint64_t b) {                              \
    HAMMOCK_WGMMA(type, "128", HAMMOCK_64, "{%64,%65,%66,%67}, %68, p, 1, 1, %69", "%70",       \
                  HAMMOCK_EIGHT(0), HAMMOCK_EIGHT(2), HAMMOCK_EIGHT(4), HAMMOCK_EIGHT(6),       \
                  HAMMOCK_EIGHT(8), HAMMOCK_EIGHT(10), HAMMOCK_EIGHT(12), HAMMOCK_EIGHT(14));   \
  }
#define HAMMOCK_PAIR(type)                                                       \
  static __device__ __forceinline__ unsigned pair(float low, float high) {       \
    unsigned both;                                                               \
    asm("cvt.rn." type "x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low)); \
    return both;                                                                 \
  }
#else
template <class Narrow>
__device__ inline float half_of(unsigned pair, int which) {
  return Narrow::from((unsigned short)(pair >> (16 * which)));
}
template <class Narrow>
__device__ inline void emulated_multiply_add(float* d, const unsigned* a, unsigned b0,
                                             unsigned b1) {
  const int lane = threadIdx.x % 32;
  for (int k = 0; k < 16; k += 2) {
    unsigned rows[2], columns[2];
    for (int i = 0; i < 2; ++i) {
      rows[i] = __shfl_sync(0xffffffffu, a[i + k / 8 * 2], lane / 4 * 4 + k % 8 / 2, 32);
      columns[i] =
          __shfl_sync(0xffffffffu, k < 8 ? b0 : b1, (lane % 4 * 2 + i) * 4 + k % 8 / 2, 32);
    }
    for (int i = 0; i < 4; ++i) {
      d[i] += half_of<Narrow>(rows[i / 2], 0) * half_of<Narrow>(columns[i % 2], 0);
      d[i] += half_of<Narrow>(rows[i / 2], 1) * half_of<Narrow>(columns[i % 2], 1);
    }
  }
}
#define HAMMOCK_MATMULS(type)                                                                  \
  static __device__ void multiply_add(float* d, const unsigned* a, unsigned b0, unsigned b1) { \
    emulated_multiply_add<Self>(d, a, b0, b1);                                                 \
  }
#define HAMMOCK_PAIR(type)                                 \
  static __device__ unsigned pair(float low, float high) { \
    return Self::to(low) | (unsigned)Self::to(high) << 16; \
  }
#endif

struct F16 {
  using Self = F16;
  static __device__ __forceinline__ float from(unsigned short x) { return from_f16(x); }
  static __device__ __forceinline__ unsigned short to(float x) { return to_f16(x); }
  HAMMOCK_PAIR("f16")
  HAMMOCK_MATMULS("f16")
};
struct Bf16 {
  using Self = Bf16;
  static __device__ __forceinline__ float from(unsigned short x) { return from_bf16(x); }
  static __device__ __forceinline__ unsigned short to(float x) { return to_bf16(x); }
  HAMMOCK_PAIR("bf16")
  HAMMOCK_MATMULS("bf16")
};

}  // namespace hammock::cuda
