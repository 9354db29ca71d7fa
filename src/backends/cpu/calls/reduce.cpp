// Calls that go along a dim or over windows: positions of extremes, scans, pooling.

#include <cmath>
#include <cstring>
#include <limits>

#include "backends/cpu/calls/call_kit.h"
#include "ir/primitives.h"

namespace hammock::cpu {
namespace {

using Operands = std::span<const char* const>;
using Results = std::span<char* const>;

constexpr int64_t kBlock = 256;  // columns that are worked on together

/// Calls `f(T{}, Wide{})` with the element type and one that holds its values and compares alike.
template <class F>
void VisitOrdered(DType dtype, F f) {
  VisitDType(dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::same_as<T, bool>) {
      f(T{}, uint8_t{});
    } else if constexpr (std::same_as<T, Half> || std::same_as<T, BFloat16>) {
      f(T{}, float{});
    } else {
      f(T{}, T{});
    }
  });
}

/// Calls `f(outer, begin, end)` for blocks of columns of each outer position.
template <class F>
void ForEachBlock(const CallAxis& axis, int64_t bytes, F f) {
  if (axis.inner == 0) return;
  int64_t blocks = (axis.inner + kBlock - 1) / kBlock;
  int64_t width = std::min(axis.inner, kBlock);
  Spread(axis.outer * blocks, axis.extent * width * bytes, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      int64_t column = i % blocks * kBlock;
      f(i / blocks, column, std::min(column + kBlock, axis.inner));
    }
  });
}

// ---- arg_max, arg_min

template <bool kMax>
class ArgCall : public Call {
 public:
  ArgCall(const Graph& graph, const GraphNode& node)
      : dtype_(graph.TypeOf(node.inputs[0]).dtype()),
        axis_(graph.TypeOf(node.inputs[0]).sizes(), node.attrs[0].integer()) {}

  void Run(Operands in, Results out, char*) const override {
    int64_t* positions = reinterpret_cast<int64_t*>(out[0]);
    VisitOrdered(dtype_, [&]<class T, class Wide>(T, Wide) {
      const Stored<T>* values = reinterpret_cast<const Stored<T>*>(in[0]);
      if (axis_.inner == 1) {
        Spread(axis_.outer, axis_.extent * 4, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            positions[i] = InRow<T, Wide>(values + i * axis_.extent);
          }
        });
        return;
      }
      ForEachBlock(axis_, 8, [&](int64_t outer, int64_t begin, int64_t end) {
        InColumns<T, Wide>(values + outer * axis_.extent * axis_.inner + begin, end - begin,
                           positions + outer * axis_.inner + begin);
      });
    });
  }
  const char* kernel() const override { return "search"; }

 private:
  template <class Wide>
  static bool Better(Wide x, Wide y) {
    return kMax ? x > y : x < y;
  }
  template <class Wide>
  static bool TakesPlace(Wide x, Wide y) {
    return (y == y) & ((x != x) | Better(x, y));  // NaN wins, the first one
  }

  /// The best value of each of many lanes, then where the best of those is first.
  template <class T, class Wide>
  [[gnu::noinline]] int64_t InRow(const Stored<T>* row) const {
    constexpr int kLanes = 32;
    int64_t count = axis_.extent;
    if (count < 2 * kLanes) return First<T, Wide>(row, 0);
    Wide best[kLanes];
    bool nan[kLanes] = {};
    for (int lane = 0; lane < kLanes; ++lane) best[lane] = ReadAs<Wide, T>(row + lane);
    for (int lane = 0; lane < kLanes; ++lane) nan[lane] = best[lane] != best[lane];
    int64_t i = kLanes;
    for (; i + kLanes <= count; i += kLanes) {
      for (int lane = 0; lane < kLanes; ++lane) {
        Wide x = ReadAs<Wide, T>(row + i + lane);
        best[lane] = Better(x, best[lane]) ? x : best[lane];
        nan[lane] |= x != x;
      }
    }
    for (int lane = 0; lane < kLanes; ++lane) {
      if (nan[lane]) return First<T, Wide>(row, 0);
      best[0] = Better(best[lane], best[0]) ? best[lane] : best[0];
    }
    for (; i < count; ++i) {
      Wide x = ReadAs<Wide, T>(row + i);
      if (x != x) return i;
      best[0] = Better(x, best[0]) ? x : best[0];
    }
    for (int64_t at = 0; at < count; ++at) {
      if (ReadAs<Wide, T>(row + at) == best[0]) return at;
    }
    return 0;
  }

  template <class T, class Wide>
  int64_t First(const Stored<T>* row, int64_t best) const {
    for (int64_t k = best + 1; k < axis_.extent; ++k) {
      if (TakesPlace(ReadAs<Wide, T>(row + k), ReadAs<Wide, T>(row + best))) best = k;
    }
    return best;
  }

  template <class T, class Wide>
  [[gnu::noinline]] void InColumns(const Stored<T>* values, int64_t width,
                                   int64_t* positions) const {
    Wide best[kBlock];
    for (int64_t i = 0; i < width; ++i) {
      best[i] = axis_.extent > 0 ? ReadAs<Wide, T>(values + i) : Wide{};
      positions[i] = 0;
    }
    for (int64_t k = 1; k < axis_.extent; ++k) {
      const Stored<T>* row = values + k * axis_.inner;
      for (int64_t i = 0; i < width; ++i) {
        Wide x = ReadAs<Wide, T>(row + i);
        bool takes = TakesPlace(x, best[i]);
        best[i] = takes ? x : best[i];
        positions[i] = takes ? k : positions[i];
      }
    }
  }

  DType dtype_;
  CallAxis axis_;
};

