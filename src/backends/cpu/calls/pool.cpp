/// The gradient of maxima over windows, in one pass.

#include <algorithm>

#include "backends/cpu/calls/call_kit.h"
#include "backends/cpu/host/cpu_features.h"
#include "ir/primitives.h"

namespace hammock::cpu {
namespace {

/// Windows of two dims that reach into the plane, as those of most pools do.
struct PlainWindows {
  struct Dim {
    int64_t in, out, window, stride, padding;

    int64_t start(int64_t i) const { return i * stride - padding; }
    bool inside() const { return padding == 0 && start(out - 1) + window <= in; }
    /// The first window without padding before it, and from there the first with padding behind it.
    int64_t first_inside() const { return std::min(out, (padding + stride - 1) / stride); }
    int64_t first_behind() const {
      if (in + padding < window) return first_inside();
      return std::clamp((in + padding - window) / stride + 1, first_inside(), out);
    }
  };
  Dim tall, wide;
  int64_t planes = 1;

  static bool Suits(const Graph& graph, const GraphNode& node) {
    const Shape& x = graph.TypeOf(node.inputs[1]);
    const Shape& grad = graph.TypeOf(node.inputs[0]);
    bool real = x.dtype() == DType::kF32 || x.dtype() == DType::kF64;
    if (!real || grad.dtype() != x.dtype() || grad.rank() != x.rank()) return false;
    if (node.attrs[0].ints().size() != 2) return false;
    for (size_t i = 0; i < 2; ++i) {
      int d = x.rank() - 2 + static_cast<int>(i);
      auto attr = [&](size_t index) { return node.attrs[index].ints()[i]; };
      bool reaches = attr(2) < attr(0) && (grad.size(d) - 1) * attr(1) - attr(2) < x.size(d);
      if (!reaches || attr(0) < 1 || attr(2) < 0 || attr(4) != 1) return false;
    }
    return true;
  }

  PlainWindows(const Graph& graph, const GraphNode& node) {
    const Shape& x = graph.TypeOf(node.inputs[1]);
    const Shape& grad = graph.TypeOf(node.inputs[0]);
    auto dim = [&](size_t i) {
      int d = x.rank() - 2 + static_cast<int>(i);
      auto attr = [&](size_t index) { return node.attrs[index].ints()[i]; };
      return Dim{x.size(d), grad.size(d), attr(0), attr(1), attr(2)};
    };
    tall = dim(0);
    wide = dim(1);
    for (int d = 0; d < x.rank() - 2; ++d) planes *= x.size(d);
  }

