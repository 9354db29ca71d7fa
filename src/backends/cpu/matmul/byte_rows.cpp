#include "backends/cpu/matmul/byte_rows.h"

#include <algorithm>

#include "backends/cpu/host/cpu_features.h"
#include "backends/cpu/matmul/matmul_kernel.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace hammock::cpu {
namespace {

constexpr int kRows = 4, kColumns = 4;  // of a block of results, whose sums are in registers

struct Block {
  const uint8_t* a;
  const int8_t* b;
  int64_t k;
  int rows, columns;
  int32_t sums[kRows][kColumns];
};

template <class A>
void BlockPlain(Block& block) {
  for (int i = 0; i < block.rows; ++i) {
    const auto* a = reinterpret_cast<const A*>(block.a + i * block.k);
    for (int j = 0; j < block.columns; ++j) {
      const int8_t* b = block.b + j * block.k;
      uint32_t sum = 0;
      for (int64_t k = 0; k < block.k; ++k) sum += static_cast<uint32_t>(int{a[k]} * int{b[k]});
      block.sums[i][j] = static_cast<int32_t>(sum);
    }
  }
}

#if defined(__x86_64__)

#define HAMMOCK_VNNI \
  [[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,fma,prefer-vector-width=512")]]

/// The instruction takes unsigned times signed: signed a is moved up by 128, and 128 times the sum
/// of the row of b is subtracted by the caller. Rows behind the last one are read as the last one.
HAMMOCK_VNNI void BlockVnni(Block& block, bool is_signed) {
  const __m512i flip = _mm512_set1_epi8(is_signed ? -128 : 0);
  __m512i sums[kRows][kColumns];
  for (auto& row : sums) {
    for (__m512i& sum : row) sum = _mm512_setzero_si512();
  }
  const uint8_t* a[kRows];
  const int8_t* b[kColumns];
  for (int i = 0; i < kRows; ++i) a[i] = block.a + std::min(i, block.rows - 1) * block.k;
  for (int j = 0; j < kColumns; ++j) b[j] = block.b + std::min(j, block.columns - 1) * block.k;
  for (int64_t k = 0; k < block.k; k += 64) {
    const int64_t left = block.k - k;
    const __mmask64 mask = left >= 64 ? ~uint64_t{0} : (uint64_t{1} << left) - 1;
    __m512i right[kColumns];
    for (int j = 0; j < kColumns; ++j) right[j] = _mm512_maskz_loadu_epi8(mask, b[j] + k);
    for (int i = 0; i < kRows; ++i) {
      const __m512i row = _mm512_xor_si512(_mm512_maskz_loadu_epi8(mask, a[i] + k), flip);
      for (int j = 0; j < kColumns; ++j) {
        sums[i][j] = _mm512_dpbusd_epi32(sums[i][j], row, right[j]);
      }
    }
  }
  for (int i = 0; i < block.rows; ++i) {
    for (int j = 0; j < block.columns; ++j) {
      block.sums[i][j] = _mm512_reduce_add_epi32(sums[i][j]);
    }
  }
}

/// The sum of a row of b.
HAMMOCK_VNNI int32_t SumVnni(const int8_t* b, int64_t count) {
  const __m512i ones = _mm512_set1_epi8(1);
  __m512i sum = _mm512_setzero_si512();
  for (int64_t k = 0; k < count; k += 64) {
    const int64_t left = count - k;
    const __mmask64 mask = left >= 64 ? ~uint64_t{0} : (uint64_t{1} << left) - 1;
    sum = _mm512_dpbusd_epi32(sum, ones, _mm512_maskz_loadu_epi8(mask, b + k));
  }
  return _mm512_reduce_add_epi32(sum);
}

/// Products of 16 bits, which no pair of bytes exceeds.
template <bool kSigned>
HAMMOCK_AVX2 void BlockAvx2(Block& block) {
  const int64_t whole = block.k / 16 * 16;
  for (int i = 0; i < block.rows; ++i) {
    const uint8_t* a = block.a + i * block.k;
    for (int j = 0; j < block.columns; ++j) {
      const int8_t* b = block.b + j * block.k;
      __m256i sums = _mm256_setzero_si256();
      for (int64_t k = 0; k < whole; k += 16) {
        const __m128i left = _mm_loadu_si128(reinterpret_cast<const __m128i*>(a + k));
        const __m128i right = _mm_loadu_si128(reinterpret_cast<const __m128i*>(b + k));
        const __m256i wide = kSigned ? _mm256_cvtepi8_epi16(left) : _mm256_cvtepu8_epi16(left);
        sums = _mm256_add_epi32(sums, _mm256_madd_epi16(wide, _mm256_cvtepi8_epi16(right)));
      }
      alignas(32) uint32_t lanes[8];
      _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), sums);
      uint32_t sum = 0;
      for (uint32_t lane : lanes) sum += lane;
      for (int64_t k = whole; k < block.k; ++k) {
        sum += static_cast<uint32_t>((kSigned ? int{static_cast<int8_t>(a[k])} : int{a[k]}) * b[k]);
      }
      block.sums[i][j] = static_cast<int32_t>(sum);
    }
  }
}
#endif

void RunBlock(Block& block, [[maybe_unused]] ByteRows::Level level, bool is_signed) {
#if defined(__x86_64__)
  if (level == ByteRows::Level::kVnni) return BlockVnni(block, is_signed);
  if (level == ByteRows::Level::kAvx2) {
    return is_signed ? BlockAvx2<true>(block) : BlockAvx2<false>(block);
  }
#endif
  return is_signed ? BlockPlain<int8_t>(block) : BlockPlain<uint8_t>(block);
}

}  // namespace