// ---- reductions: an identity and a combination

template <class Wide>
struct Sum {
  static constexpr Wide kIdentity = 0;
  static Wide Combine(Wide x, Wide y) { return x + y; }
};
template <class Wide>
struct Prod {
  static constexpr Wide kIdentity = 1;
  static Wide Combine(Wide x, Wide y) { return x * y; }
};
template <class Wide>
struct Max {
  static constexpr Wide kIdentity = std::numeric_limits<Wide>::has_infinity
                                        ? -std::numeric_limits<Wide>::infinity()
                                        : std::numeric_limits<Wide>::lowest();
  static Wide Combine(Wide x, Wide y) { return (x != x) | (x >= y) ? x : y; }
};
template <class Wide>
struct Min {
  static constexpr Wide kIdentity = std::numeric_limits<Wide>::has_infinity
                                        ? std::numeric_limits<Wide>::infinity()
                                        : std::numeric_limits<Wide>::max();
  static Wide Combine(Wide x, Wide y) { return (x != x) | (x <= y) ? x : y; }
};

/// Running values are kept in double, uint64_t (sums and products of integers) or int64_t, and
/// rounded where they are stored: the bits are those of the reference kernel.
class ScanCall : public Call {
 public:
  ScanCall(const Graph&, const GraphNode& node)
      : dtype_(node.type().dtype()),
        kind_(node.attrs[0].str()),
        reverse_(node.attrs[2].boolean()),
        axis_(node.type().sizes(), node.attrs[1].integer()) {}

  void Run(Operands in, Results out, char*) const override {
    VisitDType(dtype_, [&](auto zero) {
      using T = decltype(zero);
      using Arithmetic = std::conditional_t<kIsReal<T>, double, uint64_t>;
      using Compared =
          std::conditional_t<kIsReal<T>, double,
                             std::conditional_t<std::same_as<T, uint64_t>, uint64_t, int64_t>>;
      if (kind_ == "sum") return Scan<T, Arithmetic, Sum<Arithmetic>>(in[0], out[0]);
      if (kind_ == "prod") return Scan<T, Arithmetic, Prod<Arithmetic>>(in[0], out[0]);
      if (kind_ == "max") return Scan<T, Compared, Max<Compared>>(in[0], out[0]);
      return Scan<T, Compared, Min<Compared>>(in[0], out[0]);
    });
  }
  const char* kernel() const override { return "running values"; }

 private:
  template <class T, class Wide, class Reduction>
  void Scan(const char* in, char* out) const {
    ForEachBlock(axis_, 16, [&](int64_t outer, int64_t begin, int64_t end) {
      int64_t at = outer * axis_.extent * axis_.inner + begin;
      ScanBlock<T, Wide, Reduction>(reinterpret_cast<const Stored<T>*>(in) + at,
                                    reinterpret_cast<T*>(out) + at, end - begin);
    });
  }

