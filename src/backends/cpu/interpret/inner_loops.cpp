#include "backends/cpu/interpret/inner_loops.h"

#include "backends/cpu/host/cpu_features.h"

#include <cstring>
#include <type_traits>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace hammock::cpu {
namespace {

// One body for all processors: it is inlined into functions that are compiled for one of them.
#define HAMMOCK_BODY [[gnu::always_inline]] inline

template <class T, int kBytes>
struct VectorOf {
  typedef T Aligned __attribute__((vector_size(kBytes)));
  typedef T Type __attribute__((vector_size(kBytes), aligned(alignof(T)), may_alias));
  static constexpr int kLanes = kBytes / sizeof(T);
};

/// kRows rows of a tile of kVectors vectors.
template <class Sum, int kBytes, int kVectors, int kRows>
HAMMOCK_BODY void TileRows(int64_t k, const Sum* a, int64_t a_row, int64_t a_column, const Sum* b,
                           Sum* c) {
  using Vector = typename VectorOf<Sum, kBytes>::Aligned;
  using Loose = typename VectorOf<Sum, kBytes>::Type;
  constexpr int kLanes = VectorOf<Sum, kBytes>::kLanes;
  Vector sums[kRows][kVectors];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      sums[i][v] = *reinterpret_cast<const Loose*>(c + (i * kVectors + v) * kLanes);
    }
  }
  for (int64_t p = 0; p < k; ++p) {
    Vector right[kVectors];
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      right[v] = *reinterpret_cast<const Loose*>(b + (p * kVectors + v) * kLanes);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      Sum left = a[i * a_row + p * a_column];
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) sums[i][v] += left * right[v];
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      *reinterpret_cast<Loose*>(c + (i * kVectors + v) * kLanes) = sums[i][v];
    }
  }
}

template <class Sum, int kBytes, int kVectors>
HAMMOCK_BODY void Tile(int64_t rows, int64_t k, const Sum* a, int64_t a_row, int64_t a_column,
                       const Sum* b, Sum* c) {
  constexpr int kWidth = kVectors * VectorOf<Sum, kBytes>::kLanes;
  int64_t i = 0;
  for (; i + 6 <= rows; i += 6) {
    TileRows<Sum, kBytes, kVectors, 6>(k, a + i * a_row, a_row, a_column, b, c + i * kWidth);
  }
  for (; i + 2 <= rows; i += 2) {
    TileRows<Sum, kBytes, kVectors, 2>(k, a + i * a_row, a_row, a_column, b, c + i * kWidth);
  }
  if (i < rows) {
    TileRows<Sum, kBytes, kVectors, 1>(k, a + i * a_row, a_row, a_column, b, c + i * kWidth);
  }
}

/// Halves as floats.
template <int kBytes>
HAMMOCK_BODY void LoadHalves(const Half* from, typename VectorOf<float, kBytes>::Aligned& to) {
  using Halves = typename VectorOf<uint16_t, kBytes / 2>::Type;
  const Halves& halves = *reinterpret_cast<const Halves*>(from);
#if defined(__x86_64__)
  if constexpr (kBytes > 16) {  // the compiler has no conversion of vectors for it
    asm("vcvtph2ps %1, %0" : "=v"(to) : "m"(halves));
    return;
  }
#endif
  using Words = typename VectorOf<uint32_t, kBytes>::Aligned;
  constexpr uint32_t kExponent = 0x7c00 << 13, kBias = (127 - 15) << 23, kOne = 1 << 23;
  constexpr float kSmallest = 0x1p-14f;  // of the normal ones
  Words words = __builtin_convertvector(halves, Words);
  Words bits = ((words & 0x7fff) << 13) + kBias;
  Words exponent = (words << 13) & kExponent;
  bits += exponent == kExponent ? Words{} + kBias : Words{};  // infinities and NaN
  Words raised = bits + kOne;
  std::memcpy(&to, &raised, sizeof to);
  to -= kSmallest;
  std::memcpy(&raised, &to, sizeof raised);
  bits = (exponent == 0 ? raised : bits) | (words & 0x8000) << 16;
  std::memcpy(&to, &bits, sizeof to);
}

