#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "onnx/operators/window.h"

namespace hammock::onnx {
namespace {

/// Padded so that all windows lie inside.
Tensor WindowedInput(const Tensor& x, const Windows& w, const std::vector<int64_t>& counts,
                     const Scalar& fill) {
  std::vector<int64_t> pads;
  for (size_t i = counts.size(); i-- > 0;) {
    int64_t size = x.size(static_cast<int64_t>(i) + 2);
    int64_t needed = (counts[i] - 1) * w.strides[i] + (w.kernel[i] - 1) * w.dilations[i] + 1;
    pads.push_back(w.before[i]);
    pads.push_back(std::max<int64_t>(needed - size - w.before[i], -size));
  }
  bool none = std::ranges::all_of(pads, [](int64_t p) { return p == 0; });
  return none ? x : constant_pad_nd(x, pads, fill);
}

/// One slice a tap of the window, in row-major order.
template <class Body>
void ForEachTap(const Tensor& x, const Windows& w, const std::vector<int64_t>& counts, Body body) {
  std::vector<int64_t> tap(w.kernel.size(), 0);
  for (;;) {
    Tensor part = x;
    for (size_t i = 0; i < tap.size(); ++i) {
      int64_t start = tap[i] * w.dilations[i];
      part = slice(part, static_cast<int64_t>(i) + 2, start,
                   start + (counts[i] - 1) * w.strides[i] + 1, w.strides[i]);
    }
    body(part, tap);
    size_t i = tap.size();
    for (;;) {
      if (i-- == 0) return;
      if (++tap[i] < w.kernel[i]) break;
      tap[i] = 0;
    }
  }
}

std::vector<int64_t> CountsOf(const Call& c, const Windows& w, const Tensor& x) {
  constexpr int64_t kMostTaps = 1 << 14;
  int64_t taps = 1;
  for (int64_t size : w.kernel) {
    taps *= std::min(size, kMostTaps);
    if (taps >= kMostTaps) c.Unsupported("windows of {} elements or more", kMostTaps);
  }
  std::vector<int64_t> counts;
  bool ceil = c.Int("ceil_mode", 0);
  for (int i = 0; i < w.rank(); ++i) {
    counts.push_back(CountOf(w, i, x.size(i + 2), ceil));
    if (counts.back() < 1) {
      c.Fail("the window does not fit into {}", x.shape().to_string());
    }
  }
  return counts;
}

/// Whether the op of that many dims does the same: equal pads of at most half a window, no more
/// windows at the end.
bool IsPlain(const Call& c, const Windows& w, bool dilated) {
  if (w.rank() > 3 || c.Int("ceil_mode", 0)) return false;
  for (size_t i = 0; i < w.kernel.size(); ++i) {
    if (w.before[i] != w.after[i] || w.before[i] > w.kernel[i] / 2) return false;
    if (!dilated && w.dilations[i] != 1) return false;
  }
  return true;
}

Tensor PlainMax(const Tensor& x, const Windows& w) {
  Dims kernel(w.kernel), strides(w.strides), pads(w.before), dilations(w.dilations);
  if (w.rank() == 1) return max_pool1d(x, kernel, strides, pads, dilations);
  if (w.rank() == 2) return max_pool2d(x, kernel, strides, pads, dilations);
  return max_pool3d(x, kernel, strides, pads, dilations);
}

Tensor PlainAverage(const Tensor& x, const Windows& w, bool count_pads) {
  Dims kernel(w.kernel), strides(w.strides), pads(w.before);
  if (w.rank() == 1) return avg_pool1d(x, kernel, strides, pads, false, count_pads);
  if (w.rank() == 2) return avg_pool2d(x, kernel, strides, pads, false, count_pads);
  return avg_pool3d(x, kernel, strides, pads, false, count_pads);
}

Scalar LowestOf(DType dtype) {
  if (IsFloat(dtype)) return Scalar(-std::numeric_limits<double>::infinity()).To(dtype);
  return Scalar(static_cast<int64_t>(InfoOf(dtype).lowest)).To(dtype);
}

Values MaxPool(Call& c) {
  Tensor x = c[0];
  Windows w = WindowsOf(c, x.sizes(), c.IntList("kernel_shape"));
  if (!c.Wants(1) && IsFloat(x.dtype()) && IsPlain(c, w, true)) return {PlainMax(x, w)};
  std::vector<int64_t> counts = CountsOf(c, w, x);
  Tensor padded = WindowedInput(x, w, counts, LowestOf(x.dtype()));
  Tensor best, index;
  if (!c.Wants(1)) {
    ForEachTap(padded, w, counts, [&](const Tensor& part, const std::vector<int64_t>&) {
      best = best.defined() ? maximum(best, part) : part;
    });
    return {best};
  }
  // Positions in the flattened input, row-major or with the first dim of the image fastest.
  int64_t spatial = Product(x.sizes(), 2, x.dim()), images = x.size(0) * x.size(1);
  bool columns = c.Int("storage_order", 0);
  Dims along = Dims::Filled(x.dim(), 1);
  Tensor position = zeros(along, DType::kI64, c.device());
  int64_t stride = 1;
  for (int k = 0; k < w.rank(); ++k) {
    int d = columns ? 2 + k : x.dim() - 1 - k;
    Dims one = Dims::Filled(x.dim(), 1);
    one[d] = x.size(d);
    position = position + arange(x.size(d), DType::kI64, c.device()).reshape(one) * stride;
    stride *= x.size(d);
  }
  Dims first = Dims::Filled(x.dim(), 1);
  first[0] = x.size(0);
  first[1] = x.size(1);
  position = broadcast_to(
      position + arange(images, DType::kI64, c.device()).reshape(first) * spatial, x.sizes());
  Tensor positions = WindowedInput(position, w, counts, Scalar(int64_t{-1}));
  std::vector<Tensor> index_parts;
  ForEachTap(positions, w, counts,
             [&](const Tensor& part, const std::vector<int64_t>&) { index_parts.push_back(part); });
  size_t next = 0;
  ForEachTap(padded, w, counts, [&](const Tensor& part, const std::vector<int64_t>&) {
    const Tensor& at = index_parts[next++];
    if (!best.defined()) {
      best = part;
      index = at;
      return;
    }
    Tensor better = logical_or(part > best, logical_and(index < 0, at >= 0));
    best = where(better, part, best);
    index = where(better, at, index);
  });
  return {best, index};
}

Values AveragePool(Call& c) {
  Tensor x = c[0];
  Windows w = WindowsOf(c, x.sizes(), c.IntList("kernel_shape"));
  bool count_pads = c.Int("count_include_pad", 0);
  if (IsPlain(c, w, false)) return {PlainAverage(x, w, count_pads)};
  std::vector<int64_t> counts = CountsOf(c, w, x);
  Tensor padded = WindowedInput(x, w, counts, 0);
  // Elements that count: of the input, and of its pads where they do.
  Dims sizes = Dims::Filled(x.dim(), 1);
  for (int i = 2; i < x.dim(); ++i) sizes[i] = x.size(i);
  Tensor counted = ones(sizes, x.dtype(), c.device());
  if (count_pads) {
    std::vector<int64_t> pads;
    for (size_t i = counts.size(); i-- > 0;) {
      pads.push_back(w.before[i]);
      pads.push_back(w.after[i]);
    }
    counted = constant_pad_nd(counted, pads, 1);
    Windows unpadded = w;
    unpadded.before.assign(w.before.size(), 0);
    counted = WindowedInput(counted, unpadded, counts, 0);
  } else {
    counted = WindowedInput(counted, w, counts, 0);
  }
  Tensor sum, number;
  auto add = [](Tensor& into, const Tensor& part) { into = into.defined() ? into + part : part; };
  ForEachTap(padded, w, counts, [&](const Tensor& part, auto&) { add(sum, part); });
  ForEachTap(counted, w, counts, [&](const Tensor& part, auto&) { add(number, part); });
  return {sum / number};
}

Values LpPool(Call& c) {
  Tensor x = c[0];
  Windows w = WindowsOf(c, x.sizes(), c.IntList("kernel_shape"));
  std::vector<int64_t> counts = CountsOf(c, w, x);
  double p = c.opset() < 2 ? c.Float("p", 2) : static_cast<double>(c.Int("p", 2));
  Tensor padded = WindowedInput(pow(abs(x), p), w, counts, 0);
  Tensor sum;
  ForEachTap(padded, w, counts, [&](const Tensor& part, const std::vector<int64_t>&) {
    sum = sum.defined() ? sum + part : part;
  });
  return {pow(sum, 1 / p)};
}

Dims SpatialDims(const Tensor& x) {
  Dims dims;
  for (int i = 2; i < x.dim(); ++i) dims.push_back(i);
  return dims;
}

Values GlobalAveragePool(Call& c) {
  Tensor x = c[0];
  return {mean(x, SpatialDims(x), true)};
}
Values GlobalMaxPool(Call& c) {
  Tensor x = c[0];
  return {amax(x, SpatialDims(x), true)};
}
Values GlobalLpPool(Call& c) {
  Tensor x = c[0];
  auto p = static_cast<double>(c.Int("p", 2));
  return {pow(sum(pow(abs(x), p), SpatialDims(x), true), 1 / p)};
}

Values MaxUnpool(Call& c) {
  Tensor x = c[0], index = c[1];
  Windows w = WindowsOf(c, x.sizes(), c.IntList("kernel_shape"));
  Dims natural = x.sizes();
  for (int i = 0; i < w.rank(); ++i) {
    auto at = static_cast<size_t>(i);
    natural[i + 2] =
        (x.size(i + 2) - 1) * w.strides[at] - w.before[at] - w.after[at] + w.kernel[at];
  }
  Dims sizes = c.Has(2) ? Dims(c.Ints(2)) : natural;
  // Indices are of the natural size; a larger result has them in its first rows and columns.
  Tensor flat = scatter(
      zeros({natural.empty() ? 1 : Shape(x.dtype(), natural).numel()}, x.dtype(), c.device()), 0,
      index.reshape({-1}), x.reshape({-1}));
  Tensor y = flat.reshape(natural);
  std::vector<int64_t> pads;
  for (int i = x.dim(); i-- > 0;) {
    pads.push_back(0);
    pads.push_back(sizes[i] - natural[i]);
  }
  return {constant_pad_nd(y, pads)};
}

/// The largest element of each cell of a grid over each region; regions are read.
Values MaxRoiPool(Call& c) {
  Tensor x = c[0];
  std::vector<double> regions = c.Numbers(1);
  std::vector<int64_t> grid = c.IntList("pooled_shape");
  double scale = c.Float("spatial_scale", 1);
  if (grid.size() != 2 || grid[0] < 1 || grid[1] < 1 || x.dim() != 4 || regions.size() % 5 != 0) {
    c.Fail("regions of {} numbers in {}", regions.size(), x.shape().to_string());
  }
  for (int64_t part : grid) CheckListed(c, part);
  CheckListed(c, grid[0] * grid[1]);
  CheckListed(c, static_cast<int64_t>(regions.size()) * grid[0] * grid[1]);
  std::vector<Tensor> pooled;
  for (size_t r = 0; r < regions.size(); r += 5) {
    auto sample = static_cast<int64_t>(regions[r]);
    if (sample < 0 || sample >= x.size(0)) c.Fail("sample {} of {}", sample, x.size(0));
    Tensor image = select(x, 0, sample);  // (channels, height, width)
    auto edge = [&](size_t i) { return static_cast<int64_t>(std::round(regions[r + i] * scale)); };
    // The rows or columns of a cell, which may be none.
    auto part = [&](int64_t first, int64_t last, int64_t cell, int64_t cells, int64_t size) {
      double each =
          static_cast<double>(std::max<int64_t>(last - first + 1, 1)) / static_cast<double>(cells);
      auto from = static_cast<int64_t>(std::floor(static_cast<double>(cell) * each)) + first;
      auto to = static_cast<int64_t>(std::ceil(static_cast<double>(cell + 1) * each)) + first;
      return std::pair(std::clamp(from, int64_t{0}, size), std::clamp(to, int64_t{0}, size));
    };
    std::vector<Tensor> cells;
    for (int64_t i = 0; i < grid[0] * grid[1]; ++i) {
      auto [top, bottom] = part(edge(2), edge(4), i / grid[1], grid[0], x.size(2));
      auto [left, right] = part(edge(1), edge(3), i % grid[1], grid[1], x.size(3));
      bool none = bottom <= top || right <= left;
      cells.push_back(
          none ? zeros({x.size(1)}, x.dtype(), c.device())
               : amax(narrow(narrow(image, 1, top, bottom - top), 2, left, right - left), {1, 2}));
    }
    pooled.push_back(stack(cells, 1).reshape({x.size(1), grid[0], grid[1]}));
  }
  if (pooled.empty()) return {zeros({0, x.size(1), grid[0], grid[1]}, x.dtype(), c.device())};
  return {stack(pooled)};
}

constexpr Operator kRows[] = {
    {"AveragePool", 1, kNewestOpset, AveragePool},
    {"GlobalAveragePool", 1, kNewestOpset, GlobalAveragePool},
    {"GlobalLpPool", 1, kNewestOpset, GlobalLpPool},
    {"GlobalMaxPool", 1, kNewestOpset, GlobalMaxPool},
    {"LpPool", 1, kNewestOpset, LpPool},
    {"MaxPool", 1, kNewestOpset, MaxPool},
    {"MaxRoiPool", 1, kNewestOpset, MaxRoiPool},
    {"MaxUnpool", 9, kNewestOpset, MaxUnpool},
};

}  // namespace

std::span<const Operator> PoolOperators() { return kRows; }

}  // namespace hammock::onnx