  template <class T, class Wide, class Reduction>
  [[gnu::noinline]] void ScanBlock(const Stored<T>* from, T* to, int64_t width) const {
    int64_t step = reverse_ ? -axis_.inner : axis_.inner;
    int64_t at = reverse_ ? (axis_.extent - 1) * axis_.inner : 0;
    if (width == 1) {
      Wide running = Reduction::kIdentity;
      for (int64_t k = 0; k < axis_.extent; ++k, at += step) {
        running = Reduction::Combine(running, ReadAs<Wide, T>(from + at));
        to[at] = Convert<T>(running);
      }
      return;
    }
    Wide running[kBlock];
    std::fill(running, running + width, Reduction::kIdentity);
    for (int64_t k = 0; k < axis_.extent; ++k, at += step) {
      for (int64_t i = 0; i < width; ++i) {
        running[i] = Reduction::Combine(running[i], ReadAs<Wide, T>(from + at + i));
        to[at + i] = Convert<T>(running[i]);
      }
    }
  }

  DType dtype_;
  std::string kind_;
  bool reverse_;
  CallAxis axis_;
};

// ---- windows

/// Windows over the last dims. They are worked on by rows of results: for each element of a window,
/// in order, all results of the row take theirs.
class Windows {
 public:
  /// `first` is the number of the attribute `window`.
  Windows(const Graph& graph, const GraphNode& node, size_t first) {
    const Dims& in = graph.TypeOf(node.inputs[0]).sizes();
    const Dims& out = node.type().sizes();
    rank_ = static_cast<int>(node.attrs[first].ints().size());
    for (int i = 0; i < rank_; ++i) {
      int d = in.size() - rank_ + i;
      auto entry = [&](size_t attr) { return node.attrs[first + attr].ints()[i]; };
      dims_[i] = {in[d], out[d], entry(0), entry(1), entry(2), entry(4)};
    }
    for (int i = 0; i < rank_; ++i) {
      in_count_ *= dims_[i].in;
      window_count_ *= dims_[i].window;
      if (i + 1 < rank_) rows_ *= dims_[i].out;
    }
    for (int d = 0; d < in.size() - rank_; ++d) planes_ *= in[d];
  }

  int64_t width() const { return rank_ == 0 ? 1 : dims_[rank_ - 1].out; }

  /// Whether windows of two dims lie inside of the plane without gaps, as those of most pools do.
  bool IsPlain() const {
    return rank_ == 2 && std::all_of(dims_, dims_ + 2, [](const Dim& d) {
             return d.low == 0 && d.dilation == 1 && (d.out - 1) * d.stride + d.window <= d.in;
           });
  }

  /// Of plain windows: each row of results from the elements of its rows, combined column by column
  /// first. For reductions that do not depend on the order.
  template <class T, class Reduction>
  void ReducePlain(const T* in, T* out) const {
    const Dim &tall = dims_[0], &wide = dims_[1];
    if (width() == 0) return;
    int64_t used = (wide.out - 1) * wide.stride + wide.window;
    Spread(planes_ * rows_, width() * window_count_ * 4, [&](int64_t begin, int64_t end) {
      std::vector<T> columns(static_cast<size_t>(used));
      for (int64_t row = begin; row < end; ++row) {
        const T* from = in + row / rows_ * in_count_ + row % rows_ * tall.stride * wide.in;
        CombineRows<T, Reduction>(tall.window, wide.in, used, from, columns.data());
        CombineColumns<T, Reduction>(wide.out, wide.window, wide.stride, columns.data(),
                                     out + row * wide.out);
      }
    });
  }

