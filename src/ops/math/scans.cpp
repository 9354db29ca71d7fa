// Running sums, products and extremes.

#include <limits>

#include "base/throw.h"
#include "hammock/ops/elementwise.h"
#include "hammock/ops/reduce.h"
#include "ir/primitives.h"
#include "ops/kit/compose.h"
#include "ops/kit/reduce_steps.h"
#include "ops/primitives/families.h"
#include "trace/autocast.h"

namespace hammock {

using namespace ops;  // NOLINT: the writer's kit of this folder

namespace {

extern const OpDef kCumprod, kCumsum;

extern const OpDef kLogCumSumExp;

Tensor Scan(const char* kind, const Tensor& self, int dim, bool reverse = false) {
  if (self.dim() == 0) return self;
  return Apply(kScan, Location(), {self}, {kind, dim, reverse});
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
    Tensor earlier = Padded(Sliced(x, dim, 0, size - shift), dim, shift, 0,
                            -std::numeric_limits<double>::infinity());
    x = logaddexp(x, earlier);
  }
  return {Casted(x, dtype)};
}

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

Tensor cumsum(const Tensor& self, int64_t dim, std::optional<DType> dtype, Location at) {
  if (Autocasted cast(kCumsum, at); cast) return cumsum(cast(self), dim, dtype, at);
  LocationScope scope(at);
  DType type = SumType(self, dtype);
  int d = WrapDim("cumsum", dim, self.dim());
  return Casted(Scan("sum", Casted(self, WideFloat(type)), d), type);
}

Tensor cumprod(const Tensor& self, int64_t dim, std::optional<DType> dtype, Location at) {
  if (Autocasted cast(kCumprod, at); cast) return cumprod(cast(self), dim, dtype, at);
  LocationScope scope(at);
  DType type = SumType(self, dtype);
  int d = WrapDim("cumprod", dim, self.dim());
  return Casted(Scan("prod", Casted(self, WideFloat(type)), d), type);
}

std::tuple<Tensor, Tensor> cummax(const Tensor& self, int64_t dim, Location at) {
  LocationScope scope(at);
  return ExtremeScan("cummax", "max", self, dim);
}

std::tuple<Tensor, Tensor> cummin(const Tensor& self, int64_t dim, Location at) {
  LocationScope scope(at);
  return ExtremeScan("cummin", "min", self, dim);
}

Tensor logcumsumexp(const Tensor& self, int64_t dim, Location at) {
  LocationScope scope(at);
  NeedFloat("logcumsumexp", self);
  return Apply(kLogCumSumExp, at, {self}, {WrapDim("logcumsumexp", dim, self.dim())});
}

namespace {

HAMMOCK_FUNCTION(kCumsum, "cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
                 "Running sum.", cumsum, AutocastRule::kF32)
HAMMOCK_FUNCTION(kCumprod, "cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
                 "Running product.", cumprod, AutocastRule::kF32)
HAMMOCK_FUNCTION(kCummax, "cummax(Tensor self, int dim) -> (Tensor, Tensor)",
                 "Running maximum and its latest index.", cummax)
HAMMOCK_FUNCTION(kCummin, "cummin(Tensor self, int dim) -> (Tensor, Tensor)",
                 "Running minimum and its latest index.", cummin)

constinit const OpDef kLogCumSumExp = {
    .schema = "logcumsumexp(Tensor self, int dim) -> Tensor",
    .doc = "Running logarithm of the sum of exponentials.",
    .call = Box<logcumsumexp>,
    .infer = InferLikeFirst,
    .expand = ExpandLogCumSumExp,
    .samples = {{"f32[2,3]", "{dim=1}"}},
};

}  // namespace

std::span<const OpDef* const> ops::ScanOps() {
  static constexpr const OpDef* kOps[] = {&kCumsum, &kCumprod, &kCummax, &kCummin, &kLogCumSumExp};
  return kOps;
}

}  // namespace hammock
