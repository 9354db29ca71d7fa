// Calls that read or write elements at the positions in a tensor of indices.

#include <cstring>

#include "backends/cpu/calls/call_kit.h"
#include "backends/cpu/host/strided_copy.h"
#include "ir/primitives.h"

namespace hammock::cpu {
namespace {

using Operands = std::span<const char* const>;
using Results = std::span<char* const>;

/// A 0-d tensor counts as a vector of one.
Dims AtLeastVector(const Dims& sizes) { return sizes.empty() ? Dims{1} : sizes; }

/// The index operand of a node: in i64, checked. Indices of other dtypes are converted in scratch
/// memory.
class Indices {
 public:
  Indices(const GraphNode& node, const Shape& type, int64_t dim, int64_t extent)
      : node_(node), type_(type), dim_(dim), extent_(extent), count_(type.numel()) {}

  int64_t count() const { return count_; }
  int64_t scratch_bytes() const { return type_.dtype() == DType::kI64 ? 0 : (count_ + 7) / 8 * 64; }

  /// Fails for the first one that is out of bounds.
  const int64_t* Checked(const char* bytes, char* scratch) const {
    const int64_t* indices = reinterpret_cast<const int64_t*>(bytes);
    if (type_.dtype() != DType::kI64) {
      int64_t* wide = reinterpret_cast<int64_t*>(scratch);
      VisitDType(type_.dtype(), [&](auto zero) {
        using T = decltype(zero);
        const Stored<T>* from = reinterpret_cast<const Stored<T>*>(bytes);
        for (int64_t i = 0; i < count_; ++i) wide[i] = ReadAs<int64_t, T>(from + i);
      });
      indices = wide;
    }
    Spread(count_, 8, [&](int64_t begin, int64_t end) { Check(indices, begin, end); });
    return indices;
  }

 private:
  void Check(const int64_t* indices, int64_t begin, int64_t end) const {
    uint64_t limit = static_cast<uint64_t>(extent_);
    bool bad = false;
    for (int64_t i = begin; i < end; ++i) bad |= static_cast<uint64_t>(indices[i]) >= limit;
    if (!bad) return;
    for (int64_t i = begin; i < end; ++i) {
      if (static_cast<uint64_t>(indices[i]) < limit) continue;
      FailNode(node_, ErrorCode::kIndexOutOfRange,
               "index {} is out of bounds for dimension {} with size {}", indices[i], dim_,
               extent_);
    }
  }

  const GraphNode& node_;
  Shape type_;
  int64_t dim_;
  int64_t extent_;
  int64_t count_;
};

class IndexSelectCall : public Call {
 public:
  IndexSelectCall(const Graph& graph, const GraphNode& node)
      : axis_(graph.TypeOf(node.inputs[0]).sizes(), node.attrs[0].integer()),
        indices_(node, graph.TypeOf(node.inputs[1]), node.attrs[0].integer(), axis_.extent),
        element_(ElementBytes(node.type().dtype())) {}

  int64_t scratch_bytes() const override { return indices_.scratch_bytes(); }
  void Run(Operands in, Results out, char* scratch) const override {
    const int64_t* indices = indices_.Checked(in[1], scratch);
    int64_t row = axis_.inner * element_;
    const char* from = in[0];
    char* to = out[0];
    auto copy_rows = [&](auto copy) {
      Spread(axis_.outer * indices_.count(), 2 * row, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end;) {
          int64_t outer = i / indices_.count();
          int64_t stop = std::min(end, (outer + 1) * indices_.count());
          const char* base = from + outer * axis_.extent * row;
          const int64_t* index = indices - outer * indices_.count();
          for (; i < stop; ++i) copy(to + i * row, base + index[i] * row);
        }
      });
    };
    if (row == 1 || row == 2 || row == 4 || row == 8) {
      VisitBytes(row, [&](auto bytes) {
        copy_rows([bytes](char* x, const char* y) { std::memcpy(x, y, bytes()); });
      });
    } else if (row > 0) {
      copy_rows([row](char* x, const char* y) { std::memcpy(x, y, static_cast<size_t>(row)); });
    }
  }
  const char* kernel() const override { return "row copies"; }

 private:
  CallAxis axis_;
  Indices indices_;
  int64_t element_;
};

