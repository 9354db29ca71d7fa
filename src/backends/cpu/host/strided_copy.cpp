#include "backends/cpu/host/strided_copy.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "backends/cpu/host/cpu_features.h"
#include "backends/cpu/host/spread.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace hammock::cpu {
namespace {

constexpr int64_t kPiece = 1 << 16;  // bytes of a row that one thread takes at once

/// memcpy that is quick for a few bytes.
inline void CopyRow(char* to, const char* from, int64_t bytes) {
  auto part = [&]<int kBytes>(std::integral_constant<int, kBytes>, int64_t at) {
    std::memcpy(to + at, from + at, kBytes);
  };
  auto ends = [&](auto size) {
    part(size, 0);
    part(size, bytes - size());
  };
  if (bytes > 256) {
    std::memcpy(to, from, static_cast<size_t>(bytes));
  } else if (bytes >= 16) {
    std::integral_constant<int, 16> vector;
    for (int64_t at = 0; at + 16 <= bytes; at += 16) part(vector, at);
    part(vector, bytes - 16);
  } else if (bytes >= 8) {
    ends(std::integral_constant<int, 8>());
  } else if (bytes >= 4) {
    ends(std::integral_constant<int, 4>());
  } else {
    for (int64_t at = 0; at < bytes; ++at) to[at] = from[at];
  }
}

/// Whether two indices may have the same offset: sorted by stride, each dim must step over all that
/// the smaller ones reach.
bool MayCoincide(const Dims& sizes, const Dims& strides) {
  std::vector<std::pair<int64_t, int64_t>> dims;
  for (int d = 0; d < sizes.size(); ++d) {
    if (sizes[d] > 1) dims.emplace_back(std::abs(strides[d]), sizes[d]);
  }
  std::sort(dims.begin(), dims.end());
  int64_t reach = 0;
  for (auto [stride, size] : dims) {
    if (stride <= reach) return true;
    reach += stride * (size - 1);
  }
  return false;
}

// ---- matrices

template <int kBytes>
void TransposeElements(const char* from, int64_t from_column, char* to, int64_t to_row,
                       int64_t rows, int64_t columns) {
  for (int64_t r = 0; r < rows; ++r) {
    const char* source = from + r * kBytes;
    char* target = to + r * to_row;
    for (int64_t c = 0; c < columns; ++c) {
      std::memcpy(target + c * kBytes, source + c * from_column, kBytes);
    }
  }
}

#if defined(__SSE2__) && !defined(__clang__)  // which has no __builtin_shuffle

template <int kBytes>
inline __m128i InterleaveLow(__m128i a, __m128i b) {
  if constexpr (kBytes == 1) return _mm_unpacklo_epi8(a, b);
  if constexpr (kBytes == 2) return _mm_unpacklo_epi16(a, b);
  if constexpr (kBytes == 4) return _mm_unpacklo_epi32(a, b);
  if constexpr (kBytes == 8) return _mm_unpacklo_epi64(a, b);
}

template <int kBytes>
inline __m128i InterleaveHigh(__m128i a, __m128i b) {
  if constexpr (kBytes == 1) return _mm_unpackhi_epi8(a, b);
  if constexpr (kBytes == 2) return _mm_unpackhi_epi16(a, b);
  if constexpr (kBytes == 4) return _mm_unpackhi_epi32(a, b);
  if constexpr (kBytes == 8) return _mm_unpackhi_epi64(a, b);
}

/// A square of 16 bytes a side: vectors are its rows before and its columns afterwards.
template <int kBytes>
inline void TransposeVectors(__m128i* vectors) {
  constexpr int kLanes = 16 / kBytes;
#pragma GCC unroll 4
  for (int step = 1; step < kLanes; step *= 2) {
    __m128i next[kLanes];
#pragma GCC unroll 8
    for (int i = 0; i < kLanes / 2; ++i) {
      next[2 * i] = InterleaveLow<kBytes>(vectors[i], vectors[i + kLanes / 2]);
      next[2 * i + 1] = InterleaveHigh<kBytes>(vectors[i], vectors[i + kLanes / 2]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) vectors[i] = next[i];
  }
}

/// A square of 64 bytes a side, so that each line of the cache is touched once. `kPast` writes past
/// the cache.
template <int kBytes, bool kPast>
void TransposeSquare(const char* from, int64_t from_column, char* to, int64_t to_row) {
  constexpr int kLanes = 16 / kBytes;
  for (int group = 0; group < 4; ++group) {
    __m128i squares[4][kLanes];
#pragma GCC unroll 4
    for (int square = 0; square < 4; ++square) {
#pragma GCC unroll 16
      for (int i = 0; i < kLanes; ++i) {
        const char* at = from + (square * kLanes + i) * from_column + group * 16;
        squares[square][i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
      }
      TransposeVectors<kBytes>(squares[square]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) {
      char* row = to + (group * kLanes + i) * to_row;
#pragma GCC unroll 4
      for (int square = 0; square < 4; ++square) {
        __m128i* at = reinterpret_cast<__m128i*>(row + square * 16);
        if constexpr (kPast) {
          _mm_stream_si128(at, squares[square][i]);
        } else {
          _mm_storeu_si128(at, squares[square][i]);
        }
      }
    }
  }
}

/// A line of the cache as 4-byte elements.
using Line = int32_t __attribute__((vector_size(64)));
/// The same at any address.
using LooseLine = int32_t __attribute__((vector_size(64), aligned(4), may_alias));

/// The same of elements of 4 bytes by vectors of a whole line: lines that a large power of two lies
/// between push each other out of the nearest cache, so each is read once only.
template <bool kPast>
[[gnu::target("avx512f")]] void TransposeLines(const char* from, int64_t from_column, char* to,
                                               int64_t to_row) {
  constexpr Line kLow1 = {0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29};
  constexpr Line kHigh1 = kLow1 + 2;
  constexpr Line kLow2 = {0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29};
  constexpr Line kHigh2 = kLow2 + 2;
  constexpr Line kEven = {0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27};
  constexpr Line kOdd = kEven + 4;
  Line a[16], b[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) a[i] = *reinterpret_cast<const LooseLine*>(from + i * from_column);
    // Single elements, pairs, fours and eights are exchanged between vectors.
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    b[i] = __builtin_shuffle(a[i], a[i + 1], kLow1);
    b[i + 1] = __builtin_shuffle(a[i], a[i + 1], kHigh1);
  }
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    int first = i / 4 * 4 + i % 4 / 2;
    a[i] = __builtin_shuffle(b[first], b[first + 2], kLow2);
    a[i + 1] = __builtin_shuffle(b[first], b[first + 2], kHigh2);
  }
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    int first = i / 4 * 8 + i % 4;
    b[first] = __builtin_shuffle(a[first], a[first + 4], kEven);
    b[first + 4] = __builtin_shuffle(a[first], a[first + 4], kOdd);
  }
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    a[i] = __builtin_shuffle(b[i], b[i + 8], kEven);
    a[i + 8] = __builtin_shuffle(b[i], b[i + 8], kOdd);
  }
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {
    if constexpr (kPast) {
      _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i * to_row),
                          reinterpret_cast<__m512i>(a[i]));
    } else {
      *reinterpret_cast<LooseLine*>(to + i * to_row) = a[i];
    }
  }
}

