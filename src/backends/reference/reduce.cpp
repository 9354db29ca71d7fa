#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/reference/elements.h"
#include "backends/reference/kernel.h"
#include "ir/primitives.h"

namespace hammock::reference {
namespace {

template <class Wide>
bool IsNan(Wide x) {
  if constexpr (std::same_as<Wide, double>) return std::isnan(x);
  return false;
}

template <class Wide>
constexpr Wide kLowest = std::numeric_limits<Wide>::has_infinity
                             ? -std::numeric_limits<Wide>::infinity()
                             : std::numeric_limits<Wide>::lowest();
template <class Wide>
constexpr Wide kHighest = std::numeric_limits<Wide>::has_infinity
                              ? std::numeric_limits<Wide>::infinity()
                              : std::numeric_limits<Wide>::max();

// A reduction is an identity and a combination; integers of sums and products are unsigned.

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
  static constexpr Wide kIdentity = kLowest<Wide>;
  static Wide Combine(Wide x, Wide y) { return IsNan(x) || x >= y ? x : y; }
};

template <class Wide>
struct Min {
  static constexpr Wide kIdentity = kHighest<Wide>;
  static Wide Combine(Wide x, Wide y) { return IsNan(x) || x <= y ? x : y; }
};

/// Halves until few are left, so that the error grows with the logarithm of the count. The tree
/// depends on the count alone.
template <class Reduction, class Wide>
Wide Tree(const Wide* values, int64_t count) {
  if (count > 64) {
    int64_t half = count / 2;
    return Reduction::Combine(Tree<Reduction>(values, half),
                              Tree<Reduction>(values + half, count - half));
  }
  Wide result = Reduction::kIdentity;
  for (int64_t i = 0; i < count; ++i) result = Reduction::Combine(result, values[i]);
  return result;
}

/// A copy of `self` with the dims of the list moved to the end, in order.
HostTensor MovedLast(KernelCall& call, const HostTensor& self, std::span<const int64_t> last) {
  const Dims& sizes = self.shape().sizes();
  Dims strides = ContiguousStrides(sizes);
  Dims moved;
  Strided layout;
  auto take = [&](int d) {
    moved.push_back(sizes[d]);
    layout.strides.push_back(strides[d]);
  };
  auto is_last = [&](int d) { return std::find(last.begin(), last.end(), d) != last.end(); };
  for (int d = 0; d < sizes.size(); ++d) {
    if (!is_last(d)) take(d);
  }
  for (int d = 0; d < sizes.size(); ++d) {
    if (is_last(d)) take(d);
  }
  if (moved == sizes && layout.strides == strides) return self;
  HostTensor result = call.New(self.shape().With(moved));
  CopyStrided(moved, self, layout, result, Contiguous(moved));
  return result;
}

template <template <class> class Reduction, class Wide>
void Reduce(KernelCall& call) {
  HostTensor moved = MovedLast(call, *call.in[0], call.node.attrs[0].ints());
  HostTensor& out = call.NewResult();
  int64_t extent = 1;
  for (int64_t dim : call.node.attrs[0].ints()) {
    const Dims& sizes = call.in[0]->shape().sizes();
    if (!sizes.empty()) extent *= sizes[static_cast<int>(dim)];
  }
  std::vector<Wide> values = LoadAll<Wide>(moved);
  std::vector<Wide> results(out.numel());
  for (int64_t i = 0; i < out.numel(); ++i) {
    results[i] = Tree<Reduction<Wide>>(values.data() + i * extent, extent);
  }
  Store(results.data(), out.numel(), out, 0);
}

template <template <class> class Reduction>
void RunArithmetic(KernelCall& call) {
  VisitSum(call.node.type().dtype(), [&](auto zero) { Reduce<Reduction, decltype(zero)>(call); });
}

template <template <class> class Reduction>
void RunExtremum(KernelCall& call) {
  VisitWide(call.node.type().dtype(), [&](auto zero) { Reduce<Reduction, decltype(zero)>(call); });
}

// Truth values are 0 and 1, but the identity must be one of them.
template <class Wide>
struct Any {
  static constexpr Wide kIdentity = 0;
  static Wide Combine(Wide x, Wide y) { return x | y; }
};

template <class Wide>
struct All {
  static constexpr Wide kIdentity = 1;
  static Wide Combine(Wide x, Wide y) { return x & y; }
};

template <template <class> class Reduction>
void RunTruth(KernelCall& call) {
  Reduce<Reduction, int64_t>(call);
}

/// `better(x, y)`: whether x replaces y.
template <class Better>
void RunArg(KernelCall& call, Better better) {
  const HostTensor& self = *call.in[0];
  Axis axis(self.shape().sizes(), static_cast<int>(call.node.attrs[0].integer()));
  std::span<int64_t> out = call.NewResult().mutable_values<int64_t>();
  VisitWide(self.dtype(), [&](auto zero) {
    auto values = LoadAll<decltype(zero)>(self);
    for (int64_t i = 0; i < axis.outer * axis.inner; ++i) {
      const auto* row = &values[i / axis.inner * axis.extent * axis.inner + i % axis.inner];
      int64_t best = 0;
      for (int64_t k = 1; k < axis.extent; ++k) {
        auto x = row[k * axis.inner];
        auto y = row[best * axis.inner];
        if (!IsNan(y) && (IsNan(x) || better(x, y))) best = k;
      }
      out[i] = best;
    }
  });
}

void RunArgMax(KernelCall& call) {
  RunArg(call, [](auto x, auto y) { return x > y; });
}

void RunArgMin(KernelCall& call) {
  RunArg(call, [](auto x, auto y) { return x < y; });
}

template <template <class> class Reduction, class Wide>
void Scan(KernelCall& call) {
  const HostTensor& self = *call.in[0];
  Axis axis(self.shape().sizes(), static_cast<int>(call.node.attrs[1].integer()));
  bool reverse = call.node.attrs[2].boolean();
  std::vector<Wide> values = LoadAll<Wide>(self);
  for (int64_t i = 0; i < axis.outer * axis.inner && axis.extent > 0; ++i) {
    Wide* row = &values[i / axis.inner * axis.extent * axis.inner + i % axis.inner];
    Wide running = Reduction<Wide>::kIdentity;
    for (int64_t k = 0; k < axis.extent; ++k) {
      Wide& value = row[(reverse ? axis.extent - 1 - k : k) * axis.inner];
      value = running = Reduction<Wide>::Combine(running, value);
    }
  }
  HostTensor& out = call.NewResult();
  Store(values.data(), out.numel(), out, 0);
}

void RunScan(KernelCall& call) {
  const std::string& kind = call.node.attrs[0].str();
  DType dtype = call.node.type().dtype();
  if (kind == "sum") {
    VisitSum(dtype, [&](auto zero) { Scan<Sum, decltype(zero)>(call); });
  } else if (kind == "prod") {
    VisitSum(dtype, [&](auto zero) { Scan<Prod, decltype(zero)>(call); });
  } else if (kind == "max") {
    VisitWide(dtype, [&](auto zero) { Scan<Max, decltype(zero)>(call); });
  } else {
    VisitWide(dtype, [&](auto zero) { Scan<Min, decltype(zero)>(call); });
  }
}

/// Windows over the last dims of a tensor.
class Windows {
 public:
  /// `first` is the attribute index of `window`.
  Windows(const KernelCall& call, int first)
      : window_(call.node.attrs[first].ints()),
        stride_(call.node.attrs[first + 1].ints()),
        low_(call.node.attrs[first + 2].ints()),
        dilation_(call.node.attrs[first + 4].ints()) {
    const Dims& in = call.in[0]->shape().sizes();
    const Dims& out = call.node.type().sizes();
    for (int d = in.size() - window_.size(); d < in.size(); ++d) {
      in_.push_back(in[d]);
      out_.push_back(out[d]);
    }
    in_strides_ = ContiguousStrides(in_);
  }