  /// Calls `start(row)` and `finish(row)` around `each(out, at, step, first, last)` for all rows of
  /// results: results [first, last) of the row take the elements at + i * step of its plane, which
  /// begins at element `plane`.
  template <class Row>
  void ForEachRow(Row make_row) const {
    if (width() == 0) return;
    Spread(planes_ * rows_, width() * window_count_ * 4, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        auto row = make_row(i / rows_ * in_count_, i * width());
        Visit(i % rows_, row);
        row.Finish();
      }
    });
  }

 private:
  struct Dim {
    int64_t in, out, window, stride, low, dilation;
  };

  template <class T, class Reduction>
  static void CombineRows(int64_t rows, int64_t stride, int64_t count, const T* in, T* out) {
    std::copy(in, in + count, out);
    for (int64_t row = 1; row < rows; ++row) {
      const T* from = in + row * stride;
      for (int64_t i = 0; i < count; ++i) out[i] = Reduction::Combine(out[i], from[i]);
    }
  }

  template <class T, class Reduction>
  static void CombineColumns(int64_t count, int64_t window, int64_t stride, const T* in, T* out) {
    if (window == 2 && stride == 2) {
      for (int64_t i = 0; i < count; ++i) out[i] = Reduction::Combine(in[2 * i], in[2 * i + 1]);
      return;
    }
    for (int64_t i = 0; i < count; ++i) {
      T value = in[i * stride];
      for (int64_t w = 1; w < window; ++w) value = Reduction::Combine(value, in[i * stride + w]);
      out[i] = value;
    }
  }

  template <class Row>
  void Visit(int64_t index, Row& row) const {
    const Dim& last = dims_[rank_ - 1];
    int64_t origin[kMaxRank] = {};
    for (int d = rank_ - 1; d-- > 0; index /= dims_[d].out) {
      origin[d] = index % dims_[d].out * dims_[d].stride - dims_[d].low;
    }
    int64_t at[kMaxRank] = {};
    for (;;) {
      int64_t flat = 0;
      bool inside = true;
      for (int d = 0; d + 1 < rank_; ++d) {
        int64_t position = origin[d] + at[d] * dims_[d].dilation;
        inside &= position >= 0 && position < dims_[d].in;
        flat = (flat + position) * dims_[d + 1].in;
      }
      for (int64_t w = 0; inside && w < last.window; ++w) {
        int64_t offset = w * last.dilation - last.low;
        int64_t first = offset >= 0 ? 0 : (-offset + last.stride - 1) / last.stride;
        int64_t room = last.in - 1 - offset;
        int64_t stop = room < 0 ? 0 : std::min(last.out, room / last.stride + 1);
        if (first < stop) row.Take(flat + offset, last.stride, first, stop);
      }
      int d = rank_ - 2;
      for (; d >= 0; --d) {
        if (++at[d] < dims_[d].window) break;
        at[d] = 0;
      }
      if (d < 0) return;
    }
  }

  int rank_ = 0;
  Dim dims_[kMaxRank] = {};
  int64_t in_count_ = 1;
  int64_t window_count_ = 1;
  int64_t rows_ = 1;
  int64_t planes_ = 1;
};

/// One row of results. f32, f16 and bf16 are combined in f32, f64 as it is, integers in 64 bits.
template <class T, class Wide, class Reduction>
class WindowRow {
 public:
  WindowRow(const char* in, char* out, int64_t plane, int64_t first, int64_t width)
      : plane_(reinterpret_cast<const Stored<T>*>(in) + plane),
        out_(reinterpret_cast<T*>(out) + first),
        width_(width) {
    if constexpr (std::same_as<T, Wide>) {
      values_ = out_;
    } else {
      if (width > kInline) more_.reset(new Wide[width]);
      values_ = more_ ? more_.get() : inline_;
    }
    std::fill(values_, values_ + width, Reduction::kIdentity);
  }

  [[gnu::noinline]] void Take(int64_t at, int64_t step, int64_t first, int64_t last) {
    const Stored<T>* from = plane_ + at;
    Wide* values = values_;
    if (step == 1) {
      for (int64_t i = first; i < last; ++i) {
        values[i] = Reduction::Combine(values[i], ReadAs<Wide, T>(from + i));
      }
    } else if (step == 2) {
      for (int64_t i = first; i < last; ++i) {
        values[i] = Reduction::Combine(values[i], ReadAs<Wide, T>(from + 2 * i));
      }
    } else {
      for (int64_t i = first; i < last; ++i) {
        values[i] = Reduction::Combine(values[i], ReadAs<Wide, T>(from + step * i));
      }
    }
  }

  void Finish() {
    if constexpr (!std::same_as<T, Wide>) {
      for (int64_t i = 0; i < width_; ++i) out_[i] = Convert<T>(values_[i]);
    }
  }

 private:
  static constexpr int64_t kInline = std::same_as<T, Wide> ? 1 : 512;
  const Stored<T>* plane_;
  T* out_;
  int64_t width_;
  Wide* values_;
  Wide inline_[kInline];
  std::unique_ptr<Wide[]> more_;
};

