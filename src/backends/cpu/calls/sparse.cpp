#include "backends/cpu/calls/sparse.h"

#include <algorithm>
#include <concepts>
#include <cstring>
#include <type_traits>

#include "backends/cpu/host/cpu_features.h"
#include "ops/sparse/sparse_matmul.h"

namespace hammock::cpu {
namespace {

using Operands = std::span<const char* const>;
using Results = std::span<char* const>;

// ---- Lines: rows of dense matrices. The order of additions does not depend on the number of
// threads: each result is summed element by element, in the order in which these are stored.

/// 64 bytes, which the compiler divides into the registers that there are.
template <class T>
struct VectorOf {
  using Type [[gnu::vector_size(64)]] = T;
};

#define HAMMOCK_SPARSE_LINES(Name, TARGET)                                                \
  template <class T, class I>                                                             \
  struct Name##Lines {                                                                    \
    using V = typename VectorOf<T>::Type;                                                 \
    static constexpr int64_t kLanes = sizeof(V) / sizeof(T);                              \
    template <int kVectors>                                                               \
    TARGET static void Block(const T* x, int64_t stride, const I* index, const T* values, \
                             int64_t count, T* out) {                                     \
      V sums[kVectors] = {};                                                              \
      for (int64_t j = 0; j < count; ++j) {                                               \
        const T* line = x + static_cast<int64_t>(index[j]) * stride;                      \
        for (int i = 0; i < kVectors; ++i) {                                              \
          V lanes;                                                                        \
          std::memcpy(&lanes, line + i * kLanes, sizeof(V));                              \
          sums[i] += lanes * values[j];                                                   \
        }                                                                                 \
      }                                                                                   \
      std::memcpy(out, sums, sizeof(sums));                                               \
    }                                                                                     \
    TARGET static void Narrow(const T* x, int64_t stride, int64_t width, const I* index,  \
                              const T* values, int64_t count, T* out) {                   \
      T sums[kLanes] = {};                                                                \
      for (int64_t j = 0; j < count; ++j) {                                               \
        const T* line = x + static_cast<int64_t>(index[j]) * stride;                      \
        for (int64_t i = 0; i < width; ++i) sums[i] += line[i] * values[j];               \
      }                                                                                   \
      std::copy_n(sums, width, out);                                                      \
    }                                                                                     \
    /* Two sums, which do not wait for each other. */                                     \
    TARGET static void SumOne(const T* x, const I* index, const T* values, int64_t count, \
                              T* out) {                                                   \
      T even = 0, odd = 0;                                                                \
      int64_t j = 0;                                                                      \
      for (; j + 2 <= count; j += 2) {                                                    \
        even += values[j] * x[index[j]];                                                  \
        odd += values[j + 1] * x[index[j + 1]];                                           \
      }                                                                                   \
      if (j < count) even += values[j] * x[index[j]];                                     \
      *out = even + odd;                                                                  \
    }                                                                                     \
    /* out[i] = the sum over elements of values[j] * x[index[j]][i]. */                   \
    TARGET static void Sum(const T* x, int64_t width, const I* index, const T* values,    \
                           int64_t count, T* out) {                                       \
      if (width == 1) return SumOne(x, index, values, count, out);                        \
      int64_t i = 0;                                                                      \
      for (; i + 4 * kLanes <= width; i += 4 * kLanes)                                    \
        Block<4>(x + i, width, index, values, count, out + i);                            \
      for (; i + kLanes <= width; i += kLanes)                                            \
        Block<1>(x + i, width, index, values, count, out + i);                            \
      if (i < width) Narrow(x + i, width, width - i, index, values, count, out + i);      \
    }                                                                                     \
    /* Rows of a CSR matrix, of which the first begins at crow[0]. */                     \
    TARGET static void Matrix(const T* x, int64_t width, const I* crow, const I* col,     \
                              const T* values, int64_t rows, T* out) {                    \
      for (int64_t row = 0; row < rows; ++row) {                                          \
        const int64_t first = crow[row], last = crow[row + 1];                            \
        Sum(x, width, col + first, values + first, last - first, out + row * width);      \
      }                                                                                   \
    }                                                                                     \
    TARGET static void Add(const T* x, T value, int64_t width, T* out) {                  \
      int64_t i = 0;                                                                      \
      for (; i + kLanes <= width; i += kLanes) {                                          \
        V lanes, sums;                                                                    \
        std::memcpy(&lanes, x + i, sizeof(V));                                            \
        std::memcpy(&sums, out + i, sizeof(V));                                           \
        sums += lanes * value;                                                            \
        std::memcpy(out + i, &sums, sizeof(V));                                           \
      }                                                                                   \
      for (; i < width; ++i) out[i] += x[i] * value;                                      \
    }                                                                                     \
    /* The largest index, where a negative one is larger than all others. */              \
    TARGET static uint64_t Highest(const I* index, int64_t count) {                       \
      using U = std::make_unsigned_t<I>;                                                  \
      using W = typename VectorOf<U>::Type;                                               \
      constexpr int64_t kWide = sizeof(W) / sizeof(U);                                    \
      W highest = {};                                                                     \
      int64_t i = 0;                                                                      \
      for (; i + kWide <= count; i += kWide) {                                            \
        W lanes;                                                                          \
        std::memcpy(&lanes, index + i, sizeof(W));                                        \
        highest = lanes > highest ? lanes : highest;                                      \
      }                                                                                   \
      U result = 0;                                                                       \
      for (int64_t k = 0; k < kWide; ++k) result = std::max(result, U{highest[k]});       \
      for (; i < count; ++i) result = std::max(result, static_cast<U>(index[i]));         \
      return result;                                                                      \
    }                                                                                     \
    TARGET static T Dot(const T* a, const T* b, int64_t width) {                          \
      V sums = {};                                                                        \
      int64_t i = 0;                                                                      \
      for (; i + kLanes <= width; i += kLanes) {                                          \
        V left, right;                                                                    \
        std::memcpy(&left, a + i, sizeof(V));                                             \
        std::memcpy(&right, b + i, sizeof(V));                                            \
        sums += left * right;                                                             \
      }                                                                                   \
      T total = 0;                                                                        \
      for (; i < width; ++i) total += a[i] * b[i];                                        \
      for (int64_t k = 0; k < kLanes; ++k) total += sums[k];                              \
      return total;                                                                       \
    }                                                                                     \
  };                                                                                      \
  struct Name {                                                                           \
    template <class T, class I>                                                           \
    using Of = Name##Lines<T, I>;                                                         \
  };
HAMMOCK_FOR_PROCESSORS(HAMMOCK_SPARSE_LINES)
#undef HAMMOCK_SPARSE_LINES

template <class T, class I>
struct Lines {
  void (*sum)(const T*, int64_t, const I*, const T*, int64_t, T*);
  void (*matrix)(const T*, int64_t, const I*, const I*, const T*, int64_t, T*);
  void (*add)(const T*, T, int64_t, T*);
  T (*dot)(const T*, const T*, int64_t);
  uint64_t (*highest)(const I*, int64_t);

