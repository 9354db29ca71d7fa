#include "backends/cpu/calls/attention_kit.h"

#include <cstring>
#include <limits>

#include "backends/cpu/interpret/scalar_loops.h"
#include "ir/convert.h"

namespace hammock::cpu {

void Panels::Fill(const float* x) const {
  for (int64_t panel = 0; panel < count(); ++panel) {
    int64_t first = panel * width_;
    int64_t columns = std::min<int64_t>(width_, columns_ - first);
    for (int64_t term = 0; term < terms_; ++term) {
      float* to = data_ + (panel * terms_ + term) * width_;
      std::memcpy(to, x + term * columns_ + first, static_cast<size_t>(columns) * sizeof(float));
      std::fill(to + columns, to + width_, 0.0f);
    }
  }
}

void Panels::FillTransposed(const float* x) const {
  for (int64_t panel = 0; panel < count(); ++panel) {
    int64_t first = panel * width_;
    int64_t columns = std::min<int64_t>(width_, columns_ - first);
    float* to = data_ + panel * terms_ * width_;
    if (columns < width_) std::fill_n(to, terms_ * width_, 0.0f);
    for (int64_t j = 0; j < columns; ++j) {
      const float* from = x + (first + j) * terms_;
      for (int64_t term = 0; term < terms_; ++term) to[term * width_ + j] = from[term];
    }
  }
}

bool AttentionSpec::Suits(const Graph& graph, const GraphNode& node, size_t query) {
  DType dtype = graph.TypeOf(node.inputs[query]).dtype();
  if (dtype != DType::kF32 && dtype != DType::kF16 && dtype != DType::kBF16) return false;
  GraphValue mask = node.inputs[query + 3];
  if (!mask.node) return true;
  DType of_mask = graph.TypeOf(mask).dtype();
  return of_mask == DType::kBool || of_mask == DType::kF32 || of_mask == DType::kF16 ||
         of_mask == DType::kBF16;
}

AttentionSpec::AttentionSpec(const Graph& graph, const GraphNode& node, size_t query)
    : dtype(graph.TypeOf(node.inputs[query]).dtype()),
      is_causal(node.attrs[0].boolean()),
      scale(static_cast<float>(node.attrs[1].real())),
      loop(TileLoopFor<float>(TileLoop<float>::kMaxWidth)) {
  const Shape& q = graph.TypeOf(node.inputs[query]);
  const Shape& k = graph.TypeOf(node.inputs[query + 1]);
  const Shape& v = graph.TypeOf(node.inputs[query + 2]);
  int rank = q.rank();
  for (int d = 0; d + 2 < rank; ++d) {
    batch_.push_back(q.size(d));
    parts *= q.size(d);
  }
  queries = q.size(rank - 2);
  width = q.size(rank - 1);
  keys = k.size(rank - 2);
  out_width = v.size(rank - 1);
  GraphValue mask = node.inputs[query + 3];
  if (!mask.node) return;
  has_mask_ = true;
  const Shape& m = graph.TypeOf(mask);
  mask_dtype_ = m.dtype();
  Dims strides = ContiguousStrides(m.sizes());
  auto stride = [&](int from_end) {
    int d = m.rank() - from_end;
    return d < 0 || m.size(d) == 1 ? 0 : strides[d];
  };
  mask_column_ = stride(1);
  mask_row_ = stride(2);
  for (int d = 0; d + 2 < rank; ++d) mask_batch_.push_back(stride(rank - d));
}

const float* AttentionSpec::Load(const char* data, int64_t begin, int64_t count,
                                 float* memory) const {
  if (dtype == DType::kF32) return reinterpret_cast<const float*>(data) + begin;
  WidenLoopFor(dtype)(count, data + begin * 2, memory);
  return memory;
}

void AttentionSpec::Store(const float* from, int64_t count, char* data, int64_t begin) const {
  if (dtype == DType::kF32) {
    std::memcpy(data + begin * 4, from, static_cast<size_t>(count) * sizeof(float));
  } else {
    RoundLoopFor(dtype)(count, from, data + begin * 2);
  }
}

void AttentionSpec::Mask(const char* mask, int64_t part, int64_t query, int64_t key, int64_t count,
                         float* row, float* memory) const {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  if (is_causal) {
    for (int64_t j = std::max<int64_t>(query + 1 - key, 0); j < count; ++j) row[j] = kNever;
  }
  if (!has_mask_) return;
  int64_t at = BatchOffset(batch_, mask_batch_, part) + query * mask_row_ + key * mask_column_;
  if (mask_dtype_ == DType::kBool) {
    const char* bytes = mask + at;
    for (int64_t j = 0; j < count; ++j) row[j] = bytes[j * mask_column_] ? row[j] : kNever;
    return;
  }
  const float* added = reinterpret_cast<const float*>(mask) + at;
  if (mask_dtype_ != DType::kF32) {
    WidenLoopFor(mask_dtype_)(mask_column_ == 0 ? 1 : count, mask + at * 2, memory);
    added = memory;
  }
  for (int64_t j = 0; j < count; ++j) row[j] += added[j * mask_column_];
}

void AttentionSpec::Multiply(int64_t rows, int64_t terms, const float* a, const Panels& b,
                             int64_t column, int64_t count, float* tile, float* out,
                             int64_t out_row) const {
  int64_t step = loop.width;
  for (int64_t j = 0; j < count; j += step) {
    std::fill_n(tile, rows * step, 0.0f);
    loop.run(rows, terms, a, terms, 1, b.at((column + j) / step, 0), tile);
    int64_t columns = std::min(step, count - j);
    for (int64_t i = 0; i < rows; ++i) {
      std::memcpy(out + i * out_row + j, tile + i * step,
                  static_cast<size_t>(columns) * sizeof(float));
    }
  }
}

}  // namespace hammock::cpu
