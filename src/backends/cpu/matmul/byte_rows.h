#pragma once
/// Matmuls of two matrices of bytes, the second transposed, summed in i32: integer kernels for
/// processors that multiply bytes (AVX-512 VNNI), and for AVX2.

#include <cstdint>

#include "backends/cpu/host/thread_pool.h"

namespace hammock::cpu {

/// out[m, n] = sum over k of a[m, k] * b[n, k]; b is signed. Sums wrap.
struct ByteRowsSpec {
  int64_t m = 0, n = 0, k = 0;
  bool a_signed = true;
};

class ByteRows {
 public:
  enum class Level { kPlain, kAvx2, kVnni };

  explicit ByteRows(const ByteRowsSpec& spec) : spec_(spec), level_(Best()) {}
  int64_t scratch_bytes() const { return spec_.n * 4; }
  void Run(const void* a, const void* b, void* out, char* scratch, ThreadPool& pool) const;
  const char* kernel() const;  ///< "rows of bytes vnni", ...

  static Level Best();
  /// For tests: all levels up to the best one work.
  void SetLevel(Level level) { level_ = level; }

 private:
  ByteRowsSpec spec_;
  Level level_;
};

}  // namespace hammock::cpu
