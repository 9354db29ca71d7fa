#include "backends/cpu/matmul/quantized_rows.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/host/cpu_features.h"
#include "base/throw.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace hammock::cpu {
namespace {

// Note [Blocks of quantised rows]
// A row is read in blocks of 128 elements, which are 64 bytes of four bits or 128 of eight. Lane l
// of 16 sums elements 8l .. 8l + 7 of four bits: they are one 32-bit word of the row, which is
// shifted once for each of them. Lane l of eight bits sums every 16th element of a group. x is
// copied into that order before, widened to f32 (or kept in bf16 where the processor multiplies
// pairs of them), with zeros behind the end.
constexpr int64_t kBlock = 128;
constexpr int kLanes = 16;

constexpr int64_t kMostGroups = 1024;  // of a row

int64_t Blocks(int64_t k) { return (k + kBlock - 1) / kBlock; }

float ReadFloat(DType dtype, const void* data, int64_t index) {
  switch (dtype) {
    case DType::kBF16:
      return static_cast<const BFloat16*>(data)[index];
    case DType::kF16:
      return static_cast<const Half*>(data)[index];
    default:
      return static_cast<const float*>(data)[index];
  }
}

void WriteFloat(DType dtype, void* data, int64_t index, float value) {
  switch (dtype) {
    case DType::kBF16:
      static_cast<BFloat16*>(data)[index] = value;
      return;
    case DType::kF16:
      static_cast<Half*>(data)[index] = value;
      return;
    default:
      static_cast<float*>(data)[index] = value;
  }
}

int ReadInt(DType dtype, const void* data, int64_t index) {
  const auto* bytes = static_cast<const uint8_t*>(data);
  switch (dtype) {
    case DType::kI4:
      return static_cast<int8_t>(bytes[index / 2] << (index % 2 ? 0 : 4)) >> 4;
    case DType::kU4:
      return bytes[index / 2] >> (index % 2 ? 4 : 0) & 15;
    case DType::kI8:
      return static_cast<int8_t>(bytes[index]);
    default:
      return bytes[index];
  }
}

bool IsFourBits(DType dtype) { return InfoOf(dtype).bits == 4; }

/// Where the scales of the lanes of a block are: one for all, or `step` of them.
struct LaneScales {
  explicit LaneScales(const QuantizedRowsSpec& spec)
      : blocks(spec.group == spec.k ? Blocks(spec.k) : std::max<int64_t>(spec.group / kBlock, 1)),
        step(spec.group >= kBlock || spec.group == spec.k ? 0 : kBlock / spec.group) {
    for (int lane = 0; lane < kLanes; ++lane) {
      index[lane] = step > 0 ? static_cast<int32_t>(lane * 8 / spec.group) : 0;
    }
  }
  /// Whether each block has whole groups, or is a part of one.
  static bool Takes(const QuantizedRowsSpec& spec) {
    return spec.group % kBlock == 0 || spec.group == spec.k ||
           (kBlock % spec.group == 0 && spec.group >= 8);
  }
  int64_t blocks;  // that share a scale
  int64_t step;
  alignas(64) int32_t index[kLanes];
};

/// The values of elements of four bits, for table lookups. Of pairs twice: an index has a bit more
/// than the element.
struct Tables {
  explicit Tables(DType dtype) {
    for (int i = 0; i < 32; ++i) {
      const int bits = i % 16, value = dtype == DType::kI4 && bits > 7 ? bits - 16 : bits;
      if (i < 16) wide[i] = static_cast<float>(value);
      pairs[i] = BFloat16(static_cast<float>(value)).bits;
    }
  }
  alignas(64) float wide[16];
  alignas(64) uint16_t pairs[32];
};

/// Inputs that all rows of weights share.
struct Prepared {
  const QuantizedRowsSpec& spec;
  const QuantizedRowsPointers& p;
  const float* x;     // [m, blocks, 8, 16] of four bits, [m, blocks * 128] of eight
  const void* pairs;  // x in bf16: [m, blocks, 4, 32]
  const float* sums;  // of x in each lane of each block (four bits), or in each group: for zeros
  const LaneScales& lanes;
  const Tables& tables;
};

/// Scales and zero points of a row, widened.
struct RowScales {
  RowScales(const Prepared& in, int64_t row) {
    const int64_t groups = in.spec.k / in.spec.group;
    Widen(in.spec.scale, in.p.scale, row * in.spec.scale_stride, groups, scale);
    std::fill_n(scale + groups, kLanes, 0.0f);
    if (!in.p.zero) return;
    std::fill_n(zero + groups, kLanes, 0.0f);
    for (int64_t g = 0; g < groups; ++g) {
      zero[g] = static_cast<float>(ReadInt(in.spec.zero, in.p.zero, row * in.spec.zero_stride + g));
    }
  }
  static void Widen(DType dtype, const void* from, int64_t first, int64_t count, float* to) {
    if (dtype == DType::kBF16) {
      const auto* at = static_cast<const BFloat16*>(from) + first;
      for (int64_t g = 0; g < count; ++g) to[g] = at[g];
    } else {
      for (int64_t g = 0; g < count; ++g) to[g] = ReadFloat(dtype, from, first + g);
    }
  }
  // Vectors are read, also behind the last group: there x and scales are 0.
  alignas(64) float scale[kMostGroups + kLanes];
  alignas(64) float zero[kMostGroups + kLanes];
};

const uint8_t* WeightRow(const Prepared& in, int64_t row) {
  return static_cast<const uint8_t*>(in.p.weight) + row * BytesOf(in.spec.weight, in.spec.k);
}

void Finish(const Prepared& in, int64_t m, int64_t row, float sum) {
  if (in.p.bias) sum += ReadFloat(in.spec.x, in.p.bias, row);
  WriteFloat(in.spec.x, in.p.out, m * in.spec.n + row, sum);
}

/// The same sums without vectors, for any group.
void RowPlain(const Prepared& in, int64_t row) {
  const QuantizedRowsSpec& s = in.spec;
  const uint8_t* weight = WeightRow(in, row);
  for (int64_t m = 0; m < s.m; ++m) {
    float total = 0;
    for (int64_t g = 0; g < s.k / s.group; ++g) {
      const int zero = in.p.zero ? ReadInt(s.zero, in.p.zero, row * s.zero_stride + g) : 0;
      float sum = 0;
      for (int64_t i = g * s.group; i < (g + 1) * s.group; ++i) {
        sum += static_cast<float>(ReadInt(s.weight, weight, i) - zero) *
               ReadFloat(s.x, in.p.x, m * s.k + i);
      }
      total += sum * ReadFloat(s.scale, in.p.scale, row * s.scale_stride + g);
    }
    Finish(in, m, row, total);
  }
}

#if defined(__x86_64__)

#define HAMMOCK_BF16 \
  [[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,fma,prefer-vector-width=512")]]

// ---- four bits

HAMMOCK_AVX512 inline __m512i LoadBlock(const uint8_t* at, int64_t left) {
  if (left >= 64) return _mm512_loadu_si512(at);
  return _mm512_maskz_loadu_epi8((uint64_t{1} << left) - 1, at);
}

/// x[m][8 planes][16 lanes] times one block.
HAMMOCK_AVX512 inline __m512 BlockOfFour(__m512i words, __m512 table, const float* x) {
  __m512 even = _mm512_setzero_ps(), odd = _mm512_setzero_ps();
#define HAMMOCK_PLANE(t, sum)                                                            \
  sum = _mm512_fmadd_ps(_mm512_permutexvar_ps(_mm512_srli_epi32(words, 4 * (t)), table), \
                        _mm512_loadu_ps(x + 16 * (t)), sum);
  HAMMOCK_PLANE(0, even)
  HAMMOCK_PLANE(1, odd)
  HAMMOCK_PLANE(2, even)
  HAMMOCK_PLANE(3, odd)
  HAMMOCK_PLANE(4, even)
  HAMMOCK_PLANE(5, odd)
  HAMMOCK_PLANE(6, even)
  HAMMOCK_PLANE(7, odd)
#undef HAMMOCK_PLANE
  return _mm512_add_ps(even, odd);
}

/// The same by pairs of bf16: [4 planes][32].
HAMMOCK_BF16 inline __m512 PairsOfFour(__m512i words, __m512i table, const uint16_t* x) {
  __m512 even = _mm512_setzero_ps(), odd = _mm512_setzero_ps();
#define HAMMOCK_PLANE(t, sum)                                                            \
  sum = _mm512_dpbf16_ps(                                                                \
      sum, (__m512bh)_mm512_permutexvar_epi16(_mm512_srli_epi16(words, 4 * (t)), table), \
      (__m512bh)_mm512_loadu_si512(x + 32 * (t)));
  HAMMOCK_PLANE(0, even)
  HAMMOCK_PLANE(1, odd)
  HAMMOCK_PLANE(2, even)
  HAMMOCK_PLANE(3, odd)
#undef HAMMOCK_PLANE
  return _mm512_add_ps(even, odd);
}

/// The values of the lanes of a block; `group` is that of its first element.
HAMMOCK_AVX512 inline __m512 OfLanes(const float* values, const LaneScales& lanes, int64_t block,
                                     int64_t group) {
  if (lanes.step == 0) return _mm512_set1_ps(values[group]);
  return _mm512_permutexvar_ps(_mm512_load_si512(lanes.index),
                               _mm512_loadu_ps(values + block * lanes.step));
}

/// A row of four bits times all rows of x. STEP multiplies one block.
#define HAMMOCK_ROW_OF_FOUR(NAME, TARGET, TABLE, LOAD_TABLE, X, STEP)                             \
  TARGET void NAME(const Prepared& in, int64_t row) {                                             \
    const QuantizedRowsSpec& s = in.spec;                                                         \
    const RowScales scales(in, row);                                                              \
    const uint8_t* weight = WeightRow(in, row);                                                   \
    const int64_t blocks = Blocks(s.k), bytes = BytesOf(s.weight, s.k);                           \
    const TABLE table = LOAD_TABLE;                                                               \
    __m512 totals[QuantizedRows::kMostRows];                                                      \
    for (int64_t m = 0; m < s.m; ++m) totals[m] = _mm512_setzero_ps();                            \
    int64_t group = 0, until = in.lanes.blocks;                                                   \
    for (int64_t b = 0; b < blocks; ++b) {                                                        \
      if (b == until) ++group, until += in.lanes.blocks;                                          \
      const __m512i words = LoadBlock(weight + b * 64, bytes - b * 64);                           \
      const __m512 scale = OfLanes(scales.scale, in.lanes, b, group);                             \
      for (int64_t m = 0; m < s.m; ++m) {                                                         \
        __m512 sum = STEP(words, table, X + (m * blocks + b) * kBlock);                           \
        if (in.p.zero) {                                                                          \
          const float* sums = in.sums + (m * blocks + b) * kLanes;                                \
          sum = _mm512_fnmadd_ps(OfLanes(scales.zero, in.lanes, b, group), _mm512_loadu_ps(sums), \
                                 sum);                                                            \
        }                                                                                         \
        totals[m] = _mm512_fmadd_ps(sum, scale, totals[m]);                                       \
      }                                                                                           \
    }                                                                                             \
    for (int64_t m = 0; m < s.m; ++m) Finish(in, m, row, _mm512_reduce_add_ps(totals[m]));        \
  }

HAMMOCK_ROW_OF_FOUR(RowOfFour, HAMMOCK_AVX512, __m512, _mm512_load_ps(in.tables.wide), in.x,
                    BlockOfFour)
HAMMOCK_ROW_OF_FOUR(RowOfFourPairs, HAMMOCK_BF16, __m512i, _mm512_load_si512(in.tables.pairs),
                    static_cast<const uint16_t*>(in.pairs), PairsOfFour)
#undef HAMMOCK_ROW_OF_FOUR

/// Asks for weights 2 KiB ahead; processors alone ask for too few to hide the latency of memory.
HAMMOCK_AVX512 inline void ReadAhead(const uint8_t* weight) {
  _mm_prefetch(reinterpret_cast<const char*>(weight) + 2048, _MM_HINT_T0);
}

/// The same sums for a single row of x, without zero points: nothing but the row in the loop. Rows
/// are read one after the other, as memory is read fastest.
template <bool kOneScale>
HAMMOCK_BF16 void RowOfFourPairsAlone(const Prepared& in, int64_t row) {
  const RowScales scales(in, row);
  const uint8_t* weight = WeightRow(in, row);
  const auto* x = static_cast<const uint16_t*>(in.pairs);
  const int64_t k = in.spec.k, blocks = Blocks(k), whole = k / kBlock;
  const int64_t step = in.lanes.step, each = in.lanes.blocks;
  const __m512i table = _mm512_load_si512(in.tables.pairs);
  const __m512i index = _mm512_load_si512(in.lanes.index);
  const float* scale = scales.scale;
  __m512 total = _mm512_setzero_ps();
  int64_t until = each;
  for (int64_t b = 0; b < blocks; ++b) {
    const uint8_t* at = weight + b * 64;
    ReadAhead(at);
    const __m512i words = b < whole ? _mm512_loadu_si512(at) : LoadBlock(at, k / 2 - b * 64);
    __m512 factor;
    if constexpr (kOneScale) {
      if (b == until) ++scale, until += each;
      factor = _mm512_set1_ps(*scale);
    } else {
      factor = _mm512_permutexvar_ps(index, _mm512_loadu_ps(scale + b * step));
    }
    total = _mm512_fmadd_ps(PairsOfFour(words, table, x + b * kBlock), factor, total);
  }
  Finish(in, 0, row, _mm512_reduce_add_ps(total));
}

HAMMOCK_AVX2 inline float SumOf(__m256 v) {
  __m128 half = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  half = _mm_add_ps(half, _mm_movehl_ps(half, half));
  return _mm_cvtss_f32(_mm_add_ss(half, _mm_shuffle_ps(half, half, 1)));
}

/// A half of a block: eight lanes.
HAMMOCK_AVX2 inline __m256 HalfOfFour(__m256i words, bool is_signed, const float* x) {
  __m256 even = _mm256_setzero_ps(), odd = _mm256_setzero_ps();
  const __m256i low = _mm256_set1_epi32(15);
#define HAMMOCK_PLANE(t, sum)                                                                      \
  sum = _mm256_fmadd_ps(                                                                           \
      _mm256_cvtepi32_ps(is_signed ? _mm256_srai_epi32(_mm256_slli_epi32(words, 28 - 4 * (t)), 28) \
                                   : _mm256_and_si256(_mm256_srli_epi32(words, 4 * (t)), low)),    \
      _mm256_loadu_ps(x + 16 * (t)), sum);
  HAMMOCK_PLANE(0, even)
  HAMMOCK_PLANE(1, odd)
  HAMMOCK_PLANE(2, even)
  HAMMOCK_PLANE(3, odd)
  HAMMOCK_PLANE(4, even)
  HAMMOCK_PLANE(5, odd)
  HAMMOCK_PLANE(6, even)
  HAMMOCK_PLANE(7, odd)
#undef HAMMOCK_PLANE
  return _mm256_add_ps(even, odd);
}

HAMMOCK_AVX2 void RowOfFourAvx2(const Prepared& in, int64_t row) {
  const QuantizedRowsSpec& s = in.spec;
  const RowScales scales(in, row);
  const uint8_t* weight = WeightRow(in, row);
  const int64_t blocks = Blocks(s.k), bytes = BytesOf(s.weight, s.k);
  const bool is_signed = s.weight == DType::kI4;
  alignas(64) uint8_t tail[64] = {};
  __m256 totals[QuantizedRows::kMostRows];
  for (int64_t m = 0; m < s.m; ++m) totals[m] = _mm256_setzero_ps();
  int64_t group = 0, until = in.lanes.blocks;
  auto of_lanes = [&](const float* values, int64_t b, int half)
      __attribute__((target("avx2,fma"))) {
    if (in.lanes.step == 0) return _mm256_set1_ps(values[group]);
    const __m256i index =
        _mm256_load_si256(reinterpret_cast<const __m256i*>(in.lanes.index + half));
    return _mm256_i32gather_ps(values + b * in.lanes.step, index, 4);
  };
  for (int64_t b = 0; b < blocks; ++b) {
    if (b == until) ++group, until += in.lanes.blocks;
    const uint8_t* words = weight + b * 64;
    if (bytes - b * 64 < 64) {
      std::memcpy(tail, words, static_cast<size_t>(bytes - b * 64));
      words = tail;
    }
    for (int half : {0, 8}) {
      const __m256i part = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(words + half * 4));
      for (int64_t m = 0; m < s.m; ++m) {
        __m256 sum = HalfOfFour(part, is_signed, in.x + (m * blocks + b) * kBlock + half);
        if (in.p.zero) {
          const float* sums = in.sums + (m * blocks + b) * kLanes + half;
          sum = _mm256_fnmadd_ps(of_lanes(scales.zero, b, half), _mm256_loadu_ps(sums), sum);
        }
        totals[m] = _mm256_fmadd_ps(sum, of_lanes(scales.scale, b, half), totals[m]);
      }
    }
  }
  for (int64_t m = 0; m < s.m; ++m) Finish(in, m, row, SumOf(totals[m]));
}

// ---- eight bits

/// 16 elements; behind the end of a row zeros.
HAMMOCK_AVX512 inline __m512 SixteenOfEight(const uint8_t* at, int64_t left, bool is_signed) {
  const __m128i bytes = left >= 16
                            ? _mm_loadu_si128(reinterpret_cast<const __m128i*>(at))
                            : _mm_maskz_loadu_epi8(static_cast<__mmask16>((1u << left) - 1), at);
  return _mm512_cvtepi32_ps(is_signed ? _mm512_cvtepi8_epi32(bytes) : _mm512_cvtepu8_epi32(bytes));
}

/// One group of one row times one row of x.
template <bool kSigned>
HAMMOCK_AVX512 inline __m512 GroupOfEight(const uint8_t* weight, const float* x, int64_t count) {
  __m512 sums[4];
  for (__m512& sum : sums) sum = _mm512_setzero_ps();
  int64_t i = 0;
  for (; i + 64 <= count; i += 64) {
    for (int j = 0; j < 4; ++j) {
      sums[j] = _mm512_fmadd_ps(SixteenOfEight(weight + i + 16 * j, 16, kSigned),
                                _mm512_loadu_ps(x + i + 16 * j), sums[j]);
    }
  }
  for (; i < count; i += 16) {
    sums[0] = _mm512_fmadd_ps(
        SixteenOfEight(weight + i, count - i, kSigned),
        _mm512_maskz_loadu_ps(count - i >= 16 ? static_cast<__mmask16>(0xffff)
                                              : static_cast<__mmask16>((1u << (count - i)) - 1),
                              x + i),
        sums[0]);
  }
  return _mm512_add_ps(_mm512_add_ps(sums[0], sums[1]), _mm512_add_ps(sums[2], sums[3]));
}

template <bool kSigned>
HAMMOCK_AVX512 void RowOfEight(const Prepared& in, int64_t row) {
  const QuantizedRowsSpec& s = in.spec;
  const RowScales scales(in, row);
  const uint8_t* weight = WeightRow(in, row);
  const int64_t padded = Blocks(s.k) * kBlock, groups = s.k / s.group;
  __m512 totals[QuantizedRows::kMostRows];
  float corrections[QuantizedRows::kMostRows] = {};
  for (int64_t m = 0; m < s.m; ++m) totals[m] = _mm512_setzero_ps();
  for (int64_t g = 0; g < groups; ++g) {
    const float scale = scales.scale[g];
    const float zero = in.p.zero ? scales.zero[g] * scale : 0;
    for (int64_t m = 0; m < s.m; ++m) {
      const __m512 sum =
          GroupOfEight<kSigned>(weight + g * s.group, in.x + m * padded + g * s.group, s.group);
      totals[m] = _mm512_fmadd_ps(sum, _mm512_set1_ps(scale), totals[m]);
      if (in.p.zero) corrections[m] += zero * in.sums[m * groups + g];
    }
  }
  for (int64_t m = 0; m < s.m; ++m) {
    Finish(in, m, row, _mm512_reduce_add_ps(totals[m]) - corrections[m]);
  }
}

/// For a single row of x, without zero points, in groups of multiples of 32.
template <bool kSigned>
HAMMOCK_AVX512 void RowOfEightAlone(const Prepared& in, int64_t row) {
  const RowScales scales(in, row);
  const uint8_t* weight = WeightRow(in, row);
  const float* x = in.x;
  const int64_t size = in.spec.group, groups = in.spec.k / size;
  __m512 total = _mm512_setzero_ps();
  for (int64_t g = 0; g < groups; ++g) {
    __m512 even = _mm512_setzero_ps(), odd = _mm512_setzero_ps();
    for (const uint8_t* end = weight + size; weight < end; weight += 32, x += 32) {
      ReadAhead(weight);
      even = _mm512_fmadd_ps(SixteenOfEight(weight, 16, kSigned), _mm512_loadu_ps(x), even);
      odd = _mm512_fmadd_ps(SixteenOfEight(weight + 16, 16, kSigned), _mm512_loadu_ps(x + 16), odd);
    }
    total = _mm512_fmadd_ps(_mm512_add_ps(even, odd), _mm512_set1_ps(scales.scale[g]), total);
  }
  Finish(in, 0, row, _mm512_reduce_add_ps(total));
}

template <bool kSigned>
HAMMOCK_AVX2 inline __m256 GroupOfEightAvx2(const uint8_t* weight, const float* x, int64_t count) {
  __m256 sums[4];
  for (__m256& sum : sums) sum = _mm256_setzero_ps();
  for (int64_t i = 0; i < count; i += 32) {
    for (int j = 0; j < 4; ++j) {
      const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(weight + i + 8 * j));
      const __m256i wide = kSigned ? _mm256_cvtepi8_epi32(bytes) : _mm256_cvtepu8_epi32(bytes);
      sums[j] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(wide), _mm256_loadu_ps(x + i + 8 * j), sums[j]);
    }
  }
  return _mm256_add_ps(_mm256_add_ps(sums[0], sums[1]), _mm256_add_ps(sums[2], sums[3]));
}