class ReduceWindowCall : public Call {
 public:
  ReduceWindowCall(const Graph& graph, const GraphNode& node)
      : dtype_(node.type().dtype()),
        sums_(node.attrs[0].str() == "sum"),
        windows_(graph, node, 1) {}

  void Run(Operands in, Results out, char*) const override {
    VisitDType(dtype_, [&](auto zero) {
      using T = decltype(zero);
      using Real = std::conditional_t<std::same_as<T, double>, double, float>;
      using Arithmetic = std::conditional_t<kIsReal<T>, Real, uint64_t>;
      using Compared =
          std::conditional_t<kIsReal<T>, Real,
                             std::conditional_t<std::same_as<T, uint64_t>, uint64_t, int64_t>>;
      if (sums_) {
        Reduce<T, Arithmetic, Sum<Arithmetic>>(in[0], out[0]);
      } else {
        if constexpr (std::same_as<T, Compared>) {
          if (windows_.IsPlain()) {
            return windows_.ReducePlain<T, Max<T>>(reinterpret_cast<const T*>(in[0]),
                                                   reinterpret_cast<T*>(out[0]));
          }
        }
        Reduce<T, Compared, Max<Compared>>(in[0], out[0]);
      }
    });
  }
  const char* kernel() const override { return "windows"; }

 private:
  template <class T, class Wide, class Reduction>
  void Reduce(const char* in, char* out) const {
    windows_.ForEachRow([&](int64_t plane, int64_t first) {
      return WindowRow<T, Wide, Reduction>(in, out, plane, first, windows_.width());
    });
  }

  DType dtype_;
  bool sums_;
  Windows windows_;
};

/// Positions of the largest elements; the last of several NaN, as in the reference kernel.
template <class T, class Wide>
class WindowArgRow {
 public:
  WindowArgRow(const char* in, char* out, int64_t plane, int64_t first, int64_t width)
      : plane_(reinterpret_cast<const Stored<T>*>(in) + plane),
        out_(reinterpret_cast<int64_t*>(out) + first) {
    std::fill(out_, out_ + width, -1);
  }

  [[gnu::noinline]] void Take(int64_t at, int64_t step, int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      Wide x = ReadAs<Wide, T>(plane_ + at + i * step);
      int64_t best = out_[i];
      if (best < 0 || x != x || x > ReadAs<Wide, T>(plane_ + best)) out_[i] = at + i * step;
    }
  }

  void Finish() {}

 private:
  const Stored<T>* plane_;
  int64_t* out_;
};

class ReduceWindowArgCall : public Call {
 public:
  ReduceWindowArgCall(const Graph& graph, const GraphNode& node)
      : dtype_(graph.TypeOf(node.inputs[0]).dtype()), windows_(graph, node, 0) {}

  void Run(Operands in, Results out, char*) const override {
    VisitOrdered(dtype_, [&]<class T, class Wide>(T, Wide) {
      windows_.ForEachRow([&](int64_t plane, int64_t first) {
        return WindowArgRow<T, Wide>(in[0], out[0], plane, first, windows_.width());
      });
    });
  }
  const char* kernel() const override { return "windows"; }

 private:
  DType dtype_;
  Windows windows_;
};

/// Windows over no dim are left to the reference kernel.
template <class T, size_t kWindow>
std::unique_ptr<Call> MakeWindows(const Graph& graph, const GraphNode& node) {
  if (node.attrs[kWindow].ints().empty()) return nullptr;
  for (int64_t size : node.attrs[kWindow].ints()) {
    if (size < 1) return nullptr;
  }
  return std::make_unique<T>(graph, node);
}

constexpr CallEntry kCalls[] = {
    {&ops::kArgMax, MakeNode<ArgCall<true>>},
    {&ops::kArgMin, MakeNode<ArgCall<false>>},
    {&ops::kScan, MakeNode<ScanCall>},
    {&ops::kReduceWindow, MakeWindows<ReduceWindowCall, 1>},
    {&ops::kReduceWindowArg, MakeWindows<ReduceWindowArgCall, 0>},
};

}  // namespace

std::span<const CallEntry> ReduceCalls() { return kCalls; }

}  // namespace hammock::cpu