  static const Lines& Get() {
    static const Lines lines = [] {
      auto of = [](auto kind) {
        using Loops = typename decltype(kind)::template Of<T, I>;
        return Lines{Loops::Sum, Loops::Matrix, Loops::Add, Loops::Dot, Loops::Highest};
      };
      return HAMMOCK_VISIT_PROCESSOR(of);
    }();
    return lines;
  }
};

// ---- Calls

/// Counted from the end: 1 is the last size.
int64_t SizeFromEnd(const Shape& type, int dim) { return type.size(type.rank() - dim); }

/// Indices of rows and of columns are in one dtype of the two.
bool Suits(const Graph& graph, const GraphNode& node) {
  DType dtype = node.type().dtype(), index = graph.TypeOf(node.inputs[1]).dtype();
  return (dtype == DType::kF32 || dtype == DType::kF64) &&
         (index == DType::kI64 || index == DType::kI32) &&
         graph.TypeOf(node.inputs[0]).dtype() == index;
}

/// The base of the three sparse calls: a batch of matrices, elements and their indices. `Self` has
/// a template `Compute<T, I>(in, out)` for values of T and indices of I.
template <class Self>
class SparseCall : public Call {
 public:
  SparseCall(const Graph& graph, const GraphNode& node)
      : node_(node),
        wide_index_(graph.TypeOf(node.inputs[1]).dtype() == DType::kI64),
        wide_value_(node.type().dtype() == DType::kF64) {
    const Shape& index = graph.TypeOf(node.inputs[1]);
    count_ = SizeFromEnd(index, 1);
    batch_ = index.rank() == 2 ? index.size(0) : 1;
  }

  void Run(Operands in, Results out, char*) const override {
    const Self& self = static_cast<const Self&>(*this);
    auto with_values = [&]<class T>(T) {
      T* results = reinterpret_cast<T*>(out[0]);
      wide_index_ ? self.template Compute<T, int64_t>(in, results)
                  : self.template Compute<T, int32_t>(in, results);
    };
    wide_value_ ? with_values(double()) : with_values(float());
  }
  const char* kernel() const override { return "sparse lines"; }