template <bool kSigned>
HAMMOCK_AVX2 void RowOfEightAvx2(const Prepared& in, int64_t row) {
  const QuantizedRowsSpec& s = in.spec;
  const RowScales scales(in, row);
  const uint8_t* weight = WeightRow(in, row);
  const int64_t padded = Blocks(s.k) * kBlock, groups = s.k / s.group;
  for (int64_t m = 0; m < s.m; ++m) {
    __m256 total = _mm256_setzero_ps();
    float correction = 0;
    for (int64_t g = 0; g < groups; ++g) {
      const float scale = scales.scale[g];
      const __m256 sum =
          GroupOfEightAvx2<kSigned>(weight + g * s.group, in.x + m * padded + g * s.group, s.group);
      total = _mm256_fmadd_ps(sum, _mm256_set1_ps(scale), total);
      if (in.p.zero) correction += scales.zero[g] * scale * in.sums[m * groups + g];
    }
    Finish(in, m, row, SumOf(total) - correction);
  }
}

using RowFn = void (*)(const Prepared& in, int64_t row);

RowFn RowKernel(const QuantizedRowsSpec& spec, QuantizedRows::Level level, bool zeros) {
  using Level = QuantizedRows::Level;
  const bool is_signed = IsSigned(spec.weight), four = IsFourBits(spec.weight);
  switch (level) {
    case Level::kPlain:
      return RowPlain;
    case Level::kAvx2:
      return four ? RowOfFourAvx2 : is_signed ? RowOfEightAvx2<true> : RowOfEightAvx2<false>;
    case Level::kAvx512:
      if (!four && spec.m == 1 && !zeros && spec.group % 32 == 0) {
        return is_signed ? RowOfEightAlone<true> : RowOfEightAlone<false>;
      }
      return four ? RowOfFour : is_signed ? RowOfEight<true> : RowOfEight<false>;
    case Level::kBf16:
      if (spec.m > 1 || zeros) return RowOfFourPairs;
      return LaneScales(spec).step == 0 ? RowOfFourPairsAlone<true> : RowOfFourPairsAlone<false>;
  }
  return RowPlain;
}