  int64_t in_count() const { return Shape(DType::kU8, in_).numel(); }
  int64_t out_count() const { return Shape(DType::kU8, out_).numel(); }

  /// Calls `f(flat input index)` for each element of window `out` (a flat index), in order.
  template <class F>
  void ForEach(int64_t out, F f) const {
    Dims origin = in_;
    for (int d = in_.size() - 1; d >= 0; --d) {
      origin[d] = out % out_[d] * stride_[d] - low_[d];
      out /= out_[d];
    }
    Dims at = Dims::Filled(in_.size(), 0);
    while (true) {
      int64_t flat = 0;
      bool inside = true;
      for (int d = 0; d < in_.size(); ++d) {
        int64_t position = origin[d] + at[d] * dilation_[d];
        inside &= position >= 0 && position < in_[d];
        flat += position * in_strides_[d];
      }
      if (inside) f(flat);
      int d = in_.size() - 1;
      for (; d >= 0; --d) {
        if (++at[d] < window_[d]) break;
        at[d] = 0;
      }
      if (d < 0) return;
    }
  }

 private:
  Dims window_, stride_, low_, dilation_;
  Dims in_, out_, in_strides_;
};

template <template <class> class Reduction, class Wide>
void ReduceWindows(KernelCall& call) {
  Windows windows(call, 1);
  std::vector<Wide> values = LoadAll<Wide>(*call.in[0]);
  HostTensor& out = call.NewResult();
  std::vector<Wide> results(out.numel(), Reduction<Wide>::kIdentity);
  for (int64_t i = 0; i < out.numel(); ++i) {
    const Wide* plane = values.data() + i / windows.out_count() * windows.in_count();
    windows.ForEach(i % windows.out_count(), [&](int64_t at) {
      results[i] = Reduction<Wide>::Combine(results[i], plane[at]);
    });
  }
  Store(results.data(), out.numel(), out, 0);
}

void RunReduceWindow(KernelCall& call) {
  DType dtype = call.node.type().dtype();
  if (call.node.attrs[0].str() == "sum") {
    VisitSum(dtype, [&](auto zero) { ReduceWindows<Sum, decltype(zero)>(call); });
  } else {
    VisitWide(dtype, [&](auto zero) { ReduceWindows<Max, decltype(zero)>(call); });
  }
}

void RunReduceWindowArg(KernelCall& call) {
  Windows windows(call, 0);
  std::span<int64_t> out = call.NewResult().mutable_values<int64_t>();
  VisitWide(call.in[0]->dtype(), [&](auto zero) {
    auto values = LoadAll<decltype(zero)>(*call.in[0]);
    for (size_t i = 0; i < out.size(); ++i) {
      const auto* plane = values.data() + i / windows.out_count() * windows.in_count();
      out[i] = -1;
      windows.ForEach(i % windows.out_count(), [&](int64_t at) {
        if (out[i] < 0 || IsNan(plane[at]) || plane[at] > plane[out[i]]) out[i] = at;
      });
    }
  });
}

constexpr KernelEntry kKernels[] = {
    {&ops::kReduceSum, RunArithmetic<Sum>},
    {&ops::kReduceProd, RunArithmetic<Prod>},
    {&ops::kReduceMax, RunExtremum<Max>},
    {&ops::kReduceMin, RunExtremum<Min>},
    {&ops::kReduceAny, RunTruth<Any>},
    {&ops::kReduceAll, RunTruth<All>},
    {&ops::kArgMax, RunArgMax},
    {&ops::kArgMin, RunArgMin},
    {&ops::kScan, RunScan},
    {&ops::kReduceWindow, RunReduceWindow},
    {&ops::kReduceWindowArg, RunReduceWindowArg},
};

}  // namespace

std::span<const KernelEntry> ReduceKernels() { return kKernels; }

}  // namespace hammock::reference