inline void FinishStores() { _mm_sfence(); }

/// How a square is transposed on this machine, into rows at these addresses.
template <int kBytes, bool kPast>
auto SquareFor(const char* to, int64_t to_row) {
  if constexpr (kBytes == 4) {
    bool aligned = (reinterpret_cast<uintptr_t>(to) | static_cast<uintptr_t>(to_row)) % 64 == 0;
    if (HostFeatures().avx512f && (aligned || !kPast)) return TransposeLines<kPast>;
  }
  return TransposeSquare<kBytes, kPast>;
}

#else

template <int kBytes, bool kPast>
void TransposeSquare(const char* from, int64_t from_column, char* to, int64_t to_row) {
  TransposeElements<kBytes>(from, from_column, to, to_row, 64 / kBytes, 64 / kBytes);
}

inline void FinishStores() {}

template <int kBytes, bool kPast>
auto SquareFor(const char*, int64_t) {
  return TransposeSquare<kBytes, kPast>;
}

#endif

/// to[r * to_row + c] = from[r + c * from_column], both in bytes but for r and c.
template <int kBytes, bool kPast>
void Transpose(const char* from, int64_t from_column, char* to, int64_t to_row, int64_t rows,
               int64_t columns) {
  constexpr int64_t kSide = 64 / kBytes;
  const auto square = SquareFor<kBytes, kPast>(to, to_row);
  int64_t c = 0;
  for (; c + kSide <= columns; c += kSide) {
    int64_t r = 0;
    for (; r + kSide <= rows; r += kSide) {
      square(from + r * kBytes + c * from_column, from_column, to + r * to_row + c * kBytes,
             to_row);
    }
    TransposeElements<kBytes>(from + r * kBytes + c * from_column, from_column,
                              to + r * to_row + c * kBytes, to_row, rows - r, kSide);
  }
  TransposeElements<kBytes>(from + c * from_column, from_column, to + c * kBytes, to_row, rows,
                            columns - c);
}

}  // namespace