#else
using RowFn = void (*)(const Prepared& in, int64_t row);
RowFn RowKernel(const QuantizedRowsSpec&, QuantizedRows::Level, bool) { return RowPlain; }
#endif

/// Copies x into the order of the kernel, and sums it for zero points.
void Arrange(const QuantizedRowsSpec& spec, const QuantizedRowsPointers& p, bool pairs, float* x,
             float* sums) {
  const int64_t blocks = Blocks(spec.k), groups = spec.k / spec.group;
  const bool four = IsFourBits(spec.weight);
  float block[kBlock];
  for (int64_t m = 0; m < spec.m; ++m) {
    for (int64_t b = 0; b < blocks; ++b) {
      const int64_t first = b * kBlock, count = std::min(kBlock, spec.k - first);
      std::fill_n(block, kBlock, 0.0f);
      RowScales::Widen(spec.x, p.x, m * spec.k + first, count, block);
      float* out = x + (m * blocks + b) * kBlock;
      if (!four) {
        std::copy_n(block, kBlock, out);
        continue;
      }
      if (pairs) {
        uint16_t* bits = reinterpret_cast<uint16_t*>(x) + (m * blocks + b) * kBlock;
        for (int t = 0; t < 4; ++t) {
          for (int j = 0; j < 32; ++j) bits[32 * t + j] = BFloat16(block[4 * j + t]).bits;
        }
      } else {
        for (int t = 0; t < 8; ++t) {
          for (int lane = 0; lane < kLanes; ++lane) out[16 * t + lane] = block[8 * lane + t];
        }
      }
      if (!p.zero) continue;
      for (int lane = 0; lane < kLanes; ++lane) {
        float sum = 0;
        for (int t = 0; t < 8; ++t) sum += block[8 * lane + t];
        sums[(m * blocks + b) * kLanes + lane] = sum;
      }
    }
    if (four || !p.zero) continue;
    for (int64_t g = 0; g < groups; ++g) {
      float sum = 0;
      for (int64_t i = 0; i < spec.group; ++i) sum += x[m * blocks * kBlock + g * spec.group + i];
      sums[m * groups + g] = sum;
    }
  }
}

}  // namespace