 protected:
  template <class I>
  void CheckIndices(const I* indices, const char* what, int64_t extent) const {
    Spread(batch_ * count_, sizeof(I),
           [&](int64_t begin, int64_t end) { CheckIndices(indices, begin, end, what, extent); });
  }
  /// A part of the indices.
  template <class I>
  void CheckIndices(const I* indices, int64_t begin, int64_t end, const char* what,
                    int64_t extent) const {
    uint64_t highest = Lines<float, I>::Get().highest(indices + begin, end - begin);
    if (begin == end || highest < static_cast<uint64_t>(extent)) return;
    for (int64_t i = begin; i < end; ++i) {
      if (indices[i] >= 0 && indices[i] < extent) continue;
      FailNode(node_, ErrorCode::kIndexOutOfRange, "{} {} of element {} is not below {}", what,
               indices[i], i % std::max<int64_t>(count_, 1), extent);
    }
  }

  const GraphNode& node_;
  int64_t count_ = 0, batch_ = 1;

 private:
  bool wide_index_, wide_value_;
};

/// Of a sparse matrix, operands 0 to 2, and a dense one.
template <class Self>
class SparseMatmulCall : public SparseCall<Self> {
 public:
  SparseMatmulCall(const Graph& graph, const GraphNode& node)
      : SparseCall<Self>(graph, node),
        rows_(SizeFromEnd(node.type(), 2)),
        width_(SizeFromEnd(node.type(), 1)),
        depth_(SizeFromEnd(graph.TypeOf(node.inputs[3]), 2)) {}

 protected:
  const int64_t rows_, width_, depth_;
};

class CsrMatmulCall : public SparseMatmulCall<CsrMatmulCall> {
 public:
  using SparseMatmulCall::SparseMatmulCall;

  template <class T, class I>
  void Compute(Operands in, T* out) const {
    const I *crow = reinterpret_cast<const I*>(in[0]), *col = reinterpret_cast<const I*>(in[1]);
    const T *values = reinterpret_cast<const T*>(in[2]), *x = reinterpret_cast<const T*>(in[3]);
    for (int64_t b = 0; b < batch_; ++b) CheckRows(crow + b * (rows_ + 1));
    const Lines<T, I>& lines = Lines<T, I>::Get();
    const int64_t work = (count_ / std::max<int64_t>(rows_, 1) + 1) * (width_ + 2) * sizeof(T);
    Spread(batch_ * rows_, work, [&](int64_t begin, int64_t end) {
      while (begin < end) {
        const int64_t b = begin / rows_, row = begin % rows_;
        const I* starts = crow + b * (rows_ + 1) + row;
        const int64_t rows = RowsOfBlock(starts, std::min(end - begin, rows_ - row));
        CheckIndices(col, b * count_ + starts[0], b * count_ + starts[rows], "column", depth_);
        lines.matrix(x + b * depth_ * width_, width_, starts, col + b * count_, values + b * count_,
                     rows, out + begin * width_);
        begin += rows;
      }
    });
  }

 private:
  /// So many rows that their indices, which are checked before they are used, stay in the cache.
  template <class I>
  static int64_t RowsOfBlock(const I* starts, int64_t most) {
    constexpr int64_t kElements = 2048;
    const I* end = std::upper_bound(starts + 1, starts + most, starts[0] + kElements);
    return std::max<int64_t>(end - starts - 1, 1);
  }

  template <class I>
  void CheckRows(const I* crow) const {
    bool good = crow[0] >= 0 && crow[rows_] <= count_;
    for (int64_t row = 0; row < rows_; ++row) good &= crow[row] <= crow[row + 1];
    if (good) return;
    FailNode(node_, ErrorCode::kIndexOutOfRange,
             "crow must grow from 0 to the {} elements that there are", count_);
  }
};

class CooMatmulCall : public SparseMatmulCall<CooMatmulCall> {
 public:
  using SparseMatmulCall::SparseMatmulCall;

