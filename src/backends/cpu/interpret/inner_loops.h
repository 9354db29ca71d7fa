#pragma once
/// The innermost loops of matmuls, for the instructions that this processor has. Every element's
/// terms are added in an order that depends on the number of terms alone.

#include <cstdint>

#include "hammock/ir/half.h"

namespace hammock::cpu {

/// c[rows, width] += a[rows, k] * b[k, width]. `Sum` is float, double, uint32_t or uint64_t.
template <class Sum>
struct TileLoop {
  static constexpr int kMaxWidth = 32;

  int width;
  void (*run)(int64_t rows, int64_t k, const Sum* a, int64_t a_row, int64_t a_column, const Sum* b,
              Sum* c);
};

/// A tile for matmuls with n columns: narrower where that wastes less.
template <class Sum>
const TileLoop<Sum>& TileLoopFor(int64_t n);

/// The two matmuls of a matrix and a vector. `Sum` is what is computed in: float for T = float,
/// Half and BFloat16, double for double.
template <class T, class Sum>
struct VectorLoops {
  /// out[i] = sum of w[i * stride + j] * x[j] over j < k, for i < count.
  void (*dots)(int64_t count, int64_t k, const T* w, int64_t stride, const Sum* x, Sum* out);
  /// out[i] += sum of w[j * stride + i] * x[j] over j < k, for i < count.
  void (*rows)(int64_t count, int64_t k, const T* w, int64_t stride, const Sum* x, Sum* out);
};

template <class T, class Sum>
const VectorLoops<T, Sum>& VectorLoopsFor();

/// out[i] = in[i] for i < count.
void WidenHalves(int64_t count, const Half* in, float* out);

}  // namespace hammock::cpu