bool QuantizedRows::Takes(const QuantizedRowsSpec& spec) {
  auto is_float = [](DType t) { return t == DType::kF32 || t == DType::kBF16 || t == DType::kF16; };
  auto is_weight = [](DType t) {
    return t == DType::kI8 || t == DType::kU8 || t == DType::kI4 || t == DType::kU4;
  };
  return spec.m > 0 && spec.m <= kMostRows && spec.n > 0 && spec.k > 0 && is_float(spec.x) &&
         is_float(spec.scale) && is_weight(spec.weight) && is_weight(spec.zero);
}

QuantizedRows::Level QuantizedRows::Best([[maybe_unused]] const QuantizedRowsSpec& spec) {
#if defined(__x86_64__)
  const bool four = IsFourBits(spec.weight);
  if ((four && !LaneScales::Takes(spec)) || spec.k / spec.group > kMostGroups) return Level::kPlain;
  const Processor processor = HostFeatures().processor;
  if (processor == Processor::kAvx512) {
    const bool pairs = four && spec.x == DType::kBF16 && HostFeatures().avx512bf16;
    return pairs ? Level::kBf16 : Level::kAvx512;
  }
  if (processor == Processor::kAvx2 && (four || spec.group % 32 == 0)) return Level::kAvx2;
#endif
  return Level::kPlain;
}

