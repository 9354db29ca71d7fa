#pragma once
/// Fourier transforms along one dim of a tensor in memory, by the threads of the pool.
///
/// Rows are transformed together, one in each lane of a vector (lane_fft.h). Few rows, or rows that
/// no cache holds, are transformed one at a time: a row of n1 * n2 elements is a matrix, whose
/// columns and then rows are the lanes. Which way is taken follows from sizes alone, so results do
/// not depend on the number of threads.

#include <cstdint>
#include <memory>
#include <vector>

#include "backends/common/call_axis.h"
#include "backends/cpu/fft/lane_fft.h"

namespace hammock::cpu {

enum class FftKind : uint8_t { kComplex, kRealToComplex, kComplexToReal };

/// One row of complex numbers one after the other. Immutable.
template <class T>
class LongFft {
 public:
  explicit LongFft(int64_t size);
  /// Whether rows of this size can be split.
  static bool Splits(int64_t size);

  /// Elements of T that Run needs, for so many workers.
  int64_t scratch(int workers) const;
  /// Forward, or backward; `from` may be `to`.
  void Run(const T* from, T* to, T scale, bool forward, T* scratch, int workers) const;

 private:
  void RunSplit(const T* from, T* to, T scale, bool forward, T* temporary, T* planes,
                int workers) const;
  /// Two pairs of planes for the larger of both sides.
  int64_t worker_scratch() const;

  int64_t size_, length_;  // length_: that of the convolution if the size has large factors
  int64_t rows_, columns_;
  std::shared_ptr<const LaneFft<T>> along_rows_, along_columns_;
  // exp(-2 pi i j / length) is a product of one of each.
  int64_t coarse_step_;
  std::vector<double> fine_, coarse_;
  std::vector<T> lane_roots_;
  std::vector<T> chirp_, spectrum_;
};

/// All rows along a dim. Immutable.
template <class T>
class RowFft {
 public:
  /// `axis` is that of the real side, or of both.
  RowFft(FftKind kind, const CallAxis& axis, bool forward, T scale);
  int64_t scratch_bytes() const;
  /// `from` may be `to` for transforms of complex numbers.
  void Run(const char* from, char* to, char* scratch) const;
  const char* name() const { return long_ ? "fft by rows" : "fft by lanes"; }

 private:
  void RunLanes(const T* from, T* to, T* scratch) const;
  void RunLong(const T* from, T* to, T* scratch) const;

  FftKind kind_;
  CallAxis axis_;
  bool forward_;
  T scale_;
  int64_t bins_;        // elements of a row on the complex side
  bool pairs_ = false;  // of real numbers, transformed as complex ones
  int64_t size_;        // of the transform of complex numbers
  int workers_;
  std::vector<T> roots_;  // of pairs
  std::shared_ptr<const LaneFft<T>> lanes_;
  std::unique_ptr<LongFft<T>> long_;
};

}  // namespace hammock::cpu