/// kLanes elements of memory, in the type that is computed in.
template <class T, class Sum, int kBytes>
HAMMOCK_BODY void LoadWide(const T* from, typename VectorOf<Sum, kBytes>::Aligned& to) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    constexpr int kLanes = VectorOf<Sum, kBytes>::kLanes;
    using Words = typename VectorOf<uint32_t, kBytes>::Aligned;
    using Halves = typename VectorOf<uint16_t, kLanes * 2>::Type;
    Words bits = __builtin_convertvector(*reinterpret_cast<const Halves*>(from), Words) << 16;
    std::memcpy(&to, &bits, sizeof to);
  } else if constexpr (std::is_same_v<T, Half>) {
    LoadHalves<kBytes>(from, to);
  } else {
    to = *reinterpret_cast<const typename VectorOf<Sum, kBytes>::Type*>(from);
  }
}

template <class Sum, int kBytes>
HAMMOCK_BODY Sum AddLanes(const typename VectorOf<Sum, kBytes>::Aligned& vector) {
  Sum lanes[VectorOf<Sum, kBytes>::kLanes];
  std::memcpy(lanes, &vector, sizeof lanes);
#pragma GCC unroll 16
  for (int half = VectorOf<Sum, kBytes>::kLanes / 2; half > 0; half /= 2) {
#pragma GCC unroll 16
    for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

template <class T, class Sum, int kBytes>
HAMMOCK_BODY Sum Dot(int64_t k, const T* w, const Sum* x) {
  using Vector = typename VectorOf<Sum, kBytes>::Aligned;
  constexpr int kLanes = VectorOf<Sum, kBytes>::kLanes;
  constexpr int kChains = 8;
  Vector sums[kChains] = {};
  int64_t p = 0;
  for (; p + kChains * kLanes <= k; p += kChains * kLanes) {
#pragma GCC unroll 16
    for (int c = 0; c < kChains; ++c) {
      Vector left, right;
      LoadWide<T, Sum, kBytes>(w + p + c * kLanes, left);
      LoadWide<Sum, Sum, kBytes>(x + p + c * kLanes, right);
      sums[c] += left * right;
    }
  }
  for (; p + kLanes <= k; p += kLanes) {
    Vector left, right;
    LoadWide<T, Sum, kBytes>(w + p, left);
    LoadWide<Sum, Sum, kBytes>(x + p, right);
    sums[0] += left * right;
  }
#pragma GCC unroll 16
  for (int half = kChains / 2; half > 0; half /= 2) {
#pragma GCC unroll 16
    for (int c = 0; c < half; ++c) sums[c] += sums[c + half];
  }
  Sum sum = AddLanes<Sum, kBytes>(sums[0]);
  for (; p < k; ++p) sum += static_cast<Sum>(w[p]) * x[p];
  return sum;
}

template <class T, class Sum, int kBytes>
HAMMOCK_BODY void Dots(int64_t count, int64_t k, const T* w, int64_t stride, const Sum* x,
                       Sum* out) {
  for (int64_t i = 0; i < count; ++i) out[i] = Dot<T, Sum, kBytes>(k, w + i * stride, x);
}

/// kRows rows of w at a time pass over `out`, which stays in the cache.
template <class T, class Sum, int kBytes, int kRows>
HAMMOCK_BODY void AddRows(int64_t count, const T* w, int64_t stride, const Sum* x, Sum* out) {
  using Vector = typename VectorOf<Sum, kBytes>::Aligned;
  using Loose = typename VectorOf<Sum, kBytes>::Type;
  constexpr int kLanes = VectorOf<Sum, kBytes>::kLanes;
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    Vector sum = *reinterpret_cast<const Loose*>(out + i);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      Vector row;
      LoadWide<T, Sum, kBytes>(w + r * stride + i, row);
      sum += x[r] * row;
    }
    *reinterpret_cast<Loose*>(out + i) = sum;
  }
  for (; i < count; ++i) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) out[i] += x[r] * static_cast<Sum>(w[r * stride + i]);
  }
}

template <class T, class Sum, int kBytes>
HAMMOCK_BODY void Rows(int64_t count, int64_t k, const T* w, int64_t stride, const Sum* x,
                       Sum* out) {
  int64_t p = 0;
  for (; p + 8 <= k; p += 8) {
    AddRows<T, Sum, kBytes, 8>(count, w + p * stride, stride, x + p, out);
  }
  for (; p < k; ++p) AddRows<T, Sum, kBytes, 1>(count, w + p * stride, stride, x + p, out);
}

