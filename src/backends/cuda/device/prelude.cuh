#pragma once
// The beginning of all modules: conversions, wide loads and stores, exchange between threads.
// Inline PTX has a plain variant, which the emulation on the host runs.

using int64_t = long long;
using uint64_t = unsigned long long;
using uint32_t = unsigned int;

#ifdef __CUDACC__
#define HAMMOCK_PTX 1
#else
#define HAMMOCK_PTX 0
#endif

__device__ inline float from_bf16(unsigned short x) { return __int_as_float((int)x << 16); }
#if HAMMOCK_PTX
__device__ inline float from_f16(unsigned short x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
  return y;
}
__device__ inline unsigned short to_f16(float x) {
  unsigned short y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}
__device__ inline unsigned short to_bf16(float x) {
  unsigned short y;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}
#else
__device__ inline float from_f16(unsigned short x) {
  int size = (x & 0x7fff) << 13;
  int bits = __float_as_int(__int_as_float(size) * 0x1p112f);
  if (size >= 0x0f800000) bits = size | 0x7f800000;
  if (size > 0x0f800000) bits |= 0x00400000;
  return __int_as_float(bits | (x & 0x8000) << 16);
}
__device__ inline unsigned short to_f16(float x) {
  unsigned bits = (unsigned)__float_as_int(x);
  unsigned size = bits & 0x7fffffff;
  unsigned y = (size - 0x38000000 + 0xfff + ((size >> 13) & 1)) >> 13;
  if (size < 0x38800000) {
    y = (unsigned)__float_as_int(__int_as_float((int)size) + 0.5f) - 0x3f000000;
  }
  if (size >= 0x47800000) y = 0x7c00;
  if (size > 0x7f800000) y = 0x7e00;
  return (unsigned short)(y | ((bits >> 16) & 0x8000));
}
__device__ inline unsigned short to_bf16(float x) {
  unsigned bits = (unsigned)__float_as_int(x);
  if (x != x) return (unsigned short)(bits >> 16 | 0x40);
  return (unsigned short)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
#endif

// Note [Early launches]
// With cuda.early_launches, blocks of a kernel may be launched while the kernels before it end
// (programmatic dependent launches, from compute capability 9.0 on). So each kernel begins by
// waiting until these have ended and what they wrote is visible; then the next one may be launched
// in the same way. Every thread waits, therefore a kernel that has ended is behind all that are
// before it.
__device__ inline void wait_for_earlier_kernels() {
#if HAMMOCK_PTX && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Numbers that no long long holds, and NaN, become its smallest value.
__device__ inline long long to_i64(double x) {
  bool in_range = x >= -0x1p63 && x < 0x1p63;
  return in_range ? (long long)x : -0x7fffffffffffffffll - 1;
}
__device__ inline unsigned long long to_u64(double x) {
  if (x >= 0x1p63 && x < 0x1p64) return (unsigned long long)x;
  return (unsigned long long)to_i64(x);
}

// N elements that lie one after another, as few loads of up to 16 bytes.
template <int kBytes>
struct Words;
template <>
struct alignas(1) Words<1> {
  unsigned char x[1];
};
template <>
struct alignas(2) Words<2> {
  unsigned short x[1];
};
template <>
struct alignas(4) Words<4> {
  unsigned int x[1];
};
template <>
struct alignas(8) Words<8> {
  unsigned int x[2];
};
template <>
struct alignas(16) Words<16> {
  unsigned int x[4];
};

template <int N, class T>
__device__ inline void load_wide(const T* from, T* to) {
  constexpr int kBytes = N * (int)sizeof(T) < 16 ? N * (int)sizeof(T) : 16;
  constexpr int kEach = kBytes / (int)sizeof(T);
#pragma unroll
  for (int i = 0; i < N; i += kEach) {
    union {
      Words<kBytes> words;
      T elements[kEach];
    } part;
    part.words = *(const Words<kBytes>*)(from + i);
#pragma unroll
    for (int k = 0; k < kEach; ++k) to[i + k] = part.elements[k];
  }
}
template <int N, class T>
__device__ inline void store_wide(T* to, const T* from) {
  constexpr int kBytes = N * (int)sizeof(T) < 16 ? N * (int)sizeof(T) : 16;
  constexpr int kEach = kBytes / (int)sizeof(T);
#pragma unroll
  for (int i = 0; i < N; i += kEach) {
    union {
      Words<kBytes> words;
      T elements[kEach];
    } part;
#pragma unroll
    for (int k = 0; k < kEach; ++k) part.elements[k] = from[i + k];
    *(Words<kBytes>*)(to + i) = part.words;
  }
}
// The same for the first `count` of them, where the end is near.
template <int N, class T>
__device__ inline void load_some(const T* from, int count, T* to) {
  if (count >= N) return load_wide<N>(from, to);
#pragma unroll
  for (int i = 0; i < N; ++i) to[i] = i < count ? from[i] : T(0);
}
template <int N, class T>
__device__ inline void store_some(T* to, int count, const T* from) {
  if (count >= N) return store_wide<N>(to, from);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    if (i < count) to[i] = from[i];
  }
}
// Elements that lie `step` apart.
template <int N, class T, class I>
__device__ inline void load_apart(const T* from, I step, int count, T* to) {
#pragma unroll
  for (int i = 0; i < N; ++i) to[i] = i < count ? from[i * step] : T(0);
}
template <int N, class T, class I>
__device__ inline void store_apart(T* to, I step, int count, const T* from) {
#pragma unroll
  for (int i = 0; i < N; ++i) {
    if (i < count) to[i * step] = from[i];
  }
}

// Random words; src/ops/random/philox.h. `state` is the address of seed and offset.
__device__ inline void random_block(unsigned long long state, long long block, unsigned* to) {
  const unsigned long long seed = ((const unsigned long long*)state)[0];
  const unsigned long long position = ((const unsigned long long*)state)[1] + block;
  unsigned c0 = (unsigned)position, c1 = (unsigned)(position >> 32), c2 = 0, c3 = 0;
  unsigned k0 = (unsigned)seed, k1 = (unsigned)(seed >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const unsigned long long a = 0xD2511F53ull * c0, b = 0xCD9E8D57ull * c2;
    c0 = (unsigned)(b >> 32) ^ c1 ^ k0;
    c1 = (unsigned)b;
    c2 = (unsigned)(a >> 32) ^ c3 ^ k1;
    c3 = (unsigned)a;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  to[0] = c0;
  to[1] = c1;
  to[2] = c2;
  to[3] = c3;
}
// N words from `word` on, which is a multiple of four.
template <int N>
__device__ inline void random_blocks(unsigned long long state, long long word, unsigned* to) {
#pragma unroll
  for (int i = 0; i < N; i += 4) random_block(state, (word + i) / 4, to + i);
}
template <int N>
__device__ inline void random_words(unsigned long long state, long long word, unsigned* to) {
  constexpr int kBlocks = (N + 6) / 4;
  unsigned all[4 * kBlocks];
  random_blocks<4 * kBlocks>(state, word / 4 * 4, all);
  const int skipped = (int)(word % 4);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const unsigned front = skipped == 1 ? all[i + 1] : all[i];
    to[i] = skipped < 2 ? front : skipped == 2 ? all[i + 2] : all[i + 3];
  }
}

// Notes that element `position` of an operand holds a wrong index; the first one is kept.
__device__ inline void note_fault(unsigned long long at, long long position, long long index) {
  unsigned long long what = (unsigned long long)position << 32 | (unsigned)(int)index;
  atomicMax((unsigned long long*)at, ~what);
}

template <class T>
__device__ inline T shuffle_xor(T x, int mask) {
  return __shfl_xor_sync(0xffffffffu, x, mask);
}
template <>
__device__ inline bool shuffle_xor(bool x, int mask) {
  return __shfl_xor_sync(0xffffffffu, (int)x, mask) != 0;
}
template <class T>
__device__ inline T shuffle_up(T x, int lanes) {
  return __shfl_up_sync(0xffffffffu, x, lanes);
}
template <class T>
__device__ inline T shuffle_first(T x, int width) {
  return __shfl_sync(0xffffffffu, x, 0, width);
}
template <>
__device__ inline bool shuffle_first(bool x, int width) {
  return __shfl_sync(0xffffffffu, (int)x, 0, width) != 0;
}
