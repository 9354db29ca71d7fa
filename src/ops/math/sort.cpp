// Sorting, searching and counting, and the statistics made of them.

#include <cmath>

#include "base/throw.h"
#include "hammock/ops/elementwise.h"
#include "hammock/ops/index.h"
#include "hammock/ops/reduce.h"
#include "ir/primitives.h"
#include "ops/kit/compose.h"
#include "ops/kit/index_steps.h"
#include "ops/primitives/families.h"
#include "ops/primitives/require.h"
#include "trace/layout.h"

namespace hammock {

using namespace ops;  // NOLINT: the writer's kit of this folder

namespace {

using Both = std::tuple<Tensor, Tensor>;

/// Sorted values and indices of a tensor of at least one dim, ascending.
Both Sorted(const Tensor& x, int dim) {
  const Attr attrs[] = {dim, false, true};
  auto both = ApplyMulti(kSort, Location(), std::span(&x, 1), attrs);
  return {both[0], both[1]};
}

Tensor AtLeastVector(const Tensor& x) { return x.dim() == 0 ? Reshaped(x, {1}) : x; }

/// Elements of `x` at `position` (size one along `dim`), with or without that dim.
Tensor PickAt(const Tensor& x, const Tensor& position, int dim, const Dims& sizes) {
  return Reshaped(Apply(kGather, Location(), {x, position}, {dim}), sizes);
}

/// Sizes of a reduction along `dim`; a 0-d tensor stays one.
Dims ResultSizes(const Tensor& self, int dim, bool keepdim) {
  return ReducedSizes(self.sizes(), OneDim(dim, self.dim()), keepdim);
}

/// How many NaNs there are along `dim`, which is kept.
Tensor CountNan(const Tensor& x, int dim) {
  return Apply(kReduceSum, Location(), {Casted(isnan(x), DType::kI64)}, {Dims{dim}, true});
}

/// Picks from the sorted `x` at `position`, which broadcasts along the other dims.
Both PickSorted(const Tensor& self, const Tensor& values, const Tensor& indices,
                const Tensor& position, int dim, bool keepdim) {
  Dims sizes = values.sizes();
  sizes[dim] = 1;
  Tensor chosen =
      position.dim() == 0 ? Stretched(position, sizes, values) : Broadcasted(position, sizes);
  Dims result = ResultSizes(self, dim, keepdim);
  return {PickAt(values, chosen, dim, result), PickAt(indices, chosen, dim, result)};
}

Both MedianAlong(const char* op, const Tensor& self, int64_t dim, bool keepdim, bool skip_nan) {
  int d = WrapDim(op, dim, self.dim());
  Tensor x = AtLeastVector(self);
  int64_t size = x.size(d);
  if (size == 0) {
    Throw(ErrorCode::kEmptyTensor, "{}: dim {} of {} has size 0, needs an element", op, d,
          self.shape().to_string());
  }
  auto [values, indices] = Sorted(x, d);
  if (!IsFloat(x.dtype())) {
    return PickSorted(self, values, indices, Constant((size - 1) / 2, DType::kI64), d, keepdim);
  }
  Tensor nans = CountNan(x, d);
  Tensor zero = ConstantLike(0, nans);
  Tensor good = ConstantLike(size, nans) - nans;  // NaNs sort last
  Tensor position;
  if (skip_nan) {
    Tensor last = maximum(good - ConstantLike(1, good), zero);
    position = floor_divide(last, ConstantLike(2, last));
  } else {
    position = where(gt(nans, zero), good, ConstantLike((size - 1) / 2, nans));
  }
  return PickSorted(self, values, indices, position, d, keepdim);
}

Tensor MedianOfAll(const char* op, const Tensor& self, bool skip_nan) {
  if (self.numel() == 0) {
    if (!IsFloat(self.dtype())) {
      Throw(ErrorCode::kEmptyTensor, "{}: {} has no elements", op, self.shape().to_string());
    }
    return Filled({}, std::nan(""), self.dtype(), self);
  }
  return std::get<0>(MedianAlong(op, Reshaped(self, {self.numel()}), 0, false, skip_nan));
}

/// One less than the position in the sorted row that a quantile asks for is `rank`; the values
/// around it are mixed as `interpolation` says.
Tensor QuantileOf(const char* op, const Tensor& self, const Tensor& q, std::optional<int64_t> dim,
                  bool keepdim, const std::string& interpolation, bool skip_nan) {
  NeedFloat(op, self);
  if (q.dtype() != self.dtype() || q.dim() > 1) {
    Throw<TypeError>(ErrorCode::kDTypeMismatch,
                     "{}: q must be a number or a vector of self's dtype {}, got {}", op,
                     NameOf(self.dtype()), q.shape().to_string());
  }
  int d = dim ? WrapDim(op, *dim, self.dim()) : 0;
  Dims kept = dim ? ResultSizes(self, d, keepdim) : Dims::Filled(keepdim ? self.dim() : 0, 1);
  Tensor x =
      dim && self.dim() > 0 ? Moved(self, d, self.dim() - 1) : Reshaped(self, {self.numel()});
  int last = x.dim() - 1;
  int64_t size = x.size(last);
  if (size == 0) {
    Throw(ErrorCode::kEmptyTensor, "{}: {} has no elements to rank", op, self.shape().to_string());
  }
  Tensor sorted = std::get<0>(Sorted(x, last));
  Tensor nans = CountNan(x, last);
  Tensor good = Casted(ConstantLike(size, nans) - nans, x.dtype());
  Tensor top = good - ConstantLike(1, good);
  if (skip_nan) top = maximum(top, ConstantLike(0, top));
  // rank: [..., number of q]
  int64_t count = q.dim() == 0 ? 1 : q.size(0);
  Tensor asked = Reshaped(q, {count});
  asked = Required(asked, InRange(asked, 0, 1), op, "q values must be in the range [0, 1]");
  Tensor rank = asked * top;
  if (!skip_nan) {
    rank = where(gt(nans, ConstantLike(0, nans)), ConstantLike(size - 1, rank), rank);
  }
  if (interpolation == "lower") {
    rank = floor(rank);
  } else if (interpolation == "higher") {
    rank = ceil(rank);
  } else if (interpolation == "nearest") {
    rank = round(rank);
  } else if (interpolation != "linear" && interpolation != "midpoint") {
    Throw(ErrorCode::kValue,
          "{}: interpolation must be linear, lower, higher, midpoint or nearest, got '{}'", op,
          interpolation);
  }
  Tensor below = floor(rank);
  auto at = [&](const Tensor& position) {
    return Apply(kGather, Location(), {sorted, Casted(position, DType::kI64)}, {last});
  };
  Tensor low = at(below), result = low;
  if (interpolation == "linear" || interpolation == "midpoint") {
    Tensor weight = interpolation == "midpoint" ? ConstantLike(0.5, rank) : rank - below;
    result = lerp(low, at(ceil(rank)), weight);
  }
  // The quantiles are the first dim of the result.
  result = Moved(result, result.dim() - 1, 0);
  Dims sizes = kept;
  if (q.dim() == 1) sizes.insert(0, count);
  return Reshaped(result, sizes);
}

}  // namespace

// ---- Sorting

std::tuple<Tensor, Tensor> sort(const Tensor& self, int64_t dim, bool descending, bool stable,
                                Location at) {
  LocationScope scope(at);
  (void)stable;  // it always is
  int d = WrapDim("sort", dim, self.dim());
  const Tensor x = AtLeastVector(self);
  const Attr attrs[] = {d, descending, true};
  auto both = ApplyMulti(kSort, at, std::span(&x, 1), attrs);
  return {LikeLayout(Reshaped(both[0], self.sizes()), self),
          LikeLayout(Reshaped(both[1], self.sizes()), self)};
}

Tensor argsort(const Tensor& self, int64_t dim, bool descending, bool stable, Location at) {
  LocationScope scope(at);
  return std::get<1>(sort(self, dim, descending, stable, at));
}

Tensor msort(const Tensor& self, Location at) {
  LocationScope scope(at);
  return std::get<0>(sort(self, 0, false, true, at));
}

std::tuple<Tensor, Tensor> topk(const Tensor& self, int64_t k, int64_t dim, bool largest,
                                bool sorted, Location at) {
  LocationScope scope(at);
  int d = WrapDim("topk", dim, self.dim());
  const Tensor x = AtLeastVector(self);
  if (k < 0 || k > x.size(d)) {
    Throw(ErrorCode::kValue, "topk: k must be from 0 to {} for dim {} of {}, got {}", x.size(d), d,
          self.shape().to_string(), k);
  }
  const Attr attrs[] = {k, d, largest, sorted};
  auto both = ApplyMulti(kTopK, at, std::span(&x, 1), attrs);
  if (self.dim() > 0) return {both[0], both[1]};
  return {Reshaped(both[0], {}), Reshaped(both[1], {})};
}

// ---- Order statistics

std::tuple<Tensor, Tensor> kthvalue(const Tensor& self, int64_t k, int64_t dim, bool keepdim,
                                    Location at) {
  LocationScope scope(at);
  int d = WrapDim("kthvalue", dim, self.dim());
  Tensor x = AtLeastVector(self);
  if (k < 1 || k > x.size(d)) {
    Throw(ErrorCode::kValue, "kthvalue: k must be from 1 to {} for dim {} of {}, got {}", x.size(d),
          d, self.shape().to_string(), k);
  }
  auto [values, indices] = Sorted(x, d);
  Dims sizes = ResultSizes(self, d, keepdim);
  return {Reshaped(Sliced(values, d, k - 1, 1), sizes),
          Reshaped(Sliced(indices, d, k - 1, 1), sizes)};
}

Tensor median(const Tensor& self, Location at) {
  LocationScope scope(at);
  return MedianOfAll("median", self, false);
}

std::tuple<Tensor, Tensor> median(const Tensor& self, int64_t dim, bool keepdim, Location at) {
  LocationScope scope(at);
  return MedianAlong("median", self, dim, keepdim, false);
}

Tensor nanmedian(const Tensor& self, Location at) {
  LocationScope scope(at);
  return MedianOfAll("nanmedian", self, true);
}

std::tuple<Tensor, Tensor> nanmedian(const Tensor& self, int64_t dim, bool keepdim, Location at) {
  LocationScope scope(at);
  return MedianAlong("nanmedian", self, dim, keepdim, true);
}

std::tuple<Tensor, Tensor> mode(const Tensor& self, int64_t dim, bool keepdim, Location at) {
  LocationScope scope(at);
  int d = WrapDim("mode", dim, self.dim());
  Tensor x = AtLeastVector(self);
  int64_t size = x.size(d);
  if (size == 0) {
    Throw(ErrorCode::kEmptyTensor, "mode: dim {} of {} has size 0, needs an element", d,
          self.shape().to_string());
  }
  auto [values, indices] = Sorted(x, d);
  // The length of the run of equals that ends at each sorted element; the first longest wins.
  Tensor position = CountingAlong(d, x.dim(), size, x);
  Tensor start = Stretched(Constant(int64_t{0}, DType::kI64), values.sizes(), values);
  if (size > 1) {
    Tensor changed = ne(Sliced(values, d, 1, size - 1), Sliced(values, d, 0, size - 1));
    Tensor begins = where(changed, Sliced(position, d, 1, size - 1), ConstantLike(0, position));
    start = Apply(kScan, at, {Padded(begins, d, 1, 0, int64_t{0})}, {"max", d, false});
  }
  Tensor best = Apply(kArgMax, at, {position - start}, {d, true});
  return PickSorted(self, values, indices, best, d, keepdim);
}

Tensor quantile(const Tensor& self, const Tensor& q, std::optional<int64_t> dim, bool keepdim,
                const std::string& interpolation, Location at) {
  LocationScope scope(at);
  return QuantileOf("quantile", self, q, dim, keepdim, interpolation, false);
}

Tensor nanquantile(const Tensor& self, const Tensor& q, std::optional<int64_t> dim, bool keepdim,
                   const std::string& interpolation, Location at) {
  LocationScope scope(at);
  return QuantileOf("nanquantile", self, q, dim, keepdim, interpolation, true);
}

// ---- Searching and counting

Tensor searchsorted(const Tensor& sorted_sequence, const Tensor& self, bool out_int32, bool right,
                    Location at) {
  LocationScope scope(at);
  int rank = sorted_sequence.dim();
  bool fits = rank == 1 || rank == self.dim();
  for (int i = 0; fits && rank > 1 && i < rank - 1; ++i) {
    fits = sorted_sequence.size(i) == self.size(i);
  }
  if (rank == 0 || !fits) {
    Throw(ErrorCode::kShapeMismatch,
          "searchsorted: sorted_sequence {} must be a vector or agree with {} in all but the last "
          "dim",
          sorted_sequence.shape().to_string(), self.shape().to_string());
  }
  DType result = out_int32 ? DType::kI32 : DType::kI64;
  if (self.numel() == 0) return Filled(self.sizes(), int64_t{0}, result, self);
  // The position is how many elements lie before: all that are not at (right: not beyond) the
  // value.
  Dims value_sizes = self.sizes();
  value_sizes.push_back(1);
  Dims bound_sizes = sorted_sequence.sizes();
  if (rank > 1) bound_sizes.insert(rank - 1, 1);
  Tensor bounds = Reshaped(sorted_sequence, bound_sizes), values = Reshaped(self, value_sizes);
  Tensor before = logical_not(right ? gt(bounds, values) : ge(bounds, values));
  return Apply(kReduceSum, at, {Casted(before, result)}, {Dims{self.dim()}, false});
}

Tensor bucketize(const Tensor& self, const Tensor& boundaries, bool out_int32, bool right,
                 Location at) {
  LocationScope scope(at);
  if (boundaries.dim() != 1) {
    Throw(ErrorCode::kShapeMismatch, "bucketize: boundaries must be a vector, got {}",
          boundaries.shape().to_string());
  }
  return searchsorted(boundaries, self, out_int32, right, at);
}

Tensor bincount(const Tensor& self, const std::optional<Tensor>& weights, int64_t minlength,
                Location at) {
  LocationScope scope(at);
  if (self.dim() != 1 || !IsIntegral(self.dtype()) || self.dtype() == DType::kBool) {
    Throw(ErrorCode::kShapeMismatch, "bincount: needs a vector of integers, got {}",
          self.shape().to_string());
  }
  if (minlength < 0)
    Throw(ErrorCode::kValue, "bincount: minlength is {}, needs at least 0", minlength);
  if (weights && weights->sizes() != self.sizes()) {
    Throw(ErrorCode::kShapeMismatch, "bincount: weights {} must have the sizes of {}",
          weights->shape().to_string(), self.shape().to_string());
  }
  DType dtype = !weights                          ? DType::kI64
                : weights->dtype() == DType::kF32 ? DType::kF32
                                                  : DType::kF64;
  if (self.numel() == 0) return Filled({minlength}, int64_t{0}, dtype, self);
  Tensor index = Casted(self, DType::kI64);
  int64_t size = std::max(minlength, ReadCount("bincount", max(index, at)) + 1);
  Tensor start = Filled({std::max<int64_t>(size, 0)}, int64_t{0}, dtype, self);
  Tensor source = weights ? Casted(*weights, dtype)
                          : Stretched(Constant(int64_t{1}, dtype), self.sizes(), self);
  return Scattered(start, index, source, 0, "sum");
}

Tensor isin(const Tensor& elements, const Tensor& test_elements, bool assume_unique, bool invert,
            Location at) {
  LocationScope scope(at);
  (void)assume_unique;  // only a hint
  Dims sizes = elements.sizes();
  sizes.push_back(1);
  Tensor same = eq(Reshaped(elements, sizes), Reshaped(test_elements, {test_elements.numel()}));
  Tensor found = any(same, {-1}, false, at);
  return invert ? logical_not(found) : found;
}

Tensor one_hot(const Tensor& self, int64_t num_classes, Location at) {
  LocationScope scope(at);
  if (self.dtype() != DType::kI64) {
    Throw<TypeError>(ErrorCode::kDTypeMismatch, "one_hot: needs i64 classes, got {}",
                     self.shape().to_string());
  }
  if (self.numel() == 0 && num_classes <= 0) {
    Throw(ErrorCode::kEmptyTensor, "one_hot: {} has no elements; give num_classes",
          self.shape().to_string());
  }
  if (num_classes == -1) num_classes = ReadCount("one_hot", max(self, at)) + 1;
  if (num_classes < 1) {
    Throw(ErrorCode::kValue, "one_hot: num_classes is {}, needs at least 1", num_classes);
  }
  Dims sizes = self.sizes();
  sizes.push_back(num_classes);
  Tensor zeros = Filled(sizes, int64_t{0}, DType::kI64, self);
  if (self.numel() == 0) return zeros;
  // Scattering checks the classes.
  sizes[sizes.size() - 1] = 1;
  Tensor ones = Stretched(Constant(int64_t{1}, DType::kI64), sizes, self);
  return Scattered(zeros, Reshaped(self, sizes), ones, self.dim(), "none");
}

// ---- Records

namespace {

using OfAll = Tensor (*)(const Tensor&, Location);
using Along = Both (*)(const Tensor&, int64_t, bool, Location);

/// q given as a number takes self's dtype.
Tensor AsQuantile(const Tensor& self, const Any& q) {
  if (!q.IsTensor() && !(q.ToDouble() >= 0 && q.ToDouble() <= 1)) {
    Throw(ErrorCode::kValue, "quantile: q must be in [0, 1], is {}", q.ToDouble());
  }
  return q.IsTensor() ? q.ToTensor() : Placed(Lift(q.ToScalar(), self.dtype()), self);
}

template <Tensor (*F)(const Tensor&, const Tensor&, std::optional<int64_t>, bool,
                      const std::string&, Location)>
Any CallQuantile(std::span<const Any> args) {
  const Tensor& self = args[0].ToTensor();
  auto dim = args[2].IsNone() ? std::optional<int64_t>() : args[2].ToInt();
  return Any(F(self, AsQuantile(self, args[1]), dim, args[3].ToBool(), args[4].ToStringRef(),
               Location::current()));
}

Tensor SearchsortedBoxed(const Tensor& sorted_sequence, const Tensor& self, bool out_int32,
                         bool right, std::optional<std::string> side,
                         std::optional<Tensor> sorter) {
  LocationScope scope(Location::current());
  if (side && *side != "left" && *side != "right") {
    Throw(ErrorCode::kValue, "searchsorted: side must be left or right, got '{}'", *side);
  }
  if (side && *side == "left" && right) {
    Throw(ErrorCode::kValue, "searchsorted: side='left' contradicts right=True");
  }
  Tensor sequence = sorter ? gather(sorted_sequence, -1, *sorter) : sorted_sequence;
  return searchsorted(sequence, self, out_int32, right || (side && *side == "right"));
}

HAMMOCK_FUNCTION(kArgsort,
                 "argsort(Tensor self, int dim=-1, bool descending=False, bool stable=False) -> "
                 "Tensor",
                 "Indices that sort.", argsort)
HAMMOCK_FUNCTION(kMsort, "msort(Tensor self) -> Tensor", "Sorts along the first dim.", msort)
HAMMOCK_FUNCTION(kKthvalue,
                 "kthvalue(Tensor self, int k, int dim=-1, bool keepdim=False) -> (Tensor, Tensor)",
                 "The k-th smallest values and their indices.", kthvalue)
HAMMOCK_FUNCTION(kMedian, "median(Tensor self) -> Tensor", "The lower median; NaN if there is one.",
                 static_cast<OfAll>(median))
HAMMOCK_FUNCTION(kMedianDim,
                 "median.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor, Tensor)",
                 "Lower medians along a dim and their indices.", static_cast<Along>(median))
HAMMOCK_FUNCTION(kNanmedian, "nanmedian(Tensor self) -> Tensor",
                 "The lower median of what is not NaN.", static_cast<OfAll>(nanmedian))
HAMMOCK_FUNCTION(kNanmedianDim,
                 "nanmedian.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor, Tensor)",
                 "Lower medians along a dim of what is not NaN, and their indices.",
                 static_cast<Along>(nanmedian))
HAMMOCK_FUNCTION(kMode, "mode(Tensor self, int dim=-1, bool keepdim=False) -> (Tensor, Tensor)",
                 "The most frequent values (the smallest of several) and an index of each.", mode)
HAMMOCK_FUNCTION(kSearchsorted,
                 "searchsorted(Tensor sorted_sequence, Tensor self, *, bool out_int32=False, bool "
                 "right=False, str? side=None, Tensor? sorter=None) -> Tensor",
                 "Where values would be inserted into a sorted sequence.", SearchsortedBoxed)
HAMMOCK_FUNCTION(kBucketize,
                 "bucketize(Tensor self, Tensor boundaries, *, bool out_int32=False, bool "
                 "right=False) -> Tensor",
                 "The bucket of each value.", bucketize)
HAMMOCK_FUNCTION(kBincount,
                 "bincount(Tensor self, Tensor? weights=None, int minlength=0) -> Tensor",
                 "How often each integer occurs; reads the largest.", bincount)
HAMMOCK_FUNCTION(kIsin,
                 "isin(Tensor elements, Tensor test_elements, *, bool assume_unique=False, bool "
                 "invert=False) -> Tensor",
                 "Whether each element occurs in the other tensor.", isin)
HAMMOCK_FUNCTION(kOneHot, "one_hot(Tensor self, int num_classes=-1) -> Tensor",
                 "A one at each class, zeros elsewhere.", one_hot)
constinit const OpDef kQuantile = {
    .schema =
        "quantile(Tensor self, Any q, int? dim=None, bool keepdim=False, *, str "
        "interpolation=\"linear\") -> Tensor",
    .doc = "Quantiles along a dim; NaN if there is one.",
    .call = CallQuantile<quantile>,
};
constinit const OpDef kNanquantile = {
    .schema =
        "nanquantile(Tensor self, Any q, int? dim=None, bool keepdim=False, *, str "
        "interpolation=\"linear\") -> Tensor",
    .doc = "Quantiles along a dim of what is not NaN.",
    .call = CallQuantile<nanquantile>,
};

}  // namespace

std::span<const OpDef* const> ops::OrderOps() {
  static constexpr const OpDef* kOps[] = {
      &kArgsort,   &kMsort,        &kKthvalue, &kMedian,       &kMedianDim,
      &kNanmedian, &kNanmedianDim, &kMode,     &kSearchsorted, &kBucketize,
      &kBincount,  &kIsin,         &kOneHot,   &kQuantile,     &kNanquantile,
  };
  return kOps;
}

}  // namespace hammock