constexpr int kPlainBytes = 16, kAvx2Bytes = 32, kAvx512Bytes = 64;  // of a vector

/// The loops for one processor. `TARGET` is an attribute, or nothing.
#define HAMMOCK_LOOPS(Name, TARGET)                                                                \
  template <class Sum>                                                                             \
  struct Name##Tile {                                                                              \
    template <int kVectors>                                                                        \
    TARGET static void Run(int64_t rows, int64_t k, const Sum* a, int64_t a_row, int64_t a_column, \
                           const Sum* b, Sum* c) {                                                 \
      Tile<Sum, k##Name##Bytes, kVectors>(rows, k, a, a_row, a_column, b, c);                      \
    }                                                                                              \
    static constexpr int kLanes = k##Name##Bytes / sizeof(Sum);                                    \
    static constexpr TileLoop<Sum> kNarrow = {kLanes, Run<1>};                                     \
    static constexpr TileLoop<Sum> kWide = {2 * kLanes, Run<2>};                                   \
  };                                                                                               \
  template <class T, class Sum>                                                                    \
  struct Name##Vector {                                                                            \
    TARGET static void RunDots(int64_t count, int64_t k, const T* w, int64_t stride, const Sum* x, \
                               Sum* out) {                                                         \
      Dots<T, Sum, k##Name##Bytes>(count, k, w, stride, x, out);                                   \
    }                                                                                              \
    TARGET static void RunRows(int64_t count, int64_t k, const T* w, int64_t stride, const Sum* x, \
                               Sum* out) {                                                         \
      Rows<T, Sum, k##Name##Bytes>(count, k, w, stride, x, out);                                   \
    }                                                                                              \
    static constexpr VectorLoops<T, Sum> kLoops = {RunDots, RunRows};                              \
  };

HAMMOCK_FOR_PROCESSORS(HAMMOCK_LOOPS)
#undef HAMMOCK_LOOPS
#undef HAMMOCK_BODY

#if defined(__x86_64__)
/// Returns how many were converted: all but the last few.
[[gnu::target("avx,f16c")]] int64_t WidenEights(int64_t count, const Half* in, float* out) {
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i));
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(bits));
  }
  return i;
}
#endif

}  // namespace

void WidenHalves(int64_t count, const Half* in, float* out) {
  int64_t i = 0;
#if defined(__x86_64__)
  if (HostFeatures().f16c) i = WidenEights(count, in, out);
#endif
  for (; i < count; ++i) out[i] = static_cast<float>(in[i]);
}

template <class Sum>
const TileLoop<Sum>& TileLoopFor(int64_t n) {
  [[maybe_unused]] const Processor processor = HostFeatures().processor;
#if defined(__x86_64__)
  if (processor == Processor::kAvx512) {
    return n <= Avx512Tile<Sum>::kLanes ? Avx512Tile<Sum>::kNarrow : Avx512Tile<Sum>::kWide;
  }
  if (processor == Processor::kAvx2) {
    return n <= Avx2Tile<Sum>::kLanes ? Avx2Tile<Sum>::kNarrow : Avx2Tile<Sum>::kWide;
  }
#endif
  return n <= PlainTile<Sum>::kLanes ? PlainTile<Sum>::kNarrow : PlainTile<Sum>::kWide;
}
template const TileLoop<float>& TileLoopFor(int64_t);
template const TileLoop<double>& TileLoopFor(int64_t);
template const TileLoop<uint32_t>& TileLoopFor(int64_t);
template const TileLoop<uint64_t>& TileLoopFor(int64_t);

template <class T, class Sum>
const VectorLoops<T, Sum>& VectorLoopsFor() {
  [[maybe_unused]] const Processor processor = HostFeatures().processor;
#if defined(__x86_64__)
  if (processor == Processor::kAvx512) return Avx512Vector<T, Sum>::kLoops;
  if (processor == Processor::kAvx2) return Avx2Vector<T, Sum>::kLoops;
#endif
  return PlainVector<T, Sum>::kLoops;
}
template const VectorLoops<float, float>& VectorLoopsFor();
template const VectorLoops<BFloat16, float>& VectorLoopsFor();
template const VectorLoops<Half, float>& VectorLoopsFor();
template const VectorLoops<double, double>& VectorLoopsFor();

}  // namespace hammock::cpu
