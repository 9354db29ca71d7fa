#include "hammock/ops/reduce.h"

#include <cmath>

#include "base/throw.h"
#include "hammock/ops/elementwise.h"
#include "ops/compose.h"
#include "ops/families.h"
#include "ops/primitives.h"

namespace hammock {

using namespace ops;  // NOLINT: the writer's kit of this folder

namespace {

Tensor Reduce(const OpDef& op, const Tensor& x, const Dims& dims, bool keepdim) {
  return Apply(op, Location(), {x}, {dims, keepdim});
}

DType SumType(const Tensor& self, std::optional<DType> dtype) {
  if (dtype) return *dtype;
  return IsIntegral(self.dtype()) ? DType::kI64 : self.dtype();
}

/// A reduction without an identity needs at least one element in every reduced dim.
void NeedElements(const char* op, const Tensor& self, const Dims& dims) {
  if (self.dim() == 0) return;
  for (int64_t d : dims) {
    if (self.size(d) != 0) continue;
    Throw(ErrorCode::kEmptyTensor,
          "{}: dim {} of {} has size 0 and this reduction has no identity; name a dim with elements",
          op, d, self.shape().to_string());
  }
}

std::vector<int64_t> AllDims(int rank) {
  std::vector<int64_t> dims;
  for (int i = 0; i < rank; ++i) dims.push_back(i);
  return dims;
}

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
  return Reduce(op, self, AllDims(self.dim()), false);
}

Tensor ArgExtreme(const OpDef& op, const Tensor& self, int dim, bool keepdim) {
  if (self.dim() == 0) return Reshaped(ArgExtreme(op, Reshaped(self, {1}), 0, false), {});
  return Apply(op, Location(), {self}, {dim, keepdim});
}

std::tuple<Tensor, Tensor> ExtremeAlong(const char* name, const OpDef& reduce, const OpDef& arg,
                                        const Tensor& self, int64_t dim, bool keepdim) {
  int d = WrapDim(name, dim, self.dim());
  NeedElements(name, self, {d});
  return {Reduce(reduce, self, OneDim(d, self.dim()), keepdim), ArgExtreme(arg, self, d, keepdim)};
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
  Tensor result =
      Reduce(op, Casted(self, DType::kBool), WrapDims(name, dim, self.dim()), keepdim);
  // PyTorch keeps u8, its truth type of old.
  return self.dtype() == DType::kU8 ? Casted(result, DType::kU8) : result;
}

Tensor Scan(const char* kind, const Tensor& self, int dim, bool reverse = false) {
  if (self.dim() == 0) return self;
  return Apply(kScan, Location(), {self}, {kind, dim, reverse});
}

// ---- Composites

extern const OpDef kMean, kVar, kStd, kVarMean, kStdMean, kLogSumExp, kNorm, kLogCumSumExp;

void InferReduced(const InferCall& c, DType dtype) {
  const Shape& self = *c.in[0];
  c.out.push_back(Shape(dtype, ReducedSizes(self.sizes(), Dims(c.attrs[0].ints()),
                                            c.attrs[c.op.info().AttributeIndex("keepdim")].boolean())));
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

/// Sum of squared distances from the mean over (count - correction), and the mean with keepdim.
std::pair<Tensor, Tensor> Moments(const Tensor& x, const Dims& dims, int64_t correction) {
  int64_t count = CountOf(x.sizes(), dims);
  Tensor mean = Reduce(kReduceSum, x, dims, true) / ConstantLike(count, x);
  Tensor distance = x - mean;
  Tensor squares = Reduce(kReduceSum, distance * distance, dims, true);
  return {squares / ConstantLike(std::max<int64_t>(count - correction, 0), x), mean};
}

struct VarianceCall {
  Dims dims;
  int64_t correction;
};

VarianceCall ReadVariance(const ExpandCall& c) {
  return {Dims(c.attrs[0].ints()), c.attrs[1].IsNone() ? 1 : c.attrs[1].integer()};
}

void InferVariance(const InferCall& c) {
  for (int i = 0; i < c.op.num_outputs; ++i) InferReduced(c, c.in[0]->dtype());
}

std::vector<Tensor> ExpandVariance(const ExpandCall& c) {
  DType dtype = c.out[0].dtype();
  auto [dims, correction] = ReadVariance(c);
  auto [variance, mean] = Moments(Casted(c.in[0], WideFloat(dtype)), dims, correction);
  bool root = &c.op == &kStd || &c.op == &kStdMean;
  Tensor first = root ? sqrt(variance) : variance;
  std::vector<Tensor> results{Reshaped(Casted(first, dtype), c.out[0].sizes())};
  if (c.op.num_outputs == 2) results.push_back(Reshaped(Casted(mean, dtype), c.out[1].sizes()));
  return results;
}

void InferLogSumExp(const InferCall& c) { InferReduced(c, FloatOf(c.in[0]->dtype())); }

std::vector<Tensor> ExpandLogSumExp(const ExpandCall& c) {
  DType dtype = c.out[0].dtype();
  Tensor x = Casted(c.in[0], WideFloat(dtype));
  Dims dims(c.attrs[0].ints());
  if (x.numel() == 0) {
    return {Casted(log(Reduce(kReduceSum, exp(x), dims, c.attrs[1].boolean())), dtype)};
  }
  Tensor largest = Reduce(kReduceMax, x, dims, true);
  // An infinite maximum must not turn into inf - inf.
  Tensor shift = where(isinf(largest), ConstantLike(0, x), largest);
  Tensor total = Reduce(kReduceSum, exp(x - shift), dims, true);
  return {Casted(Reshaped(log(total) + shift, c.out[0].sizes()), dtype)};
}

void InferNorm(const InferCall& c) {
  const Shape& self = *c.in[0];
  DType dtype = c.attrs[3].IsNone() ? self.dtype() : c.attrs[3].dtype();
  c.out.push_back(
      Shape(dtype, ReducedSizes(self.sizes(), Dims(c.attrs[1].ints()), c.attrs[2].boolean())));
}

std::vector<Tensor> ExpandNorm(const ExpandCall& c) {
  DType dtype = c.out[0].dtype();
  Tensor x = Casted(c.in[0], WideFloat(dtype));
  double p = c.attrs[0].real();
  Dims dims(c.attrs[1].ints());
  bool keepdim = c.attrs[2].boolean();
  Tensor size = abs(x);
  Tensor result;
  if (p == std::numeric_limits<double>::infinity()) {
    result = Reduce(kReduceMax, size, dims, keepdim);
  } else if (p == -std::numeric_limits<double>::infinity()) {
    result = Reduce(kReduceMin, size, dims, keepdim);
  } else if (p == 0) {
    result = Reduce(kReduceSum, Casted(ne(x, ConstantLike(0, x)), x.dtype()), dims, keepdim);
  } else if (p == 1) {
    result = Reduce(kReduceSum, size, dims, keepdim);
  } else if (p == 2) {
    result = sqrt(Reduce(kReduceSum, x * x, dims, keepdim));
  } else {
    Tensor total = Reduce(kReduceSum, pow(size, ConstantLike(p, x)), dims, keepdim);
    result = pow(total, ConstantLike(1.0 / p, x));
  }
  return {Casted(result, dtype)};
}

void InferLikeFirst(const InferCall& c) { c.out.push_back(*c.in[0]); }

std::vector<Tensor> ExpandLogCumSumExp(const ExpandCall& c) {
  DType dtype = c.out[0].dtype();
  Tensor x = Casted(c.in[0], WideFloat(dtype));
  int dim = static_cast<int>(c.attrs[0].integer());
  // Doubling: after step k every element covers the 2^k before it. Each step is stable, which a
  // scan of exp(x - max) would not be.
  int64_t size = x.dim() == 0 ? 1 : x.size(dim);
  for (int64_t shift = 1; shift < size; shift *= 2) {
    Tensor earlier =
        Padded(Sliced(x, dim, 0, size - shift), dim, shift, 0, -std::numeric_limits<double>::infinity());
    x = logaddexp(x, earlier);
  }
  return {Casted(x, dtype)};
}

/// Dims of a boxed call: None and [] mean all.
Dims BoxedDims(const std::optional<Dims>& dim) { return dim ? *dim : Dims(); }

}  // namespace

// ---- Sums

Tensor sum(const Tensor& self, const Dims& dim, bool keepdim, std::optional<DType> dtype,
           Location at) {
  LocationScope scope(at);
  return Reduce(kReduceSum, Casted(self, SumType(self, dtype)), WrapDims("sum", dim, self.dim()),
                keepdim);
}

Tensor nansum(const Tensor& self, const Dims& dim, bool keepdim, std::optional<DType> dtype,
              Location at) {
  LocationScope scope(at);
  if (!IsFloat(self.dtype())) return sum(self, dim, keepdim, dtype, at);
  return sum(where(isnan(self), ConstantLike(0, self), self), dim, keepdim, dtype, at);
}

Tensor mean(const Tensor& self, const Dims& dim, bool keepdim, std::optional<DType> dtype,
            Location at) {
  LocationScope scope(at);
  if (!IsFloat(dtype.value_or(self.dtype()))) {
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
  LocationScope scope(at);
  return Reduce(kReduceProd, Casted(self, SumType(self, dtype)), WrapDims("prod", dim, self.dim()),
                keepdim);
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
  if (!dim) return {ExtremeOfAll("aminmax", kReduceMin, self), ExtremeOfAll("aminmax", kReduceMax, self)};
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
  return ExtremeAlong("max", kReduceMax, kArgMax, self, dim, keepdim);
}

std::tuple<Tensor, Tensor> min(const Tensor& self, int64_t dim, bool keepdim, Location at) {
  LocationScope scope(at);
  return ExtremeAlong("min", kReduceMin, kArgMin, self, dim, keepdim);
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

// ---- Moments and norms

namespace {

std::vector<Tensor> Variance(const OpDef& op, const char* name, const Tensor& self, const Dims& dim,
                             int64_t correction, bool keepdim, const Location& at) {
  NeedFloat(name, self);
  const Attr attrs[] = {WrapDims(name, dim, self.dim()), correction, keepdim};
  return ApplyMulti(op, at, std::span(&self, 1), attrs);
}

}  // namespace

Tensor var(const Tensor& self, const Dims& dim, int64_t correction, bool keepdim, Location at) {
  return Variance(kVar, "var", self, dim, correction, keepdim, at)[0];
}

Tensor std(const Tensor& self, const Dims& dim, int64_t correction, bool keepdim, Location at) {
  return Variance(kStd, "std", self, dim, correction, keepdim, at)[0];
}

std::tuple<Tensor, Tensor> var_mean(const Tensor& self, const Dims& dim, int64_t correction,
                                    bool keepdim, Location at) {
  auto both = Variance(kVarMean, "var_mean", self, dim, correction, keepdim, at);
  return {both[0], both[1]};
}

std::tuple<Tensor, Tensor> std_mean(const Tensor& self, const Dims& dim, int64_t correction,
                                    bool keepdim, Location at) {
  auto both = Variance(kStdMean, "std_mean", self, dim, correction, keepdim, at);
  return {both[0], both[1]};
}

Tensor logsumexp(const Tensor& self, const Dims& dim, bool keepdim, Location at) {
  return Apply(kLogSumExp, at, {self}, {WrapDims("logsumexp", dim, self.dim()), keepdim});
}

Tensor norm(const Tensor& self, const Scalar& p, const Dims& dim, bool keepdim,
            std::optional<DType> dtype, Location at) {
  if (!IsFloat(dtype.value_or(self.dtype()))) NeedFloat("norm", self);
  Dims dims = WrapDims("norm", dim, self.dim());
  if (std::isinf(p.ToDouble()) || p.ToDouble() < 0) NeedElements("norm", self, dims);
  return Apply(kNorm, at, {self},
               {p.To(DType::kF64), dims, keepdim, dtype ? Attr(*dtype) : Attr()});
}

Tensor dist(const Tensor& self, const Tensor& other, const Scalar& p, Location at) {
  LocationScope scope(at);
  return norm(self - other, p, {}, false, std::nullopt, at);
}

// ---- Scans

Tensor cumsum(const Tensor& self, int64_t dim, std::optional<DType> dtype, Location at) {
  LocationScope scope(at);
  DType type = SumType(self, dtype);
  int d = WrapDim("cumsum", dim, self.dim());
  return Casted(Scan("sum", Casted(self, WideFloat(type)), d), type);
}

Tensor cumprod(const Tensor& self, int64_t dim, std::optional<DType> dtype, Location at) {
  LocationScope scope(at);
  DType type = SumType(self, dtype);
  int d = WrapDim("cumprod", dim, self.dim());
  return Casted(Scan("prod", Casted(self, WideFloat(type)), d), type);
}

namespace {

std::tuple<Tensor, Tensor> ExtremeScan(const char* name, const char* kind, const Tensor& self,
                                       int64_t dim) {
  int d = WrapDim(name, dim, self.dim());
  if (self.dim() == 0) return {clone(self), Filled({}, int64_t{0}, DType::kI64, self)};
  Tensor values = Scan(kind, self, d);
  // An element is a new extreme if it equals the extreme so far, or is NaN.
  Tensor is_new = eq(self, values);
  if (IsFloat(self.dtype())) is_new = logical_or(is_new, isnan(self));
  Tensor position = CountingAlong(d, self.dim(), self.size(d), self);
  Tensor marked = where(is_new, position, ConstantLike(0, position));
  return {values, Scan("max", marked, d)};
}

}  // namespace

std::tuple<Tensor, Tensor> cummax(const Tensor& self, int64_t dim, Location at) {
  LocationScope scope(at);
  return ExtremeScan("cummax", "max", self, dim);
}

std::tuple<Tensor, Tensor> cummin(const Tensor& self, int64_t dim, Location at) {
  LocationScope scope(at);
  return ExtremeScan("cummin", "min", self, dim);
}

Tensor logcumsumexp(const Tensor& self, int64_t dim, Location at) {
  NeedFloat("logcumsumexp", self);
  return Apply(kLogCumSumExp, at, {self}, {WrapDim("logcumsumexp", dim, self.dim())});
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

using Both = std::tuple<Tensor, Tensor>;
template <Tensor (*F)(const Tensor&, const Dims&, int64_t, bool, Location)>
struct One {
  static Tensor All(const Tensor& self, bool unbiased) {
    return F(self, {}, unbiased, false, Location::current());
  }
  static Tensor Dim(const Tensor& self, std::optional<Dims> dim, bool unbiased, bool keepdim) {
    return F(self, BoxedDims(dim), unbiased, keepdim, Location::current());
  }
  static Tensor Correction(const Tensor& self, std::optional<Dims> dim,
                           std::optional<int64_t> correction, bool keepdim) {
    return F(self, BoxedDims(dim), correction.value_or(1), keepdim, Location::current());
  }
};
template <Both (*F)(const Tensor&, const Dims&, int64_t, bool, Location)>
struct Two {
  static Both All(const Tensor& self, bool unbiased) {
    return F(self, {}, unbiased, false, Location::current());
  }
  static Both Dim(const Tensor& self, std::optional<Dims> dim, bool unbiased, bool keepdim) {
    return F(self, BoxedDims(dim), unbiased, keepdim, Location::current());
  }
  static Both Correction(const Tensor& self, std::optional<Dims> dim,
                         std::optional<int64_t> correction, bool keepdim) {
    return F(self, BoxedDims(dim), correction.value_or(1), keepdim, Location::current());
  }
};

Tensor NormBoxed(const Tensor& self, std::optional<Scalar> p, std::optional<Dims> dim, bool keepdim,
                 std::optional<DType> dtype) {
  return norm(self, p.value_or(Scalar(2.0)), BoxedDims(dim), keepdim, dtype);
}
Tensor NormNamed(const Tensor& self, const std::string& p, std::optional<Dims> dim, bool keepdim,
                 std::optional<DType> dtype) {
  if (p != "fro") {
    Throw<NotSupported>(ErrorCode::kNotSupported,
                        "norm: '{}' is not available; use 'fro', a number or an infinity", p);
  }
  return norm(self, 2.0, BoxedDims(dim), keepdim, dtype);
}

using OfAll = Tensor (*)(const Tensor&, Location);
using Along = Both (*)(const Tensor&, int64_t, bool, Location);
using OfTwo = Tensor (*)(const Tensor&, const Tensor&, Location);

#define HAMMOCK_FUNCTION(name, text, about, function) \
  constinit const OpDef name = {.schema = text, .doc = about, .call = Box<function>};

HAMMOCK_FUNCTION(kSum, "sum(Tensor self, *, ScalarType? dtype=None) -> Tensor",
                 "Sum of all elements; integers and bool give i64.", SumAll)
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
                 "Product of all elements; integers and bool give i64.", ProdAll)
HAMMOCK_FUNCTION(
    kProdDim,
    "prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    "Product along a dim; integers and bool give i64.", ProdDim)
HAMMOCK_FUNCTION(kAmax, "amax(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor",
                 "Largest element along dims.", amax)
HAMMOCK_FUNCTION(kAmin, "amin(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor",
                 "Smallest element along dims.", amin)
HAMMOCK_FUNCTION(
    kAminmax, "aminmax(Tensor self, *, int? dim=None, bool keepdim=False) -> (Tensor, Tensor)",
    "Smallest and largest element.", aminmax)
HAMMOCK_FUNCTION(kMax, "max(Tensor self) -> Tensor", "Largest element.", static_cast<OfAll>(max))
HAMMOCK_FUNCTION(kMaxDim,
                 "max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor, Tensor)",
                 "Largest elements along a dim, and their indices.", static_cast<Along>(max))
HAMMOCK_FUNCTION(kMaxOther, "max.other(Tensor self, Tensor other) -> Tensor",
                 "The larger of two elements.", static_cast<OfTwo>(max))
HAMMOCK_FUNCTION(kMin, "min(Tensor self) -> Tensor", "Smallest element.", static_cast<OfAll>(min))
HAMMOCK_FUNCTION(kMinDim,
                 "min.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor, Tensor)",
                 "Smallest elements along a dim, and their indices.", static_cast<Along>(min))
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

#define HAMMOCK_VARIANCE(op, Form, returns, about)                                               \
  HAMMOCK_FUNCTION(k_##op##_all, #op "(Tensor self, bool unbiased=True) -> " returns, about,     \
                   Form<hammock::op>::All)                                                       \
  HAMMOCK_FUNCTION(k_##op##_dim,                                                                 \
                   #op ".dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) " \
                       "-> " returns,                                                            \
                   about, Form<hammock::op>::Dim)
HAMMOCK_VARIANCE(var, One, "Tensor", "Variance.")
HAMMOCK_VARIANCE(std, One, "Tensor", "Standard deviation.")
HAMMOCK_VARIANCE(var_mean, Two, "(Tensor, Tensor)", "Variance and mean.")
HAMMOCK_VARIANCE(std_mean, Two, "(Tensor, Tensor)", "Standard deviation and mean.")
#undef HAMMOCK_VARIANCE

HAMMOCK_FUNCTION(kNormNamed,
                 "norm.str(Tensor self, str p, int[1]? dim=None, bool keepdim=False, *, "
                 "ScalarType? dtype=None) -> Tensor",
                 "A norm by name: 'fro'.", NormNamed)
HAMMOCK_FUNCTION(kDist, "dist(Tensor self, Tensor other, Scalar p=2) -> Tensor",
                 "The p-norm of a difference.", dist)
HAMMOCK_FUNCTION(kCumsum, "cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
                 "Running sum.", cumsum)
HAMMOCK_FUNCTION(kCumprod, "cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
                 "Running product.", cumprod)
HAMMOCK_FUNCTION(kCummax, "cummax(Tensor self, int dim) -> (Tensor, Tensor)",
                 "Running maximum and its latest index.", cummax)
HAMMOCK_FUNCTION(kCummin, "cummin(Tensor self, int dim) -> (Tensor, Tensor)",
                 "Running minimum and its latest index.", cummin)
HAMMOCK_FUNCTION(kEqual, "equal(Tensor self, Tensor other) -> bool",
                 "Whether sizes and all elements are equal; reads.", equal)
HAMMOCK_FUNCTION(kAllclose,
                 "allclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool "
                 "equal_nan=False) -> bool",
                 "Whether all elements are close; reads.", allclose)

constinit const OpDef kMean = {
    .schema = "mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) "
              "-> Tensor",
    .doc = "Mean along dims.",
    .call = Box<MeanDim>,
    .infer = InferMean,
    .expand = ExpandMean,
    .samples = {{"f32[2,3]", "{dim=[1], keepdim=false, dtype=none}"}},
};
constinit const OpDef kVar = {
    .schema = "var.correction(Tensor self, int[1]? dim=None, *, int? correction=None, bool "
              "keepdim=False) -> Tensor",
    .doc = "Variance; `correction` is subtracted from the count.",
    .call = Box<One<var>::Correction>,
    .infer = InferVariance,
    .expand = ExpandVariance,
    .samples = {{"f32[2,3]", "{dim=[1], correction=1, keepdim=false}"}},
};
constinit const OpDef kStd = {
    .schema = "std.correction(Tensor self, int[1]? dim=None, *, int? correction=None, bool "
              "keepdim=False) -> Tensor",
    .doc = "Standard deviation; `correction` is subtracted from the count.",
    .call = Box<One<hammock::std>::Correction>,
    .infer = InferVariance,
    .expand = ExpandVariance,
    .samples = {{"f32[2,3]", "{dim=[1], correction=1, keepdim=false}"}},
};
constinit const OpDef kVarMean = {
    .schema = "var_mean.correction(Tensor self, int[1]? dim=None, *, int? correction=None, bool "
              "keepdim=False) -> (Tensor, Tensor)",
    .doc = "Variance and mean.",
    .call = Box<Two<var_mean>::Correction>,
    .infer = InferVariance,
    .expand = ExpandVariance,
    .num_outputs = 2,
    .samples = {{"f32[2,3]", "{dim=[1], correction=1, keepdim=false}"}},
};
constinit const OpDef kStdMean = {
    .schema = "std_mean.correction(Tensor self, int[1]? dim=None, *, int? correction=None, bool "
              "keepdim=False) -> (Tensor, Tensor)",
    .doc = "Standard deviation and mean.",
    .call = Box<Two<std_mean>::Correction>,
    .infer = InferVariance,
    .expand = ExpandVariance,
    .num_outputs = 2,
    .samples = {{"f32[2,3]", "{dim=[1], correction=1, keepdim=false}"}},
};
constinit const OpDef kLogSumExp = {
    .schema = "logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor",
    .doc = "Logarithm of the sum of exponentials, without overflow.",
    .call = Box<logsumexp>,
    .infer = InferLogSumExp,
    .expand = ExpandLogSumExp,
    .samples = {{"f32[2,3]", "{dim=[1], keepdim=false}"}},
};
constinit const OpDef kNorm = {
    .schema = "norm(Tensor self, Scalar? p=2, int[1]? dim=None, bool keepdim=False, *, ScalarType? "
              "dtype=None) -> Tensor",
    .doc = "The p-norm of the elements along dims.",
    .baked = "p",
    .call = Box<NormBoxed>,
    .infer = InferNorm,
    .expand = ExpandNorm,
    .samples = {{"f32[2,3]", "{p=2.0, dim=[1], keepdim=false, dtype=none}"}},
};
constinit const OpDef kLogCumSumExp = {
    .schema = "logcumsumexp(Tensor self, int dim) -> Tensor",
    .doc = "Running logarithm of the sum of exponentials.",
    .call = Box<logcumsumexp>,
    .infer = InferLikeFirst,
    .expand = ExpandLogCumSumExp,
    .samples = {{"f32[2,3]", "{dim=1}"}},
};

}  // namespace

std::span<const OpDef* const> ops::ReductionOps() {
  static constexpr const OpDef* kOps[] = {
      &kSum,          &kSumDim,      &kNansum,       &kMeanAll,      &kMean,
      &kNanmean,      &kProd,        &kProdDim,      &kAmax,         &kAmin,
      &kAminmax,      &kMax,         &kMaxDim,       &kMaxOther,     &kMin,
      &kMinDim,       &kMinOther,    &kArgmaxFn,     &kArgminFn,     &kAny,
      &kAnyDim,       &kAll,         &kAllDim,       &kCountNonzero, &kTrace,
      &k_var_all,     &k_var_dim,    &kVar,          &k_std_all,     &k_std_dim,
      &kStd,          &k_var_mean_all, &k_var_mean_dim, &kVarMean,   &k_std_mean_all,
      &k_std_mean_dim, &kStdMean,    &kLogSumExp,    &kNorm,         &kNormNamed,
      &kDist,         &kCumsum,      &kCumprod,      &kCummax,       &kCummin,
      &kLogCumSumExp, &kEqual,       &kAllclose,
  };
  return kOps;
}

}  // namespace hammock
