#pragma once
/// Matmuls of a few rows with a quantised matrix, transposed, by our own kernels: decoding with
/// weights of 8 or 4 bits consists of them. They read each weight once, at the speed of memory.

#include <cstdint>

#include "backends/cpu/host/thread_pool.h"
#include "hammock/ir/dtype.h"

namespace hammock::cpu {

/// out[m, n] = sum over k of x[m, k] * (weight[n, k] - zero[n, k / group]) * scale[n, k / group]
///             + bias[n]
struct QuantizedRowsSpec {
  int64_t m = 0, n = 0, k = 0;
  int64_t group = 0;          ///< elements of a row that share a scale; divides k
  DType x = DType::kF32;      ///< of x and the result: f32, bf16 or f16
  DType weight = DType::kI8;  ///< i8, u8, i4 or u4
  DType scale = DType::kF32;  ///< f32, bf16 or f16
  DType zero = DType::kI8;    ///< of zero points: i8, u8, i4, u4
  /// Steps of scale and zero from a row to the next: 0 where all rows share them.
  int64_t scale_stride = 0, zero_stride = 0;
};

struct QuantizedRowsPointers {
  const void* x = nullptr;
  const void* weight = nullptr;
  const void* scale = nullptr;
  const void* zero = nullptr;  ///< null: zero points are 0
  const void* bias = nullptr;  ///< of the result's dtype; may be null
  void* out = nullptr;
};

/// Chosen by shape, dtypes and processor. Sums are f32, of whole blocks of a row in order; each row
/// is summed by one thread.
class QuantizedRows {
 public:
  /// Whether there is a kernel for it; `spec.m` rows of x are read for every row of weights.
  static bool Takes(const QuantizedRowsSpec& spec);
  static constexpr int64_t kMostRows = 16;

  explicit QuantizedRows(const QuantizedRowsSpec& spec);
  int64_t scratch_bytes() const;
  void Run(const QuantizedRowsPointers& pointers, char* scratch, ThreadPool& pool) const;
  const char* kernel() const;  ///< "quantised rows avx512 bf16", ...

  /// Instructions that kernels differ by. Tests run all that the processor has.
  enum class Level { kPlain, kAvx2, kAvx512, kBf16 };
  static Level Best(const QuantizedRowsSpec& spec);
  void SetLevel(Level level) { level_ = level; }

 private:
  QuantizedRowsSpec spec_;
  Level level_;
};

}  // namespace hammock::cpu