class GatherCall : public Call {
 public:
  GatherCall(const Graph& graph, const GraphNode& node)
      : sizes_(AtLeastVector(node.type().sizes())),
        dim_(static_cast<int>(node.attrs[0].integer())),
        element_(ElementBytes(node.type().dtype())),
        self_(AtLeastVector(graph.TypeOf(node.inputs[0]).sizes())),
        strides_(ContiguousStrides(self_)),
        indices_(node, graph.TypeOf(node.inputs[1]), dim_, self_[dim_]) {}

  int64_t scratch_bytes() const override { return indices_.scratch_bytes(); }
  void Run(Operands in, Results out, char* scratch) const override {
    const int64_t* indices = indices_.Checked(in[1], scratch);
    VisitBytes(element_, [&]<int kBytes>(std::integral_constant<int, kBytes>) {
      using T = Word<kBytes>;
      Spread(indices_.count(), 32, [&](int64_t begin, int64_t end) {
        Part(indices, reinterpret_cast<const T*>(in[0]), reinterpret_cast<T*>(out[0]), begin, end);
      });
    });
  }
  const char* kernel() const override { return "indexed copy"; }

 private:
  template <class T>
  void Part(const int64_t* indices, const T* from, T* to, int64_t begin, int64_t end) const {
    int last = sizes_.size() - 1;
    int64_t width = sizes_[last];
    int64_t step = dim_ == last ? 0 : 1;
    int64_t along = strides_[dim_];
    int64_t at[kMaxRank] = {};
    int64_t base = 0;  // of the row, without the last dim
    int64_t rest = begin / width;
    for (int d = last; d-- > 0;) {
      at[d] = rest % sizes_[d];
      rest /= sizes_[d];
      if (d != dim_) base += at[d] * strides_[d];
    }
    for (int64_t i = begin, column = begin % width; i < end; column = 0) {
      int64_t stop = std::min(end, i + width - column);
      const T* row = from + base + column * step;
      for (int64_t j = 0; i < stop; ++i, ++j) to[i] = row[indices[i] * along + j * step];
      for (int d = last; d-- > 0;) {
        int64_t stride = d == dim_ ? 0 : strides_[d];
        base += stride;
        if (++at[d] < sizes_[d]) break;
        base -= stride * sizes_[d];
        at[d] = 0;
      }
    }
  }

  Dims sizes_;
  int dim_;
  int64_t element_;
  Dims self_;
  Dims strides_;
  Indices indices_;
};

// ---- scatter

// Functions that combine two elements; `T` is the type of the sum.

struct TakeNew {
  template <class T>
  static T Combine(T, T y) {
    return y;
  }
};
struct AddUp {
  template <class T>
  static T Combine(T x, T y) {
    return static_cast<T>(x + y);
  }
};
struct Multiply {
  template <class T>
  static T Combine(T x, T y) {
    // Not x * y: narrow unsigned integers would become ints, whose product overflows.
    if constexpr (std::is_integral_v<T>) return static_cast<T>(uint64_t{x} * y);
    return static_cast<T>(x * y);
  }
};
template <bool kMax>
struct TakeExtreme {
  template <class T>
  static T Combine(T x, T y) {
    if (x != x || y != y) return x != x ? x : y;  // NaN wins
    return kMax ? std::max(x, y) : std::min(x, y);
  }
};
struct Or {
  static uint8_t Combine(uint8_t x, uint8_t y) { return x | y; }
};
struct And {
  static uint8_t Combine(uint8_t x, uint8_t y) { return x & y; }
};