void CopyRows(int64_t count, int64_t bytes, const char* from, int64_t from_step, char* to,
              int64_t to_step) {
  if (bytes <= 0 || count <= 0) return;
  if (from_step == bytes && to_step == bytes) {
    bytes *= count;
    count = 1;
  }
  if (bytes > kPiece) {
    int64_t pieces = (bytes + kPiece - 1) / kPiece;
    Spread(count * pieces, kPiece, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        int64_t at = i % pieces * kPiece;
        std::memcpy(to + i / pieces * to_step + at, from + i / pieces * from_step + at,
                    static_cast<size_t>(std::min(kPiece, bytes - at)));
      }
    });
    return;
  }
  Spread(count, bytes, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) CopyRow(to + i * to_step, from + i * from_step, bytes);
  });
}

void CopyBytes(const char* from, char* to, int64_t bytes) {
  CopyRows(1, bytes, from, bytes, to, bytes);
}

StridedCopy::StridedCopy(int64_t element_bytes, const Dims& sizes, const Dims& from_strides,
                         const Dims& to_strides)
    : bytes_(element_bytes) {
  bool in_order = MayCoincide(sizes, to_strides);
  for (int d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 0) return;
    if (sizes[d] == 1) continue;
    dim_[dims_++] = {sizes[d], from_strides[d] * bytes_, to_strides[d] * bytes_};
  }
  if (in_order) {
    kind_ = Kind::kInOrder;
    return;
  }
  std::stable_sort(dim_, dim_ + dims_,
                   [](const Dim& a, const Dim& b) { return std::abs(a.to) > std::abs(b.to); });
  int merged = 0;
  for (int d = 0; d < dims_; ++d) {
    Dim* before = merged > 0 ? &dim_[merged - 1] : nullptr;
    if (before && before->from == dim_[d].from * dim_[d].size &&
        before->to == dim_[d].to * dim_[d].size) {
      *before = {before->size * dim_[d].size, dim_[d].from, dim_[d].to};
    } else {
      dim_[merged++] = dim_[d];
    }
  }
  dims_ = merged;
  auto last_is_row = [&] {
    return dims_ > 0 && dim_[dims_ - 1].from == bytes_ && dim_[dims_ - 1].to == bytes_;
  };
  if (last_is_row()) bytes_ *= dim_[--dims_].size;
  if (dims_ == 0 || (bytes_ != 1 && bytes_ != 2 && bytes_ != 4 && bytes_ != 8)) {
    kind_ = Kind::kRows;
    return;
  }
  kind_ = Kind::kElements;
  if (dim_[dims_ - 1].to != bytes_) return;
  for (int d = 0; d + 1 < dims_; ++d) {
    if (dim_[d].from != bytes_) continue;
    kind_ = Kind::kMatrices;
    row_ = dim_[d];
    column_ = dim_[--dims_];
    std::copy(dim_ + d + 1, dim_ + dims_, dim_ + d);
    --dims_;
    return;
  }
}

const char* StridedCopy::kind() const {
  switch (kind_) {
    case Kind::kNothing:
      return "nothing";
    case Kind::kRows:
      return "rows";
    case Kind::kMatrices:
      return "matrices";
    case Kind::kElements:
      return "elements";
    case Kind::kInOrder:
      return "elements in order";
  }
  return "";
}

namespace {

/// Walks through the dims of a copy from one flat index on.
template <class Dim>
class Walk {
 public:
  Walk(const Dim* dims, int count, int64_t at) : dims_(dims), count_(count) {
    for (int d = count; d-- > 0;) {
      index_[d] = at % dims[d].size;
      at /= dims[d].size;
      from += index_[d] * dims[d].from;
      to += index_[d] * dims[d].to;
    }
  }
  /// The number of remaining elements in the last dim.
  int64_t left() const { return dims_[count_ - 1].size - index_[count_ - 1]; }
  /// `steps` at most left().
  void Advance(int64_t steps) {
    for (int d = count_; d-- > 0; steps = 1) {
      from += steps * dims_[d].from;
      to += steps * dims_[d].to;
      if ((index_[d] += steps) < dims_[d].size) return;
      from -= dims_[d].size * dims_[d].from;
      to -= dims_[d].size * dims_[d].to;
      index_[d] = 0;
    }
  }

  int64_t from = 0;
  int64_t to = 0;

 private:
  const Dim* dims_;
  int count_;
  int64_t index_[kMaxRank];
};

}  // namespace

void StridedCopy::Run(const char* from, char* to) const { RunBy(from, to, /*alone=*/false); }