  bool AreHalves() const {
    auto is_half = [](const Dim& dim) {
      return dim.window == 2 && dim.stride == 2 && dim.inside();
    };
    return is_half(tall) && is_half(wide);
  }
};

/// A row of windows of two by two. Returns whether an element was NaN: the row is then not right.
#define HAMMOCK_HALVES(space, target)                                                         \
  template <class T>                                                                          \
  struct space {                                                                              \
    target static bool Row(const T* top, const T* bottom, const T* grad, int64_t count,       \
                           T* out_top, T* out_bottom) {                                       \
      int unordered = 0;                                                                      \
      for (int64_t i = 0; i < count; ++i) {                                                   \
        T a = top[2 * i], b = top[2 * i + 1], c = bottom[2 * i], d = bottom[2 * i + 1];       \
        T upper = a > b ? a : b, lower = c > d ? c : d, most = upper > lower ? upper : lower; \
        unordered |= (a != a) | (b != b) | (c != c) | (d != d);                               \
        T rest = grad[i];                                                                     \
        T to_a = a == most ? rest : T(0);                                                     \
        rest = a == most ? T(0) : rest;                                                       \
        T to_b = b == most ? rest : T(0);                                                     \
        rest = b == most ? T(0) : rest;                                                       \
        T to_c = c == most ? rest : T(0);                                                     \
        rest = c == most ? T(0) : rest;                                                       \
        out_top[2 * i] = to_a;                                                                \
        out_top[2 * i + 1] = to_b;                                                            \
        out_bottom[2 * i] = to_c;                                                             \
        out_bottom[2 * i + 1] = rest;                                                         \
      }                                                                                       \
      return unordered != 0;                                                                  \
    }                                                                                         \
  };
HAMMOCK_HALVES(PlainHalves, )
#if defined(__x86_64__)
HAMMOCK_HALVES(Avx2Halves, [[gnu::target("avx2")]])
#endif
#undef HAMMOCK_HALVES

template <class T>
auto HalvesHere() {
#if defined(__x86_64__)
  if (HostFeatures().avx2) return &Avx2Halves<T>::Row;
#endif
  return &PlainHalves<T>::Row;
}

/// A row of windows inside of the plane. An element gets the gradients of its windows one after
/// another.
struct WindowRow {
  int64_t rows, window;  ///< of a window: rows and columns
  int64_t width;         ///< elements from row to row
};

constexpr int64_t kMostWindow = 9;  // columns of a window that WindowRow holds

/// A block of windows at a time, all loops over its windows. Elements a stride apart are next to
/// each other in `sums`.
#define HAMMOCK_WINDOWS(space, target)                                                            \
  template <class T, int64_t kStride>                                                             \
  struct space {                                                                                  \
    using Index = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;                           \
    static constexpr int64_t kBlock = 64;                                                         \
                                                                                                  \
    target static void Add(const WindowRow& row, const T* grad, const T* x, int64_t count,        \
                           T* out) {                                                              \
      for (int64_t first = 0; first < count; first += kBlock) {                                   \
        const int64_t n = std::min(kBlock, count - first);                                        \
        Index taps[kBlock];                                                                       \
        FindMaxima(row, x + first * kStride, n, taps);                                            \
        for (int64_t h = 0; h < row.rows; ++h) {                                                  \
          AddTaps(row, h, grad + first, taps, n, out + first * kStride + h * row.width);          \
        }                                                                                         \
      }                                                                                           \
    }                                                                                             \
                                                                                                  \
    /* The first of equals, but the last NaN. */                                                  \
    target static void FindMaxima(const WindowRow& row, const T* x, int64_t n, Index* taps) {     \
      T most[kBlock];                                                                             \
      for (int64_t i = 0; i < n; ++i) most[i] = x[i * kStride];                                   \
      for (int64_t i = 0; i < n; ++i) taps[i] = 0;                                                \
      for (int64_t h = 0; h < row.rows; ++h) {                                                    \
        for (int64_t w = 0; w < row.window; ++w) {                                                \
          const Index tap = static_cast<Index>(h * row.window + w);                               \
          const T* values = x + h * row.width + w;                                                \
          for (int64_t i = 0; i < n; ++i) {                                                       \
            const T value = values[i * kStride];                                                  \
            const bool more =                                                                     \
                static_cast<int>(value != value) | static_cast<int>(value > most[i]);             \
            most[i] = more ? value : most[i];                                                     \
            taps[i] = more ? tap : taps[i];                                                       \
          }                                                                                       \
        }                                                                                         \
      }                                                                                           \
    }                                                                                             \
                                                                                                  \
    /* The taps of one row, the last one first: it belongs to the first window. */                \
    target static void AddTaps(const WindowRow& row, int64_t h, const T* grad, const Index* taps, \
                               int64_t n, T* out) {                                               \
      T sums[kStride][kBlock + kMostWindow];                                                      \
      const int64_t span = (n - 1) * kStride + row.window, full = span / kStride;                 \
      for (int64_t k = 0; k < full; ++k) {                                                        \
        for (int64_t p = 0; p < kStride; ++p) sums[p][k] = out[k * kStride + p];                  \
      }                                                                                           \
      for (int64_t p = 0; p < span % kStride; ++p) sums[p][full] = out[full * kStride + p];       \
      for (int64_t w = row.window; w-- > 0;) {                                                    \
        const Index tap = static_cast<Index>(h * row.window + w);                                 \
        T* to = sums[w % kStride] + w / kStride;                                                  \
        for (int64_t i = 0; i < n; ++i) to[i] += taps[i] == tap ? grad[i] : T(0);                 \
      }                                                                                           \
      for (int64_t k = 0; k < full; ++k) {                                                        \
        for (int64_t p = 0; p < kStride; ++p) out[k * kStride + p] = sums[p][k];                  \
      }                                                                                           \
      for (int64_t p = 0; p < span % kStride; ++p) out[full * kStride + p] = sums[p][full];       \
    }                                                                                             \
  };
HAMMOCK_WINDOWS(PlainWindowRow, )
#if defined(__x86_64__)
HAMMOCK_WINDOWS(Avx2WindowRow, [[gnu::target("avx2")]])
#endif
#undef HAMMOCK_WINDOWS

template <class T, int64_t kStride>
auto WindowRowHere() {
#if defined(__x86_64__)
  if (HostFeatures().avx2) return &Avx2WindowRow<T, kStride>::Add;
#endif
  return &PlainWindowRow<T, kStride>::Add;
}

/// Null where windows are wider, or further apart.
template <class T>
using AddWindows = void (*)(const WindowRow& row, const T* grad, const T* x, int64_t count, T* out);
template <class T>
AddWindows<T> WindowRowFor(const PlainWindows::Dim& wide) {
  if (wide.window > kMostWindow) return nullptr;
  if (wide.stride == 1) return WindowRowHere<T, 1>();
  if (wide.stride == 2) return WindowRowHere<T, 2>();
  return nullptr;
}

class MaxWindowBackwardCall : public Call {
 public:
  MaxWindowBackwardCall(const Graph& graph, const GraphNode& node)
      : dtype_(node.type().dtype()), windows_(graph, node) {}