QuantizedRows::QuantizedRows(const QuantizedRowsSpec& spec) : spec_(spec), level_(Best(spec)) {
  HAMMOCK_CHECK(Takes(spec), "no kernel for these rows");
}

const char* QuantizedRows::kernel() const {
  switch (level_) {
    case Level::kPlain:
      return "quantised rows";
    case Level::kAvx2:
      return "quantised rows avx2";
    case Level::kAvx512:
      return "quantised rows avx512";
    case Level::kBf16:
      return "quantised rows avx512 bf16";
  }
  return "";
}

int64_t QuantizedRows::scratch_bytes() const {
  const int64_t padded = spec_.m * Blocks(spec_.k) * kBlock;
  const int64_t sums = std::max(spec_.m * spec_.k / spec_.group, padded / 8);
  return (padded + sums) * static_cast<int64_t>(sizeof(float));
}

void QuantizedRows::Run(const QuantizedRowsPointers& p, char* scratch, ThreadPool& pool) const {
  const int64_t padded = Blocks(spec_.k) * kBlock;
  const bool pairs = level_ == Level::kBf16;
  auto* x = reinterpret_cast<float*>(scratch);
  float* sums = x + spec_.m * padded;
  if (level_ != Level::kPlain) Arrange(spec_, p, pairs, x, sums);
  const LaneScales lanes(spec_);
  const Tables tables(spec_.weight);
  const Prepared prepared{spec_, p, x, x, sums, lanes, tables};
  const RowFn kernel = RowKernel(spec_, level_, p.zero != nullptr);
  const int64_t row_bytes = std::max<int64_t>(BytesOf(spec_.weight, spec_.k) * spec_.m, 1);
  const int64_t grain = std::max<int64_t>((int64_t{1} << 16) / row_bytes, 1);
  pool.ParallelFor(spec_.n, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) kernel(prepared, row);
  });
}

}  // namespace hammock::cpu