void StridedCopy::RunBy(const char* from, char* to, bool alone) const {
  switch (kind_) {
    case Kind::kNothing:
      return;
    case Kind::kMatrices:
      return RunMatrices(from, to, alone);
    case Kind::kElements:
    case Kind::kInOrder:
      return RunElements(from, to, alone);
    case Kind::kRows:
      return RunRows(from, to, alone);
  }
}

namespace {

/// Spread, or all of it at once.
template <class F>
void SpreadUnless(bool alone, int64_t count, int64_t work, F f) {
  if (!alone) return Spread(count, work, f);
  if (count > 0) f(int64_t{0}, count);
}

}  // namespace

void StridedCopy::RunRows(const char* from, char* to, bool alone) const {
  if (dims_ == 0 && alone) return CopyRow(to, from, bytes_);
  if (dims_ == 0) return CopyBytes(from, to, bytes_);
  const Dim& last = dim_[dims_ - 1];
  int64_t outer = 1;
  for (int d = 0; d + 1 < dims_; ++d) outer *= dim_[d].size;
  if (outer == 1 && !alone) return CopyRows(last.size, bytes_, from, last.from, to, last.to);
  SpreadUnless(alone, outer * last.size, bytes_, [&](int64_t begin, int64_t end) {
    Walk walk(dim_, dims_, begin);
    for (int64_t at = begin; at < end;) {
      int64_t count = std::min(end - at, walk.left());
      for (int64_t i = 0; i < count; ++i) {
        CopyRow(to + walk.to + i * last.to, from + walk.from + i * last.from, bytes_);
      }
      walk.Advance(count);
      at += count;
    }
  });
}

void StridedCopy::RunElements(const char* from, char* to, bool alone) const {
  const Dim& last = dim_[dims_ - 1];
  int64_t total = 1;
  for (int d = 0; d < dims_; ++d) total *= dim_[d].size;
  auto copy = [&](int64_t begin, int64_t end) {
    VisitBytes(bytes_, [&]<int kBytes>(std::integral_constant<int, kBytes>) {
      Walk walk(dim_, dims_, begin);
      for (int64_t at = begin; at < end;) {
        int64_t count = std::min(end - at, walk.left());
        const char* source = from + walk.from;
        char* target = to + walk.to;
        for (int64_t i = 0; i < count; ++i) {
          std::memcpy(target + i * last.to, source + i * last.from, kBytes);
        }
        walk.Advance(count);
        at += count;
      }
    });
  };
  if (kind_ == Kind::kInOrder) return copy(0, total);
  SpreadUnless(alone, total, 2 * bytes_, copy);
}

void StridedCopy::RunMatrices(const char* from, char* to, bool alone) const {
  constexpr int64_t kPastCache = int64_t{1} << 22;  // bytes that the caches may well not hold
  int64_t side = 64 / bytes_;
  int64_t row_tile = 8 * side;
  int64_t row_tiles = (row_.size + row_tile - 1) / row_tile;
  int64_t column_tile = std::min(4 * side, column_.size);
  int64_t column_tiles = (column_.size + column_tile - 1) / column_tile;
  int64_t outer = 1;
  for (int d = 0; d < dims_; ++d) outer *= dim_[d].size;
  bool past = outer * row_.size * column_.size * bytes_ >= kPastCache &&
              reinterpret_cast<uintptr_t>(to) % 16 == 0 && row_.to % 16 == 0;
  for (int d = 0; d < dims_; ++d) past &= dim_[d].to % 16 == 0;
  auto run = [&]<int kBytes, bool kPast>(std::integral_constant<int, kBytes>,
                                         std::bool_constant<kPast>) {
    int64_t work = std::min(row_tile, row_.size) * column_tile * kBytes;
    int64_t tiles = outer * row_tiles * column_tiles;
    SpreadUnless(alone, tiles, work, [&](int64_t begin, int64_t end) {
      for (int64_t at = begin; at < end; ++at) {
        int64_t column = at % column_tiles * column_tile;
        int64_t row = at / column_tiles % row_tiles * row_tile;
        Walk walk(dim_, dims_, at / column_tiles / row_tiles);
        Transpose<kBytes, kPast>(from + walk.from + row * kBytes + column * column_.from,
                                 column_.from, to + walk.to + row * row_.to + column * kBytes,
                                 row_.to, std::min(row_tile, row_.size - row),
                                 std::min(column_tile, column_.size - column));
      }
      if (kPast) FinishStores();
    });
  };
  VisitBytes(bytes_, [&](auto bytes) {
    past ? run(bytes, std::bool_constant<true>()) : run(bytes, std::bool_constant<false>());
  });
}

}  // namespace hammock::cpu