  template <class T, class I>
  void Compute(Operands in, T* out) const {
    const I *row = reinterpret_cast<const I*>(in[0]), *col = reinterpret_cast<const I*>(in[1]);
    const T *values = reinterpret_cast<const T*>(in[2]), *x = reinterpret_cast<const T*>(in[3]);
    CheckIndices(row, "row", rows_);
    CheckIndices(col, "column", depth_);
    const Lines<T, I>& lines = Lines<T, I>::Get();
    for (int64_t b = 0; b < batch_; ++b) {
      const I *r = row + b * count_, *c = col + b * count_;
      T* to = out + b * rows_ * width_;
      const T *v = values + b * count_, *from = x + b * depth_ * width_;
      if (std::is_sorted(r, r + count_)) {
        InOrder(lines, r, c, v, from, to);
      } else {
        AnyOrder(lines, r, c, v, from, to);
      }
    }
  }

 private:
  /// Threads divide the rows; those of each are next to each other.
  template <class T, class I>
  void InOrder(const Lines<T, I>& lines, const I* row, const I* col, const T* values, const T* x,
               T* out) const {
    const int64_t work = (count_ / std::max<int64_t>(rows_, 1) + 1) * (width_ + 2) * sizeof(T);
    Spread(rows_, work, [&](int64_t begin, int64_t end) {
      int64_t j = std::lower_bound(row, row + count_, static_cast<I>(begin)) - row;
      for (int64_t i = begin; i < end; ++i) {
        int64_t first = j;
        while (j < count_ && row[j] == i) ++j;
        lines.sum(x, width_, col + first, values + first, j - first, out + i * width_);
      }
    });
  }

  /// Threads divide the columns of the result.
  template <class T, class I>
  void AnyOrder(const Lines<T, I>& lines, const I* row, const I* col, const T* values, const T* x,
                T* out) const {
    constexpr int64_t kPart = 64 / sizeof(T);
    const int64_t parts = (width_ + kPart - 1) / kPart;
    Spread(parts, (rows_ + 2 * count_) * 64, [&](int64_t begin, int64_t end) {
      const int64_t first = begin * kPart, width = std::min(end * kPart, width_) - first;
      for (int64_t i = 0; i < rows_; ++i) std::fill_n(out + i * width_ + first, width, T(0));
      for (int64_t j = 0; j < count_; ++j) {
        lines.add(x + static_cast<int64_t>(col[j]) * width_ + first, values[j], width,
                  out + static_cast<int64_t>(row[j]) * width_ + first);
      }
    });
  }
};

class SampledMatmulCall : public SparseCall<SampledMatmulCall> {
 public:
  SampledMatmulCall(const Graph& graph, const GraphNode& node)
      : SparseCall(graph, node),
        a_rows_(SizeFromEnd(graph.TypeOf(node.inputs[2]), 2)),
        b_rows_(SizeFromEnd(graph.TypeOf(node.inputs[3]), 2)),
        width_(SizeFromEnd(graph.TypeOf(node.inputs[2]), 1)) {}

  template <class T, class I>
  void Compute(Operands in, T* out) const {
    const I *row = reinterpret_cast<const I*>(in[0]), *col = reinterpret_cast<const I*>(in[1]);
    const T *a = reinterpret_cast<const T*>(in[2]), *b = reinterpret_cast<const T*>(in[3]);
    CheckIndices(row, "row", a_rows_);
    CheckIndices(col, "column", b_rows_);
    const Lines<T, I>& lines = Lines<T, I>::Get();
    Spread(batch_ * count_, 2 * width_ * static_cast<int64_t>(sizeof(T)) + 16,
           [&](int64_t begin, int64_t end) {
             for (int64_t j = begin; j < end; ++j) {
               const int64_t matrix = j / count_;
               out[j] = lines.dot(a + (matrix * a_rows_ + row[j]) * width_,
                                  b + (matrix * b_rows_ + col[j]) * width_, width_);
             }
           });
  }

 private:
  int64_t a_rows_, b_rows_, width_;
};

template <class T>
std::unique_ptr<Call> MakeSuited(const Graph& graph, const GraphNode& node) {
  return Suits(graph, node) ? std::make_unique<T>(graph, node) : nullptr;
}

constexpr CallEntry kCalls[] = {{&ops::kCsrMatmul, MakeSuited<CsrMatmulCall>},
                                {&ops::kCooMatmul, MakeSuited<CooMatmulCall>},
                                {&ops::kSampledMatmul, MakeSuited<SampledMatmulCall>}};

}  // namespace

std::span<const CallEntry> SparseCalls() { return kCalls; }

bool RunsWholeSparse(const Graph& graph, const GraphNode& node) {
  bool sparse =
      node.op == &ops::kCsrMatmul || node.op == &ops::kCooMatmul || node.op == &ops::kSampledMatmul;
  return sparse && Suits(graph, node);
}

}  // namespace hammock::cpu