ByteRows::Level ByteRows::Best() {
#if defined(__x86_64__)
  if (HostFeatures().avx512vnni) return Level::kVnni;
  if (HostFeatures().processor != Processor::kPlain) return Level::kAvx2;
#endif
  return Level::kPlain;
}

const char* ByteRows::kernel() const {
  return level_ == Level::kVnni   ? "rows of bytes vnni"
         : level_ == Level::kAvx2 ? "rows of bytes avx2"
                                  : "rows of bytes";
}

void ByteRows::Run(const void* a, const void* b, void* out, char* scratch, ThreadPool& pool) const {
  const ByteRowsSpec& s = spec_;
  const auto* left = static_cast<const uint8_t*>(a);
  const auto* right = static_cast<const int8_t*>(b);
  auto* results = static_cast<int32_t*>(out);
  auto* offsets = reinterpret_cast<int32_t*>(scratch);
  const bool moved = level_ == Level::kVnni && s.a_signed;
#if defined(__x86_64__)
  if (moved) {
    pool.ParallelFor(s.n, std::max<int64_t>((1 << 16) / std::max<int64_t>(s.k, 1), 1),
                     [&](int64_t begin, int64_t end, int) {
                       for (int64_t j = begin; j < end; ++j) {
                         offsets[j] = SumVnni(right + j * s.k, s.k);
                       }
                     });
  }
#endif
  // A band of b is read once for each band of a, which fits into the cache.
  constexpr int64_t kBand = 64;
  const int64_t bands = CeilDiv(s.n, kBand);
  auto run = [&](int64_t task, int) {
    const int64_t top = task / bands * kBand, first = task % bands * kBand;
    const int64_t bottom = std::min(s.m, top + kBand), last = std::min(s.n, first + kBand);
    for (int64_t i = top; i < bottom; i += kRows) {
      for (int64_t j = first; j < last; j += kColumns) {
        Block block{.a = left + i * s.k,
                    .b = right + j * s.k,
                    .k = s.k,
                    .rows = static_cast<int>(std::min<int64_t>(kRows, bottom - i)),
                    .columns = static_cast<int>(std::min<int64_t>(kColumns, last - j)),
                    .sums = {}};
        RunBlock(block, level_, s.a_signed);
        for (int row = 0; row < block.rows; ++row) {
          for (int column = 0; column < block.columns; ++column) {
            auto sum = static_cast<uint32_t>(block.sums[row][column]);
            if (moved) sum -= 128u * static_cast<uint32_t>(offsets[j + column]);
            results[(i + row) * s.n + j + column] = static_cast<int32_t>(sum);
          }
        }
      }
    }
  };
  ForEachTask(pool, pool.threads(), CeilDiv(s.m, kBand) * bands, kBand * kBand * s.k / 8, run);
}

namespace {

/// Rows of a times columns of b, matrix after matrix.
class ByteMatMul : public MatMulKernel {
 public:
  explicit ByteMatMul(const MatMulSpec& spec)
      : spec_(spec),
        rows_({.m = spec.m, .n = spec.n, .k = spec.k, .a_signed = spec.dtype == DType::kI8}) {
    shared_bytes = RoundUp(rows_.scratch_bytes(), 64);
  }
  const char* name() const override { return rows_.kernel(); }

  void Run(const MatMul::Pointers& pointers, const Scratch& scratch,
           ThreadPool& pool) const override {
    for (int64_t i = 0; i < Product(spec_.batch); ++i) {
      auto at = [&](const MatrixLayout& layout) {
        return BatchOffset(spec_.batch, layout.batch, i);
      };
      rows_.Run(static_cast<const std::byte*>(pointers.a) + at(spec_.a),
                static_cast<const std::byte*>(pointers.b) + at(spec_.b),
                static_cast<int32_t*>(pointers.out) + at(spec_.out),
                reinterpret_cast<char*>(scratch.shared), pool);
    }
  }

 private:
  const MatMulSpec spec_;
  const ByteRows rows_;
};

}  // namespace

std::unique_ptr<MatMulKernel> MakeByteMatMul(const MatMulSpec& spec) {
  return std::make_unique<ByteMatMul>(spec);
}

}  // namespace hammock::cpu