  void Run(std::span<const char* const> in, std::span<char* const> out, char*) const override {
    if (dtype_ == DType::kF32) {
      Planes<float>(in[0], in[1], out[0]);
    } else {
      Planes<double>(in[0], in[1], out[0]);
    }
  }
  const char* kernel() const override { return "windows"; }

 private:
  template <class T>
  void Planes(const char* grad, const char* x, char* out) const {
    const int64_t in_size = windows_.tall.in * windows_.wide.in;
    const int64_t out_size = windows_.tall.out * windows_.wide.out;
    if (in_size == 0) return;  // windows of padding alone
    Spread(windows_.planes, 3 * in_size * static_cast<int64_t>(sizeof(T)),
           [&](int64_t begin, int64_t end) {
             for (int64_t plane = begin; plane < end; ++plane) {
               const T* g = reinterpret_cast<const T*>(grad) + plane * out_size;
               const T* from = reinterpret_cast<const T*>(x) + plane * in_size;
               T* to = reinterpret_cast<T*>(out) + plane * in_size;
               windows_.AreHalves() ? Halves(g, from, to) : AnyPlane(g, from, to);
             }
           });
  }

  template <class T>
  void Halves(const T* grad, const T* x, T* out) const {
    const auto row_of_halves = HalvesHere<T>();
    const auto& [tall, wide] = std::tie(windows_.tall, windows_.wide);
    for (int64_t row = 0; row < tall.out; ++row) {
      const T* from = x + 2 * row * wide.in;
      const T* g = grad + row * wide.out;
      T* to = out + 2 * row * wide.in;
      if (row_of_halves(from, from + wide.in, g, wide.out, to, to + wide.in)) {
        std::fill(to, to + 2 * wide.in, T(0));
        AddRow(g, from, to, 2, 0, wide.out);
      }
      for (T* line : {to, to + wide.in}) std::fill(line + 2 * wide.out, line + wide.in, T(0));
    }
    std::fill(out + 2 * tall.out * wide.in, out + tall.in * wide.in, T(0));
  }

  template <class T>
  void AnyPlane(const T* grad, const T* x, T* out) const {
    const auto& [tall, wide] = std::tie(windows_.tall, windows_.wide);
    std::fill(out, out + tall.in * wide.in, T(0));
    const AddWindows<T> add_windows = WindowRowFor<T>(wide);
    const int64_t inside = add_windows ? wide.first_inside() : wide.out;
    const int64_t behind = add_windows ? wide.first_behind() : wide.out;
    for (int64_t row = 0; row < tall.out; ++row) {
      const int64_t first = std::max<int64_t>(tall.start(row), 0);
      const int64_t rows = std::min(tall.start(row) + tall.window, tall.in) - first;
      const T* g = grad + row * wide.out;
      const T* from = x + first * wide.in;
      T* to = out + first * wide.in;
      AddRow(g, from, to, rows, 0, inside);
      if (inside < behind) {
        const int64_t start = wide.start(inside);
        add_windows({rows, wide.window, wide.in}, g + inside, from + start, behind - inside,
                    to + start);
      }
      AddRow(g, from, to, rows, behind, wide.out);
    }
  }

  /// Windows `begin` to `end` of `rows` rows. The first of equals, but the last NaN.
  template <class T>
  void AddRow(const T* grad, const T* x, T* out, int64_t rows, int64_t begin, int64_t end) const {
    const PlainWindows::Dim& wide = windows_.wide;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = std::max<int64_t>(wide.start(i), 0);
      const int64_t columns = std::min(wide.start(i) + wide.window, wide.in) - first;
      const T* corner = x + first;
      int64_t offset = 0;
      T most = corner[0];
      for (int64_t h = 0; h < rows; ++h) {
        for (int64_t w = 0; w < columns; ++w) {
          const T value = corner[h * wide.in + w];
          const bool more = static_cast<int>(value != value) | static_cast<int>(value > most);
          most = more ? value : most;  // no branches, which nothing could predict
          offset = more ? h * wide.in + w : offset;
        }
      }
      out[first + offset] += grad[i];
    }
  }

  DType dtype_;
  PlainWindows windows_;
};

}  // namespace

std::span<const CallEntry> PoolCalls() {
  static constexpr CallEntry kEntries[] = {
      {&ops::kMaxWindowBackward, MakeNode<MaxWindowBackwardCall>}};
  return kEntries;
}

bool RunsWholePool(const Graph& graph, const GraphNode& node) {
  return node.op == &ops::kMaxWindowBackward && PlainWindows::Suits(graph, node);
}

}  // namespace hammock::cpu