/// Elements of a result that differ in a dim other than `dim` are independent: threads divide them,
/// and each takes the indices in order. f32 and f64 are combined as they are, f16 and bf16 in f32.
class ScatterCall : public Call {
 public:
  ScatterCall(const Graph& graph, const GraphNode& node)
      : dtype_(node.type().dtype()),
        numel_(node.type().numel()),
        reduce_(node.attrs[1].str()),
        dim_(static_cast<int>(node.attrs[0].integer())),
        sizes_(AtLeastVector(graph.TypeOf(node.inputs[1]).sizes())),
        self_(ContiguousStrides(AtLeastVector(node.type().sizes()))),
        source_(ContiguousStrides(AtLeastVector(graph.TypeOf(node.inputs[2]).sizes()))),
        axis_(sizes_, dim_),
        indices_(node, graph.TypeOf(node.inputs[1]), dim_,
                 AtLeastVector(node.type().sizes())[dim_]) {
    // If the sizes behind `dim` differ, the offsets are listed.
    bool plain = true;
    for (int d = dim_ + 1; d < sizes_.size(); ++d) {
      int64_t stride = ContiguousStrides(sizes_)[d];
      plain &= sizes_[d] <= 1 || (self_[d] == stride && source_[d] == stride);
    }
    if (plain) return;
    for (int64_t i = 0; i < axis_.inner; ++i) {
      Offsets offsets = {0, 0};
      int64_t rest = i;
      for (int d = sizes_.size(); d-- > dim_ + 1; rest /= sizes_[d]) {
        offsets.self += rest % sizes_[d] * self_[d];
        offsets.source += rest % sizes_[d] * source_[d];
      }
      inner_.push_back(offsets);
    }
  }

  int64_t scratch_bytes() const override {
    return indices_.scratch_bytes() + (InFloat() ? numel_ * 4 : 0);
  }

  void Run(Operands in, Results out, char* scratch) const override {
    const int64_t* indices = indices_.Checked(in[1], scratch);
    scratch += indices_.scratch_bytes();
    if (reduce_ == "none") {
      VisitBytes(ElementBytes(dtype_), [&]<int kBytes>(std::integral_constant<int, kBytes>) {
        InPlace<Word<kBytes>, TakeNew>(in, out[0], indices);
      });
    } else if (reduce_ == "sum") {
      Arithmetic<AddUp, Or>(in, out[0], indices, scratch);
    } else if (reduce_ == "prod") {
      Arithmetic<Multiply, And>(in, out[0], indices, scratch);
    } else if (reduce_ == "amax") {
      Extreme<TakeExtreme<true>, Or>(in, out[0], indices, scratch);
    } else {
      Extreme<TakeExtreme<false>, And>(in, out[0], indices, scratch);
    }
  }
  const char* kernel() const override { return "indexed writes"; }

 private:
  struct Offsets {
    int64_t self;
    int64_t source;
  };

  bool InFloat() const {
    return reduce_ != "none" && (dtype_ == DType::kF16 || dtype_ == DType::kBF16);
  }

  template <class Op, class BoolOp>
  void Arithmetic(Operands in, char* out, const int64_t* indices, char* scratch) const {
    switch (dtype_) {
      case DType::kF64:
        return InPlace<double, Op>(in, out, indices);
      case DType::kF32:
        return InPlace<float, Op>(in, out, indices);
      case DType::kF16:
        return ThroughFloat<Half, Op>(in, out, indices, scratch);
      case DType::kBF16:
        return ThroughFloat<BFloat16, Op>(in, out, indices, scratch);
      case DType::kBool:
        return Truth<BoolOp>(in, out, indices);
      default:
        return VisitBytes(ElementBytes(dtype_),
                          [&]<int kBytes>(std::integral_constant<int, kBytes>) {
                            InPlace<Word<kBytes>, Op>(in, out, indices);  // both signs wrap alike
                          });
    }
  }

  template <class Op, class BoolOp>
  void Extreme(Operands in, char* out, const int64_t* indices, char* scratch) const {
    VisitDType(dtype_, [&](auto zero) {
      using T = decltype(zero);
      if constexpr (std::same_as<T, bool>) {
        Truth<BoolOp>(in, out, indices);
      } else if constexpr (std::same_as<T, Half> || std::same_as<T, BFloat16>) {
        ThroughFloat<T, Op>(in, out, indices, scratch);
      } else {
        InPlace<T, Op>(in, out, indices);
      }
    });
  }

  template <class T, class Op>
  void InPlace(Operands in, char* out, const int64_t* indices) const {
    CopyBytes(in[0], out, numel_ * static_cast<int64_t>(sizeof(T)));
    Scatter<T, Op>(reinterpret_cast<const T*>(in[2]), reinterpret_cast<T*>(out), indices,
                   [](T x) { return x; });
  }

