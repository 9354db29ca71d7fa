#pragma once
/// Helpers of attention and its gradient. All is computed in f32, in blocks of queries and keys.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/cpu/calls/softmax_loops.h"
#include "backends/cpu/interpret/inner_loops.h"
#include "backends/cpu/matmul/matmul_kernel.h"
#include "hammock/ir/graph.h"

namespace hammock::cpu {

/// Carver: divides a block of memory into parts, or only counts their bytes.
class Carver {
 public:
  explicit Carver(char* memory = nullptr) : memory_(memory) {}
  float* Floats(int64_t count) {
    char* at = memory_ ? memory_ + used_ : nullptr;
    used_ += RoundUp(count * static_cast<int64_t>(sizeof(float)), 64);
    return reinterpret_cast<float*>(at);
  }
  int64_t used() const { return used_; }

 private:
  char* memory_;
  int64_t used_ = 0;
};

/// The right operand of a matmul in panels that the innermost loop reads sequentially: panel after
/// panel, each with a row of `width` elements for every term; 0 beyond the last column.
class Panels {
 public:
  Panels() = default;
  Panels(int64_t terms, int64_t columns, int width, float* data)
      : terms_(terms), columns_(columns), width_(width), data_(data) {}
  static int64_t Size(int64_t terms, int64_t columns, int width) {
    return terms * RoundUp(columns, width);
  }

  int64_t count() const { return CeilDiv(columns_, width_); }
  const float* at(int64_t panel, int64_t term) const {
    return data_ + (panel * terms_ + term) * width_;
  }
  /// From x[terms, columns], or x[columns, terms].
  void Fill(const float* x) const;
  void FillTransposed(const float* x) const;

 private:
  int64_t terms_ = 0, columns_ = 0;
  int width_ = 1;
  float* data_ = nullptr;
};

/// Sizes and dtypes of the operands, and the mask.
struct AttentionSpec {
  AttentionSpec(const Graph& graph, const GraphNode& node, size_t query);

  static bool Suits(const Graph& graph, const GraphNode& node, size_t query);

  DType dtype;
  int64_t parts = 1;                 ///< product of the batch sizes
  int64_t queries = 0, keys = 0;     ///< L, S
  int64_t width = 0, out_width = 0;  ///< E, V
  bool is_causal;
  float scale;
  const TileLoop<float>& loop;  ///< for all of its matmuls

  /// Elements of `dtype` as floats: themselves, or converted into `memory`.
  const float* Load(const char* data, int64_t begin, int64_t count, float* memory) const;
  void Store(const float* from, int64_t count, char* data, int64_t begin) const;
  /// Masks a row of scores of keys [key, key + count). `mask` may be null; `memory` holds `count`.
  void Mask(const char* mask, int64_t part, int64_t query, int64_t key, int64_t count, float* row,
            float* memory) const;
  /// out[rows, count] = a[rows, terms] * b, for columns [column, column + count) of b, which begin
  /// a panel; rows of `out` are `out_row` apart. `tile` holds a panel of `rows`.
  void Multiply(int64_t rows, int64_t terms, const float* a, const Panels& b, int64_t column,
                int64_t count, float* tile, float* out, int64_t out_row) const;

 private:
  bool has_mask_ = false;
  DType mask_dtype_ = DType::kBool;
  Dims batch_, mask_batch_;  // sizes, and strides of the mask
  int64_t mask_row_ = 0, mask_column_ = 0;
};

}  // namespace hammock::cpu
