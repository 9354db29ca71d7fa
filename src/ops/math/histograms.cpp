// Histograms: counts of elements, or sums of their weights, in bins.

#include <limits>
#include <optional>

#include "base/throw.h"
#include "hammock/ops/elementwise.h"
#include "hammock/ops/index.h"
#include "hammock/ops/reduce.h"
#include "hammock/ops/shape.h"
#include "hammock/ops/statistics.h"
#include "ir/primitives.h"
#include "ops/kit/compose.h"
#include "ops/kit/index_steps.h"
#include "ops/primitives/families.h"

namespace hammock {

using namespace ops;  // NOLINT: the writer's kit of this folder

namespace {

/// 0-d ends of the counted interval.
struct Interval {
  Tensor low, high;
};

Interval Given(double low, double high, const Tensor& like) {
  return {Placed(Lift(low, like.dtype()), like), Placed(Lift(high, like.dtype()), like)};
}

/// An interval without length is widened by `margin` on both sides.
Interval Widened(const Interval& interval, double margin) {
  const auto& [low, high] = interval;
  Tensor flat = eq(low, high), step = ConstantLike(margin, low);
  return {where(flat, low - step, low), where(flat, high + step, high)};
}

/// Bins where the ends are finite. Elsewhere there are none, which counting refuses when it runs.
Tensor Usable(const Tensor& bin, const Interval& interval) {
  Tensor good = logical_and(isfinite(interval.low), isfinite(interval.high));
  return where(good, bin, ConstantLike(-1, bin));
}

Interval RangeOf(const Tensor& x) {
  Tensor flat = Reshaped(x, {x.numel()});
  return {amin(flat, Dims{0}), amax(flat, Dims{0})};
}

void CheckRange(const char* op, double low, double high) {
  bool finite = std::isfinite(low) && std::isfinite(high);
  if (finite && low <= high) return;
  Throw(ErrorCode::kValue,
        "{}: the range [{}, {}] must be finite, and its end not before its start", op, low, high);
}

void CheckBins(const char* op, int64_t bins) {
  if (bins <= 0) Throw(ErrorCode::kValue, "{}: bins must be positive, is {}", op, bins);
}

/// bins + 1 values from low to high, as linspace has them.
Tensor Edges(const Interval& interval, int64_t bins, const Tensor& like) {
  const auto& [low, high] = interval;
  Tensor edge = Counting(bins + 1, like);
  Tensor position = Casted(edge, low.dtype());
  Tensor step = (high - low) / ConstantLike(bins, low);
  Tensor rest = ConstantLike(bins, position) - position;
  Tensor near_start = lt(edge, ConstantLike((bins + 1) / 2, edge));
  return where(near_start, low + step * position, high - step * rest);
}

Tensor Inside(const Tensor& x, const Interval& interval) {
  return logical_and(ge(x, interval.low), le(x, interval.high));
}

/// The bin of each element of the vector `x`; the last edge belongs to the last bin.
Tensor BinByEdges(const Tensor& x, const Tensor& edges) {
  Tensor bin = searchsorted(edges, x, false, true);
  bin = bin - ConstantLike(1, bin);
  Tensor last = ConstantLike(edges.numel() - 2, bin);
  return maximum(minimum(bin, last), ConstantLike(0, bin));
}

/// Sums of `weight` (a vector like `bin`) by bin, leaving out what is not `counted`.
Tensor Counted(const Tensor& bin, const Tensor& counted, const Tensor& weight, int64_t bins) {
  Tensor zeros = Filled({bins}, int64_t{0}, weight.dtype(), weight);
  if (bin.numel() == 0) return zeros;
  Tensor terms = where(counted, weight, ConstantLike(0, weight));
  return Scattered(zeros, bin, terms, 0, "sum");
}

/// One column of coordinates a dim, and the edges of its bins.
struct Grid {
  std::vector<Tensor> edges;
  Tensor points;  // [number of points, dims]
};

Tensor WeightsOf(const char* op, const Tensor& points, const Dims& sizes,
                 const std::optional<Tensor>& weight) {
  int64_t count = points.size(0);
  if (!weight || !weight->defined()) return Filled({count}, 1.0, points.dtype(), points);
  if (weight->dtype() != points.dtype() || weight->sizes() != sizes) {
    Throw(ErrorCode::kShapeMismatch, "{}: weight must be {}{}, got {}", op, NameOf(points.dtype()),
          ToString(sizes), weight->shape().to_string());
  }
  return Reshaped(*weight, {count});
}

/// Divides by the total and by each bin's extent.
Tensor AsDensity(Tensor result, const std::vector<Tensor>& edges) {
  Tensor flat = Reshaped(result, {result.numel()});
  result = result / sum(flat, Dims{0});
  int rank = result.dim();
  for (int d = 0; d < rank; ++d) {
    int64_t bins = edges[d].numel() - 1;
    Tensor widths = Sliced(edges[d], 0, 1, bins) - Sliced(edges[d], 0, 0, bins);
    Dims sizes = Dims::Filled(rank, 1);
    sizes[d] = bins;
    result = result / Reshaped(widths, sizes);
  }
  return result;
}

Tensor HistogramOf(const Grid& grid, const Tensor& weights, bool density) {
  int dims = static_cast<int>(grid.edges.size());
  Tensor bin, counted;
  Dims sizes;
  int64_t total = 1;
  for (int d = 0; d < dims; ++d) {
    const Tensor& edges = grid.edges[d];
    int64_t bins = edges.numel() - 1;
    Tensor x = Reshaped(Sliced(grid.points, 1, d, 1), {grid.points.size(0)});
    Interval ends{Reshaped(Sliced(edges, 0, 0, 1), {}), Reshaped(Sliced(edges, 0, bins, 1), {})};
    Tensor own = BinByEdges(x, edges), inside = Inside(x, ends);
    // A bin that is none is so small that no other makes up for it.
    own = where(eq(Usable(own, ends), ConstantLike(-1, own)),
                ConstantLike(std::numeric_limits<int32_t>::min(), own), own);
    bin = bin.defined() ? bin * ConstantLike(bins, bin) + own : own;
    counted = counted.defined() ? logical_and(counted, inside) : inside;
    sizes.push_back(bins);
    total *= bins;
  }
  Tensor result = Reshaped(Counted(bin, counted, weights, total), sizes);
  return density ? AsDensity(result, grid.edges) : result;
}

/// Points as rows; the sizes before the last dim are those of the weights.
Tensor PointsOf(const char* op, const Tensor& self, size_t bins) {
  NeedFloat(op, self);
  NeedRank(op, self, 2);
  int64_t dims = self.size(-1);
  if (static_cast<size_t>(dims) != bins) {
    Throw(ErrorCode::kShapeMismatch, "{}: {} has {} coordinates a point, but there are {} bins", op,
          self.shape().to_string(), dims, bins);
  }
  int64_t count = 1;
  for (int i = 0; i + 1 < self.dim(); ++i) count *= self.size(i);
  return Reshaped(self, {count, dims});
}

Dims WithoutLast(const Tensor& self) {
  Dims sizes = self.sizes();
  sizes.resize(self.dim() - 1);
  return sizes;
}

Grid GridOf(const char* op, const Tensor& points, const std::vector<int64_t>& bins,
            const std::vector<double>& range) {
  if (!range.empty() && range.size() != 2 * bins.size()) {
    Throw(ErrorCode::kValue, "{}: range must have {} numbers, has {}", op, 2 * bins.size(),
          range.size());
  }
  Grid grid{{}, points};
  for (size_t d = 0; d < bins.size(); ++d) {
    CheckBins(op, bins[d]);
    Interval interval;
    if (!range.empty()) {
      CheckRange(op, range[2 * d], range[2 * d + 1]);
      interval = Given(range[2 * d], range[2 * d + 1], points);
    } else if (points.numel() == 0) {
      interval = Given(0, 1, points);
    } else {
      interval = RangeOf(Sliced(points, 1, static_cast<int64_t>(d), 1));
    }
    grid.edges.push_back(Edges(Widened(interval, 0.5), bins[d], points));
  }
  return grid;
}

Grid GridOf(const char* op, const Tensor& points, const std::vector<Tensor>& bins) {
  for (const Tensor& edges : bins) {
    if (edges.dim() == 1 && edges.numel() > 1 && edges.dtype() == points.dtype()) continue;
    Throw(ErrorCode::kShapeMismatch, "{}: bins must be vectors of at least 2 edges in {}, got {}",
          op, NameOf(points.dtype()), edges.shape().to_string());
  }
  return {bins, points};
}

}  // namespace

Tensor histc(const Tensor& self, int64_t bins, const Scalar& min, const Scalar& max, Location at) {
  LocationScope scope(at);
  NeedFloat("histc", self);
  CheckBins("histc", bins);
  double low = min.ToDouble(), high = max.ToDouble();
  CheckRange("histc", low, high);
  Tensor x = Reshaped(self, {self.numel()});
  bool own = low == high && x.numel() > 0;
  Interval interval = Widened(own ? RangeOf(x) : Given(low, high, x), 1);
  Tensor position = (x - interval.low) * ConstantLike(bins, x) / (interval.high - interval.low);
  Tensor counted = Inside(x, interval);
  Tensor bin = Casted(where(counted, position, ConstantLike(0, position)), DType::kI64);
  bin = Usable(minimum(bin, ConstantLike(bins - 1, bin)), interval);
  Tensor ones = Filled(x.sizes(), 1.0, x.dtype(), x);
  return Counted(bin, counted, ones, bins);
}

std::tuple<Tensor, Tensor> histogram(const Tensor& self, int64_t bins,
                                     const std::vector<double>& range,
                                     const std::optional<Tensor>& weight, bool density,
                                     Location at) {
  LocationScope scope(at);
  NeedFloat("histogram", self);
  Tensor points = Reshaped(self, {self.numel(), 1});
  Grid grid = GridOf("histogram", points, {bins}, range);
  Tensor weights = WeightsOf("histogram", points, self.sizes(), weight);
  return {HistogramOf(grid, weights, density), grid.edges[0]};
}

std::tuple<Tensor, Tensor> histogram(const Tensor& self, const Tensor& bins,
                                     const std::optional<Tensor>& weight, bool density,
                                     Location at) {
  LocationScope scope(at);
  NeedFloat("histogram", self);
  Tensor points = Reshaped(self, {self.numel(), 1});
  Grid grid = GridOf("histogram", points, std::vector<Tensor>{bins});
  Tensor weights = WeightsOf("histogram", points, self.sizes(), weight);
  return {HistogramOf(grid, weights, density), bins};
}

std::tuple<Tensor, std::vector<Tensor>> histogramdd(const Tensor& self,
                                                    const std::vector<int64_t>& bins,
                                                    const std::vector<double>& range,
                                                    const std::optional<Tensor>& weight,
                                                    bool density, Location at) {
  LocationScope scope(at);
  Tensor points = PointsOf("histogramdd", self, bins.size());
  Grid grid = GridOf("histogramdd", points, bins, range);
  Tensor weights = WeightsOf("histogramdd", points, WithoutLast(self), weight);
  return {HistogramOf(grid, weights, density), grid.edges};
}

std::tuple<Tensor, std::vector<Tensor>> histogramdd(const Tensor& self,
                                                    const std::vector<Tensor>& bins,
                                                    const std::optional<Tensor>& weight,
                                                    bool density, Location at) {
  LocationScope scope(at);
  Tensor points = PointsOf("histogramdd", self, bins.size());
  Grid grid = GridOf("histogramdd", points, bins);
  Tensor weights = WeightsOf("histogramdd", points, WithoutLast(self), weight);
  return {HistogramOf(grid, weights, density), bins};
}

// ---- Records

namespace {

using ByCount = std::tuple<Tensor, Tensor>;
using ByCounts = std::tuple<Tensor, std::vector<Tensor>>;

ByCount CountedBoxed(const Tensor& self, int64_t bins, std::optional<std::vector<double>> range,
                     std::optional<Tensor> weight, bool density) {
  return histogram(self, bins, range.value_or(std::vector<double>()), weight, density);
}
ByCount EdgesBoxed(const Tensor& self, const Tensor& bins, std::optional<Tensor> weight,
                   bool density) {
  return histogram(self, bins, weight, density);
}
ByCounts ManyCountedBoxed(const Tensor& self, const std::vector<int64_t>& bins,
                          std::optional<std::vector<double>> range, std::optional<Tensor> weight,
                          bool density) {
  return histogramdd(self, bins, range.value_or(std::vector<double>()), weight, density);
}
ByCounts OneCountBoxed(const Tensor& self, int64_t bins, std::optional<std::vector<double>> range,
                       std::optional<Tensor> weight, bool density) {
  NeedRank("histogramdd", self, 2);
  std::vector<int64_t> all(static_cast<size_t>(self.size(-1)), bins);
  return ManyCountedBoxed(self, all, range, weight, density);
}
ByCounts ManyEdgesBoxed(const Tensor& self, const std::vector<Tensor>& bins,
                        std::optional<std::vector<double>>, std::optional<Tensor> weight,
                        bool density) {
  return histogramdd(self, bins, weight, density);
}

HAMMOCK_FUNCTION(kHistc, "histc(Tensor self, int bins=100, Scalar min=0, Scalar max=0) -> Tensor",
                 "How many elements fall into each bin.", histc)
HAMMOCK_FUNCTION(kHistogram,
                 "histogram(Tensor self, int bins=100, *, float[]? range=None, Tensor? "
                 "weight=None, bool density=False) -> (Tensor, Tensor)",
                 "Counts or sums of weights, and the edges of the bins.", CountedBoxed)
HAMMOCK_FUNCTION(kHistogramEdges,
                 "histogram.edges(Tensor self, Tensor bins, *, Tensor? weight=None, bool "
                 "density=False) -> (Tensor, Tensor)",
                 "As histogram, between given edges.", EdgesBoxed)
HAMMOCK_FUNCTION(kHistogramdd,
                 "histogramdd(Tensor self, int[] bins, float[]? range=None, Tensor? weight=None, "
                 "bool density=False) -> (Tensor, Tensor[])",
                 "Histogram of points, whose coordinates are in the last dim.", ManyCountedBoxed)
HAMMOCK_FUNCTION(kHistogramddOne,
                 "histogramdd.int_bins(Tensor self, int bins, float[]? range=None, Tensor? "
                 "weight=None, bool density=False) -> (Tensor, Tensor[])",
                 "As histogramdd, with the same number of bins everywhere.", OneCountBoxed)
HAMMOCK_FUNCTION(kHistogramddEdges,
                 "histogramdd.edges(Tensor self, Tensor[] bins, float[]? range=None, Tensor? "
                 "weight=None, bool density=False) -> (Tensor, Tensor[])",
                 "As histogramdd, between given edges.", ManyEdgesBoxed)

}  // namespace

std::span<const OpDef* const> ops::HistogramOps() {
  static constexpr const OpDef* kOps[] = {&kHistc,       &kHistogram,      &kHistogramEdges,
                                          &kHistogramdd, &kHistogramddOne, &kHistogramddEdges};
  return kOps;
}

}  // namespace hammock