  template <class Op>
  void Truth(Operands in, char* out, const int64_t* indices) const {
    for (int64_t i = 0; i < numel_; ++i) out[i] = in[0][i] != 0;
    Scatter<uint8_t, Op>(reinterpret_cast<const uint8_t*>(in[2]), reinterpret_cast<uint8_t*>(out),
                         indices, [](uint8_t x) -> uint8_t { return x != 0; });
  }

  template <class T, class Op>
  void ThroughFloat(Operands in, char* out, const int64_t* indices, char* scratch) const {
    float* wide = reinterpret_cast<float*>(scratch);
    const T* self = reinterpret_cast<const T*>(in[0]);
    Spread(numel_, 8, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) wide[i] = static_cast<float>(self[i]);
    });
    Scatter<float, Op>(reinterpret_cast<const T*>(in[2]), wide, indices,
                       [](T x) { return static_cast<float>(x); });
    T* result = reinterpret_cast<T*>(out);
    Spread(numel_, 8, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) result[i] = T(wide[i]);
    });
  }

  template <class Sum, class Op, class T, class Load>
  void Scatter(const T* source, Sum* out, const int64_t* indices, Load load) const {
    if (indices_.count() == 0) return;
    int64_t work = 16;
    if (axis_.outer >= axis_.inner || axis_.inner < 32) {
      Spread(axis_.outer, axis_.extent * axis_.inner * work, [&](int64_t begin, int64_t end) {
        for (int64_t outer = begin; outer < end; ++outer) {
          Block<Sum, Op>(source, out, indices, load, outer, 0, axis_.inner);
        }
      });
      return;
    }
    Spread(axis_.inner, axis_.outer * axis_.extent * work, [&](int64_t begin, int64_t end) {
      for (int64_t outer = 0; outer < axis_.outer; ++outer) {
        Block<Sum, Op>(source, out, indices, load, outer, begin, end);
      }
    });
  }

  /// The indices of one outer position, and of the inner ones in [begin, end).
  template <class Sum, class Op, class T, class Load>
  [[gnu::noinline]] void Block(const T* source, Sum* out, const int64_t* indices, Load load,
                               int64_t outer, int64_t begin, int64_t end) const {
    Offsets base = {0, 0};
    int64_t rest = outer;
    for (int d = dim_; d-- > 0; rest /= sizes_[d]) {
      base.self += rest % sizes_[d] * self_[d];
      base.source += rest % sizes_[d] * source_[d];
    }
    int64_t along = self_[dim_];
    for (int64_t k = 0; k < axis_.extent; ++k) {
      const int64_t* index = indices + (outer * axis_.extent + k) * axis_.inner;
      const T* from = source + base.source + k * source_[dim_];
      Sum* to = out + base.self;
      auto combine = [&](int64_t i, Offsets offsets) {
        Sum& value = to[index[i] * along + offsets.self];
        value = Op::Combine(value, load(from[offsets.source]));
      };
      if (inner_.empty()) {
        if (IsOne(index, begin, end)) {  // as of rows of an embedding
          to += index[begin] * along;
          for (int64_t i = begin; i < end; ++i) to[i] = Op::Combine(to[i], load(from[i]));
          continue;
        }
        for (int64_t i = begin; i < end; ++i) combine(i, {i, i});
      } else {
        for (int64_t i = begin; i < end; ++i) combine(i, inner_[i]);
      }
    }
  }

  static bool IsOne(const int64_t* index, int64_t begin, int64_t end) {
    int64_t others = 0;
    for (int64_t i = begin; i < end; ++i) others |= index[i] ^ index[begin];
    return others == 0;
  }

  DType dtype_;
  int64_t numel_;
  std::string reduce_;
  int dim_;
  Dims sizes_;
  Dims self_;
  Dims source_;
  CallAxis axis_;
  Indices indices_;
  std::vector<Offsets> inner_;
};

constexpr CallEntry kCalls[] = {
    {&ops::kGather, MakeNode<GatherCall>},
    {&ops::kIndexSelect, MakeNode<IndexSelectCall>},
    {&ops::kScatter, MakeNode<ScatterCall>},
};

}  // namespace

std::span<const CallEntry> IndexCalls() { return kCalls; }

}  // namespace hammock::cpu
