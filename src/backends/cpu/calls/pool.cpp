/// The gradient of maxima over windows, in one pass.

#include <algorithm>

#include "backends/cpu/calls/call_kit.h"
#include "backends/cpu/cpu_features.h"
#include "ir/primitives.h"

namespace hammock::cpu {
namespace {

/// Windows of two dims that reach into the plane, as those of most pools do.
struct PlainWindows {
  struct Dim {
    int64_t in, out, window, stride, padding;

    int64_t start(int64_t i) const { return i * stride - padding; }
    bool inside() const { return padding == 0 && start(out - 1) + window <= in; }
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
        AddRow(g, from, to, 2);
      }
      for (T* line : {to, to + wide.in}) std::fill(line + 2 * wide.out, line + wide.in, T(0));
    }
    std::fill(out + 2 * tall.out * wide.in, out + tall.in * wide.in, T(0));
  }

  template <class T>
  void AnyPlane(const T* grad, const T* x, T* out) const {
    const auto& [tall, wide] = std::tie(windows_.tall, windows_.wide);
    std::fill(out, out + tall.in * wide.in, T(0));
    for (int64_t row = 0; row < tall.out; ++row) {
      const int64_t first = std::max<int64_t>(tall.start(row), 0);
      const int64_t rows = std::min(tall.start(row) + tall.window, tall.in) - first;
      AddRow(grad + row * wide.out, x + first * wide.in, out + first * wide.in, rows);
    }
  }

  /// Windows of `rows` rows. The first of equals, but the last NaN.
  template <class T>
  void AddRow(const T* grad, const T* x, T* out, int64_t rows) const {
    const PlainWindows::Dim& wide = windows_.wide;
    for (int64_t i = 0; i < wide.out; ++i) {
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
