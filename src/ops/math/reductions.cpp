#include "hammock/ops/reduce.h"

#include "base/throw.h"
#include "hammock/ops/elementwise.h"
#include "ir/primitives.h"
#include "ops/kit/compose.h"
#include "ops/kit/reduce_steps.h"
#include "ops/primitives/families.h"
#include "trace/autocast.h"

namespace hammock {

using namespace ops;  // NOLINT: the writer's kit of this folder

namespace {

extern const OpDef kProd, kSum;

extern const OpDef kMean, kMaxDim, kMinDim;

Tensor Extreme(const char* name, const OpDef& op, const Tensor& self, const Dims& dim,
               bool keepdim) {
  Dims dims = WrapDims(name, dim, self.dim());
  NeedElements(name, self, dims);
  return Reduce(op, self, dims, keepdim);
}

Tensor ExtremeOfAll(const char* name, const OpDef& op, const Tensor& self) {
  if (self.numel() == 0) {
    Throw(ErrorCode::kEmptyTensor,
          "{}: {} has no elements and no identity; name a dim with elements", name,
          self.shape().to_string());
  }
  return Reduce(op, self, WrapDims(name, {}, self.dim()), false);
}

Tensor ArgExtreme(const OpDef& op, const Tensor& self, int dim, bool keepdim) {
  if (self.dim() == 0) return Reshaped(ArgExtreme(op, Reshaped(self, {1}), 0, false), {});
  return Apply(op, Location(), {self}, {dim, keepdim});
}

std::tuple<Tensor, Tensor> ExtremeAlong(const OpDef& op, const char* name, const Tensor& self,
                                        int64_t dim, bool keepdim) {
  int d = WrapDim(name, dim, self.dim());
  NeedElements(name, self, {d});
  const Attr attrs[] = {d, keepdim};
  auto both = ApplyMulti(op, Location(), std::span(&self, 1), attrs);
  return {both[0], both[1]};
}

void InferExtremeAlong(const InferCall& c) {
  const Shape& self = *c.in[0];
  Dims dims = OneDim(static_cast<int>(c.attrs[0].integer()), self.rank());
  Dims sizes = ReducedSizes(self.sizes(), dims, c.attrs[1].boolean());
  c.out = {self.With(sizes), Shape(DType::kI64, sizes)};
}

std::vector<Tensor> ExpandExtremeAlong(const ExpandCall& c) {
  int dim = static_cast<int>(c.attrs[0].integer());
  bool keepdim = c.attrs[1].boolean(), largest = &c.op == &kMaxDim;
  const Tensor& x = c.in[0];
  return {Reduce(largest ? kReduceMax : kReduceMin, x, OneDim(dim, x.dim()), keepdim),
          ArgExtreme(largest ? kArgMax : kArgMin, x, dim, keepdim)};
}

/// To the element that was chosen, unlike amax, where equals share.
std::vector<Tensor> ExtremeAlongVjp(const VjpCall& c) {
  const Tensor& x = c.in[0];
  if (x.dim() == 0) return {c.grads[0]};
  Dims kept = ReducedSizes(x.sizes(), {c.attrs[0].integer()}, true);
  return {Apply(kScatter, Location(),
                {ZerosLike(x.shape(), x), Reshaped(c.out[1], kept), Reshaped(c.grads[0], kept)},
                {c.attrs[0], "none"})};
}

Tensor ArgExtremeOf(const char* name, const OpDef& op, const Tensor& self,
                    std::optional<int64_t> dim, bool keepdim) {
  if (self.dtype() == DType::kBool) {
    Throw<TypeError>(ErrorCode::kDTypeMismatch, "{}: has no order for bool; cast {} to u8 first",
                     name, self.shape().to_string());
  }
  if (dim) {
    int d = WrapDim(name, *dim, self.dim());
    NeedElements(name, self, {d});
    return ArgExtreme(op, self, d, keepdim);
  }
  if (self.numel() == 0) {
    Throw(ErrorCode::kEmptyTensor, "{}: {} has no elements; name a dim with elements", name,
          self.shape().to_string());
  }
  Tensor flat = ArgExtreme(op, Reshaped(self, {self.numel()}), 0, false);
  return keepdim ? Reshaped(flat, Dims::Filled(self.dim(), 1)) : flat;
}

Tensor TruthReduce(const char* name, const OpDef& op, const Tensor& self, const Dims& dim,
                   bool keepdim) {
  Tensor result = Reduce(op, Casted(self, DType::kBool), WrapDims(name, dim, self.dim()), keepdim);
  // PyTorch keeps u8, its truth type of old.
  return self.dtype() == DType::kU8 ? Casted(result, DType::kU8) : result;
}

void InferMean(const InferCall& c) {
  InferReduced(c, c.attrs[2].IsNone() ? c.in[0]->dtype() : c.attrs[2].dtype());
}

std::vector<Tensor> ExpandMean(const ExpandCall& c) {
  DType dtype = c.out[0].dtype();
  Tensor x = Casted(c.in[0], WideFloat(dtype));
  Dims dims(c.attrs[0].ints());
  Tensor total = Reduce(kReduceSum, x, dims, c.attrs[1].boolean());
  return {Casted(total / ConstantLike(CountOf(x.sizes(), dims), x), dtype)};
}

}  // namespace

// ---- Sums

Tensor sum(const Tensor& self, const Dims& dim, bool keepdim, std::optional<DType> dtype,
           Location at) {
  if (Autocasted cast(kSum, at); cast) return sum(cast(self), dim, keepdim, dtype, at);
  LocationScope scope(at);
  DType type = SumType(self, dtype);
  return Reduce(type == DType::kBool ? kReduceAny : kReduceSum, Casted(self, type),
                WrapDims("sum", dim, self.dim()), keepdim);
}

Tensor nansum(const Tensor& self, const Dims& dim, bool keepdim, std::optional<DType> dtype,
              Location at) {
  LocationScope scope(at);
  if (IsComplex(self.dtype())) {
    Throw<TypeError>(ErrorCode::kDTypeMismatch, "nansum: complex numbers are not supported: {}",
                     self.shape().to_string());
  }
  if (!IsFloat(self.dtype())) return sum(self, dim, keepdim, dtype, at);
  return sum(where(isnan(self), ConstantLike(0, self), self), dim, keepdim, dtype, at);
}

Tensor mean(const Tensor& self, const Dims& dim, bool keepdim, std::optional<DType> dtype,
            Location at) {
  LocationScope scope(at);
  if (!IsFloatOrComplex(dtype.value_or(self.dtype()))) {
    Throw<TypeError>(ErrorCode::kDTypeMismatch,
                     "mean: the result needs a floating dtype, got {} for {}; pass dtype=f32",
                     NameOf(dtype.value_or(self.dtype())), self.shape().to_string());
  }
  Dims dims = WrapDims("mean", dim, self.dim());
  return Apply(kMean, at, {self}, {dims, keepdim, dtype ? Attr(*dtype) : Attr()});
}

Tensor nanmean(const Tensor& self, const Dims& dim, bool keepdim, std::optional<DType> dtype,
               Location at) {
  LocationScope scope(at);
  NeedFloat("nanmean", self);
  DType wide = WideFloat(dtype.value_or(self.dtype()));
  Tensor count = sum(logical_not(isnan(self)), dim, keepdim, wide, at);
  return Casted(nansum(self, dim, keepdim, wide, at) / count, dtype.value_or(self.dtype()));
}

Tensor prod(const Tensor& self, const Dims& dim, bool keepdim, std::optional<DType> dtype,
            Location at) {
  if (Autocasted cast(kProd, at); cast) return prod(cast(self), dim, keepdim, dtype, at);
  LocationScope scope(at);
  DType type = SumType(self, dtype);
  return Reduce(type == DType::kBool ? kReduceAll : kReduceProd, Casted(self, type),
                WrapDims("prod", dim, self.dim()), keepdim);
}

Tensor count_nonzero(const Tensor& self, const Dims& dim, Location at) {
  LocationScope scope(at);
  return sum(Casted(self, DType::kBool), WrapDims("count_nonzero", dim, self.dim()), false,
             DType::kI64, at);
}

Tensor trace(const Tensor& self, Location at) {
  LocationScope scope(at);
  if (self.dim() != 2) {
    Throw(ErrorCode::kShapeMismatch, "trace: needs a matrix, got {}", self.shape().to_string());
  }
  return sum(diagonal(self), {}, false, std::nullopt, at);
}

// ---- Extremes

Tensor amax(const Tensor& self, const Dims& dim, bool keepdim, Location at) {
  LocationScope scope(at);
  return Extreme("amax", kReduceMax, self, dim, keepdim);
}

Tensor amin(const Tensor& self, const Dims& dim, bool keepdim, Location at) {
  LocationScope scope(at);
  return Extreme("amin", kReduceMin, self, dim, keepdim);
}

std::tuple<Tensor, Tensor> aminmax(const Tensor& self, std::optional<int64_t> dim, bool keepdim,
                                   Location at) {
  LocationScope scope(at);
  if (!dim)
    return {ExtremeOfAll("aminmax", kReduceMin, self), ExtremeOfAll("aminmax", kReduceMax, self)};
  int d = WrapDim("aminmax", *dim, self.dim());
  NeedElements("aminmax", self, {d});
  // As in PyTorch, a 0-d tensor gains a dim under keepdim here.
  if (self.dim() == 0) {
    Tensor result = keepdim ? Reshaped(self, {1}) : self;
    return {clone(result), clone(result)};
  }
  return {Reduce(kReduceMin, self, {d}, keepdim), Reduce(kReduceMax, self, {d}, keepdim)};
}

Tensor max(const Tensor& self, Location at) {
  LocationScope scope(at);
  return ExtremeOfAll("max", kReduceMax, self);
}

Tensor min(const Tensor& self, Location at) {
  LocationScope scope(at);
  return ExtremeOfAll("min", kReduceMin, self);
}

std::tuple<Tensor, Tensor> max(const Tensor& self, int64_t dim, bool keepdim, Location at) {
  LocationScope scope(at);
  return ExtremeAlong(kMaxDim, "max", self, dim, keepdim);
}

std::tuple<Tensor, Tensor> min(const Tensor& self, int64_t dim, bool keepdim, Location at) {
  LocationScope scope(at);
  return ExtremeAlong(kMinDim, "min", self, dim, keepdim);
}

Tensor max(const Tensor& self, const Tensor& other, Location at) {
  return Apply(kMaximum, at, {self, other});
}

Tensor min(const Tensor& self, const Tensor& other, Location at) {
  return Apply(kMinimum, at, {self, other});
}

Tensor argmax(const Tensor& self, std::optional<int64_t> dim, bool keepdim, Location at) {
  LocationScope scope(at);
  return ArgExtremeOf("argmax", kArgMax, self, dim, keepdim);
}

Tensor argmin(const Tensor& self, std::optional<int64_t> dim, bool keepdim, Location at) {
  LocationScope scope(at);
  return ArgExtremeOf("argmin", kArgMin, self, dim, keepdim);
}

Tensor any(const Tensor& self, const Dims& dim, bool keepdim, Location at) {
  LocationScope scope(at);
  return TruthReduce("any", kReduceAny, self, dim, keepdim);
}

Tensor all(const Tensor& self, const Dims& dim, bool keepdim, Location at) {
  LocationScope scope(at);
  return TruthReduce("all", kReduceAll, self, dim, keepdim);
}

// ---- Comparisons that read

bool equal(const Tensor& self, const Tensor& other, Location at) {
  LocationScope scope(at);
  if (self.dtype() != other.dtype()) {
    Throw<TypeError>(ErrorCode::kDTypeMismatch, "equal: dtypes differ: {} and {}; cast one",
                     self.shape().to_string(), other.shape().to_string());
  }
  if (self.sizes() != other.sizes()) return false;
  return all(eq(self, other), {}, false, at).item<bool>(at);
}

bool allclose(const Tensor& self, const Tensor& other, double rtol, double atol, bool equal_nan,
              Location at) {
  LocationScope scope(at);
  return all(isclose(self, other, rtol, atol, equal_nan), {}, false, at).item<bool>(at);
}

// ---- Records

namespace {

Tensor SumAll(const Tensor& self, std::optional<DType> dtype) {
  return sum(self, {}, false, dtype);
}
Tensor SumDim(const Tensor& self, std::optional<Dims> dim, bool keepdim,
              std::optional<DType> dtype) {
  return sum(self, BoxedDims(dim), keepdim, dtype);
}
Tensor NansumDim(const Tensor& self, std::optional<Dims> dim, bool keepdim,
                 std::optional<DType> dtype) {
  return nansum(self, BoxedDims(dim), keepdim, dtype);
}
Tensor MeanAll(const Tensor& self, std::optional<DType> dtype) {
  return mean(self, {}, false, dtype);
}
Tensor MeanDim(const Tensor& self, std::optional<Dims> dim, bool keepdim,
               std::optional<DType> dtype) {
  return mean(self, BoxedDims(dim), keepdim, dtype);
}
Tensor NanmeanDim(const Tensor& self, std::optional<Dims> dim, bool keepdim,
                  std::optional<DType> dtype) {
  return nanmean(self, BoxedDims(dim), keepdim, dtype);
}
Tensor ProdAll(const Tensor& self, std::optional<DType> dtype) {
  return prod(self, {}, false, dtype);
}
Tensor ProdDim(const Tensor& self, int64_t dim, bool keepdim, std::optional<DType> dtype) {
  return prod(self, {dim}, keepdim, dtype);
}
Tensor AnyAll(const Tensor& self) { return any(self); }
Tensor AnyDim(const Tensor& self, int64_t dim, bool keepdim) { return any(self, {dim}, keepdim); }
Tensor AllAll(const Tensor& self) { return all(self); }
Tensor AllDim(const Tensor& self, int64_t dim, bool keepdim) { return all(self, {dim}, keepdim); }
Tensor CountDims(const Tensor& self, std::optional<Dims> dim) {
  return count_nonzero(self, BoxedDims(dim));
}

using OfAll = Tensor (*)(const Tensor&, Location);
using Along = std::tuple<Tensor, Tensor> (*)(const Tensor&, int64_t, bool, Location);
using OfTwo = Tensor (*)(const Tensor&, const Tensor&, Location);

HAMMOCK_FUNCTION(kSum, "sum(Tensor self, *, ScalarType? dtype=None) -> Tensor",
                 "Sum of all elements; integers and bool give i64.", SumAll, AutocastRule::kF32)
HAMMOCK_FUNCTION(
    kSumDim,
    "sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> "
    "Tensor",
    "Sum along dims; integers and bool give i64.", SumDim)
HAMMOCK_FUNCTION(kNansum,
                 "nansum(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? "
                 "dtype=None) -> Tensor",
                 "Sum that counts NaN as zero.", NansumDim)
HAMMOCK_FUNCTION(kMeanAll, "mean(Tensor self, *, ScalarType? dtype=None) -> Tensor",
                 "Mean of all elements.", MeanAll)
HAMMOCK_FUNCTION(kNanmean,
                 "nanmean(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? "
                 "dtype=None) -> Tensor",
                 "Mean of the elements that are not NaN.", NanmeanDim)
HAMMOCK_FUNCTION(kProd, "prod(Tensor self, *, ScalarType? dtype=None) -> Tensor",
                 "Product of all elements; integers and bool give i64.", ProdAll,
                 AutocastRule::kF32)
HAMMOCK_FUNCTION(
    kProdDim,
    "prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    "Product along a dim; integers and bool give i64.", ProdDim)
HAMMOCK_FUNCTION(kAmax, "amax(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor",
                 "Largest element along dims.", amax)
HAMMOCK_FUNCTION(kAmin, "amin(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor",
                 "Smallest element along dims.", amin)
HAMMOCK_FUNCTION(kAminmax,
                 "aminmax(Tensor self, *, int? dim=None, bool keepdim=False) -> (Tensor, Tensor)",
                 "Smallest and largest element.", aminmax)
HAMMOCK_FUNCTION(kMax, "max(Tensor self) -> Tensor", "Largest element.", static_cast<OfAll>(max))
HAMMOCK_FUNCTION(kMaxOther, "max.other(Tensor self, Tensor other) -> Tensor",
                 "The larger of two elements.", static_cast<OfTwo>(max))
HAMMOCK_FUNCTION(kMin, "min(Tensor self) -> Tensor", "Smallest element.", static_cast<OfAll>(min))
HAMMOCK_FUNCTION(kMinOther, "min.other(Tensor self, Tensor other) -> Tensor",
                 "The smaller of two elements.", static_cast<OfTwo>(min))
HAMMOCK_FUNCTION(kArgmaxFn, "argmax(Tensor self, int? dim=None, bool keepdim=False) -> Tensor",
                 "Index of the first largest element; NaN counts as largest.", argmax)
HAMMOCK_FUNCTION(kArgminFn, "argmin(Tensor self, int? dim=None, bool keepdim=False) -> Tensor",
                 "Index of the first smallest element; NaN counts as smallest.", argmin)
HAMMOCK_FUNCTION(kAny, "any(Tensor self) -> Tensor", "Whether any element is true.", AnyAll)
HAMMOCK_FUNCTION(kAnyDim, "any.dim(Tensor self, int dim, bool keepdim=False) -> Tensor",
                 "Whether any element along a dim is true.", AnyDim)
HAMMOCK_FUNCTION(kAll, "all(Tensor self) -> Tensor", "Whether all elements are true.", AllAll)
HAMMOCK_FUNCTION(kAllDim, "all.dim(Tensor self, int dim, bool keepdim=False) -> Tensor",
                 "Whether all elements along a dim are true.", AllDim)
HAMMOCK_FUNCTION(kCountNonzero, "count_nonzero(Tensor self, int[1]? dim=None) -> Tensor",
                 "How many elements are not zero.", CountDims)
HAMMOCK_FUNCTION(kTrace, "trace(Tensor self) -> Tensor", "Sum of the diagonal of a matrix.", trace)
HAMMOCK_FUNCTION(kEqual, "equal(Tensor self, Tensor other) -> bool",
                 "Whether sizes and all elements are equal; reads.", equal)
HAMMOCK_FUNCTION(kAllclose,
                 "allclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool "
                 "equal_nan=False) -> bool",
                 "Whether all elements are close; reads.", allclose)

constinit const OpDef kMaxDim = {
    .schema = "max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor, Tensor)",
    .doc = "Largest elements along a dim, and their indices.",
    .call = Box<static_cast<Along>(max)>,
    .infer = InferExtremeAlong,
    .expand = ExpandExtremeAlong,
    .vjp = ExtremeAlongVjp,
    .num_outputs = 2,
    .samples = {{"f32[2,3]", "{dim=1, keepdim=false}"}},
};
constinit const OpDef kMinDim = {
    .schema = "min.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor, Tensor)",
    .doc = "Smallest elements along a dim, and their indices.",
    .call = Box<static_cast<Along>(min)>,
    .infer = InferExtremeAlong,
    .expand = ExpandExtremeAlong,
    .vjp = ExtremeAlongVjp,
    .num_outputs = 2,
    .samples = {{"f32[2,3]", "{dim=1, keepdim=false}"}},
};
constinit const OpDef kMean = {
    .schema =
        "mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) "
        "-> Tensor",
    .doc = "Mean along dims.",
    .call = Box<MeanDim>,
    .infer = InferMean,
    .expand = ExpandMean,
    .samples = {{"f32[2,3]", "{dim=[1], keepdim=false, dtype=none}"}},
};

}  // namespace

std::span<const OpDef* const> ops::ReductionOps() {
  static constexpr const OpDef* kOps[] = {
      &kSum,     &kSumDim, &kNansum,       &kMeanAll,  &kMean,     &kNanmean,  &kProd,
      &kProdDim, &kAmax,   &kAmin,         &kAminmax,  &kMax,      &kMaxDim,   &kMaxOther,
      &kMin,     &kMinDim, &kMinOther,     &kArgmaxFn, &kArgminFn, &kAny,      &kAnyDim,
      &kAll,     &kAllDim, &kCountNonzero, &kTrace,    &kEqual,    &kAllclose,
  };
  return kOps;
}

}  // namespace hammock
