#pragma once
/// Copies of rows and of strided elements, on several threads if there is enough work.

#include "hammock/ir/shape.h"

namespace hammock::cpu {

/// `count` rows of `bytes`, each `from_step` and `to_step` bytes behind the one before.
void CopyRows(int64_t count, int64_t bytes, const char* from, int64_t from_step, char* to,
              int64_t to_step);

/// memcpy; nothing may be null if `bytes` is 0.
void CopyBytes(const char* from, char* to, int64_t bytes);

/// to[sum of i * to_strides] = from[sum of i * from_strides] for every index i below `sizes`, all
/// in elements of 1, 2, 4 or 8 bytes; strides may be negative or, in `from`, 0. Where positions in
/// `to` coincide, the last one in row-major order stays.
///
/// The constructor orders the dims by their strides in `to` and merges them. The copy is then one
/// of rows, of transposed matrices, or of single elements if neither side is contiguous.
class StridedCopy {
 public:
  StridedCopy() = default;  ///< copies nothing
  StridedCopy(int64_t element_bytes, const Dims& sizes, const Dims& from_strides,
              const Dims& to_strides);

  void Run(const char* from, char* to) const;
  /// Runs on the calling thread alone, for copies that are one task among several.
  void RunAlone(const char* from, char* to) const { RunBy(from, to, /*alone=*/true); }
  const char* kind() const;  ///< for people and tests

 private:
  enum class Kind { kNothing, kRows, kMatrices, kElements, kInOrder };
  struct Dim {
    int64_t size;
    int64_t from;  // bytes
    int64_t to;
  };

  void RunBy(const char* from, char* to, bool alone) const;
  void RunRows(const char* from, char* to, bool alone) const;
  void RunElements(const char* from, char* to, bool alone) const;
  void RunMatrices(const char* from, char* to, bool alone) const;

  Kind kind_ = Kind::kNothing;
  int dims_ = 0;
  Dim dim_[kMaxRank] = {};
  int64_t bytes_ = 0;  // of an element, or of a row
  Dim row_ = {};       // of matrices: along it `from` is contiguous
  Dim column_ = {};    // of matrices: along it `to` is contiguous
};

}  // namespace hammock::cpu
