// Distances between rows, covariances and finite differences.

#include <cmath>
#include <limits>

#include "base/throw.h"
#include "hammock/ops/create.h"
#include "hammock/ops/elementwise.h"
#include "hammock/ops/matmul.h"
#include "hammock/ops/reduce.h"
#include "hammock/ops/shape.h"
#include "hammock/ops/statistics.h"
#include "ir/primitives.h"
#include "ops/kit/compose.h"
#include "ops/kit/index_steps.h"
#include "ops/kit/record.h"
#include "ops/kit/reduce_steps.h"
#include "ops/primitives/families.h"
#include "ops/primitives/matrix_steps.h"
#include "trace/autocast.h"

namespace hammock {

using namespace ops;  // NOLINT: the writer's kit of this folder

namespace {

extern const OpDef kCdistCall;

extern const OpDef kCdist;

// ---- Distances

/// x ** p, of 0 and less 0; the derivative is 0 there too. NaN stays, and so does its derivative.
Tensor PositivePower(const Tensor& x, double p) {
  Tensor none = le(x, ConstantLike(0, x));
  Tensor safe = where(none, ConstantLike(1, x), x);
  Tensor power = p == 0.5 ? sqrt(safe) : pow(safe, ConstantLike(p, x));
  return where(none, ConstantLike(0, x), power);
}

/// The p-norm over `dims`, which are kept. Its derivative at zero is zero.
Tensor SmoothNorm(const Tensor& x, double p, const Dims& dims) {
  Tensor size = abs(x);
  if (CountOf(x.sizes(), dims) == 0) return Reduce(kReduceSum, size, dims, true);
  if (std::isinf(p)) return Reduce(p > 0 ? kReduceMax : kReduceMin, size, dims, true);
  if (p == 0) {
    return Reduce(kReduceSum, Casted(ne(x, ConstantLike(0, x)), x.dtype()), dims, true);
  }
  if (p == 1) return Reduce(kReduceSum, size, dims, true);
  if (p == 2) return PositivePower(Reduce(kReduceSum, x * x, dims, true), 0.5);
  return PositivePower(Reduce(kReduceSum, PositivePower(size, p), dims, true), 1 / p);
}

Dims BatchSizes(const Shape& type) {
  Dims sizes = type.sizes();
  sizes.resize(type.rank() - 2);
  return sizes;
}

void InferCdist(const InferCall& c) {
  const Shape &a = *c.in[0], &b = *c.in[1];
  RequireDType(c, IsFloat(a.dtype()), a, "a floating dtype");
  RequireSameDType(c, a, b);
  Dims sizes = BroadcastSizes("cdist", BatchSizes(a), BatchSizes(b));
  sizes.push_back(a.size(a.rank() - 2));
  sizes.push_back(b.size(b.rank() - 2));
  c.out.push_back(a.With(sizes));
}

std::vector<Tensor> ExpandCdist(const ExpandCall& c) {
  auto with_one = [](const Tensor& x, int index) {
    Dims sizes = x.sizes();
    sizes.push_back(sizes.back());
    for (int i = sizes.size() - 2; i > index; --i) sizes[i] = sizes[i - 1];
    sizes[index] = 1;
    return Reshaped(x, sizes);
  };
  const Tensor &a = c.in[0], &b = c.in[1];
  Tensor difference = with_one(a, a.dim() - 1) - with_one(b, b.dim() - 2);
  Tensor distance = SmoothNorm(difference, c.attrs[0].real(), Dims{difference.dim() - 1});
  return {Reshaped(distance, c.out[0].sizes())};
}

void CheckNormOrder(const char* op, double p) {
  if (!(p >= 0)) Throw(ErrorCode::kValue, "{}: p must not be negative, is {}", op, p);
}

// ---- Finite differences

Tensor Part(const Tensor& x, int dim, int64_t start, int64_t size) {
  return Sliced(x, dim, start < 0 ? start + x.size(dim) : start, size);
}

Tensor Joined(const Tensor& first, const Tensor& middle, const Tensor& last, int dim) {
  const Tensor parts[] = {first, middle, last};
  return Concatenated(parts, dim);
}

/// Equal steps of size `step`.
Tensor EvenGradient(const Tensor& x, int dim, double step, int64_t edge_order) {
  auto at = [&](int64_t index) { return Part(x, dim, index, 1); };
  int64_t inner = x.size(dim) - 2;
  Tensor center = (Part(x, dim, 2, inner) - Part(x, dim, 0, inner)) / step / 2;
  if (edge_order == 1) {
    return Joined((at(1) - at(0)) / step, center, (at(-1) - at(-2)) / step, dim);
  }
  Tensor first = (at(0) * -1.5 + at(1) * 2 - at(2) * 0.5) / step;
  Tensor last = (at(-3) * 0.5 - at(-2) * 2 + at(-1) * 1.5) / step;
  return Joined(first, center, last, dim);
}

/// At `coordinates`: weights of three neighbours for unequal steps.
Tensor UnevenGradient(const Tensor& x, int dim, const Tensor& coordinates, int64_t edge_order) {
  auto at = [&](int64_t index) { return Part(x, dim, index, 1); };
  int64_t size = x.size(dim), inner = size - 2;
  Dims shape = Dims::Filled(x.dim(), 1);
  shape[dim] = size - 1;
  Tensor steps = Sliced(coordinates, 0, 1, size - 1) - Sliced(coordinates, 0, 0, size - 1);
  steps = Reshaped(steps, shape);
  auto step = [&](int64_t index) { return Part(steps, dim, index, 1); };
  Tensor h = Part(steps, dim, 0, inner), k = Part(steps, dim, 1, inner);
  Tensor center = Part(x, dim, 0, inner) * (-k / (h * (h + k))) +
                  Part(x, dim, 1, inner) * ((k - h) / (h * k)) +
                  Part(x, dim, 2, inner) * (h / (k * (h + k)));
  if (edge_order == 1) {
    return Joined((at(1) - at(0)) / step(0), center, (at(-1) - at(-2)) / step(-1), dim);
  }
  h = step(0), k = step(1);
  Tensor first = at(0) * (-(h * 2 + k) / (h * (h + k))) + at(1) * ((h + k) / (h * k)) +
                 at(2) * (-h / (k * (h + k)));
  h = step(-2), k = step(-1);
  Tensor last = at(-3) * (k / (h * (h + k))) + at(-2) * (-(h + k) / (h * k)) +
                at(-1) * ((k * 2 + h) / (k * (h + k)));
  return Joined(first, center, last, dim);
}

Dims GradientDims(const Tensor& self, const Dims& dim, size_t spacings, int64_t edge_order) {
  const char* op = "gradient";
  if (edge_order != 1 && edge_order != 2) {
    Throw(ErrorCode::kValue, "{}: edge_order must be 1 or 2, is {}", op, edge_order);
  }
  if (self.dtype() == DType::kU8) {
    Throw<TypeError>(ErrorCode::kDTypeMismatch, "{}: {} is not supported; cast it", op,
                     self.shape().to_string());
  }
  if (self.dim() == 0 && dim.empty()) return {};
  NeedRank(op, self, 1);
  Dims dims = WrapDims(op, dim, self.dim());
  if (spacings != 0 && spacings != static_cast<size_t>(dims.size())) {
    Throw(ErrorCode::kValue, "{}: needs one spacing a dim, got {} for the dims {}", op, spacings,
          ToString(dims));
  }
  for (int64_t d : dims) {
    if (self.size(d) > edge_order) continue;
    Throw(ErrorCode::kShapeMismatch,
          "{}: dim {} of {} has size {}, needs at least edge_order + 1 = {}", op, d,
          self.shape().to_string(), self.size(d), edge_order + 1);
  }
  return dims;
}

}  // namespace

Tensor cdist(const Tensor& x1, const Tensor& x2, double p, Location at) {
  LocationScope scope(at);
  if (Autocasted cast(kCdistCall, at); cast) return cdist(cast(x1), cast(x2), p, at);
  CheckNormOrder("cdist", p);
  for (const Tensor* x : {&x1, &x2}) {
    NeedRank("cdist", *x, 2);
    NeedFloat("cdist", *x);
  }
  if (x1.dtype() != x2.dtype() || x1.size(-1) != x2.size(-1)) {
    Throw(ErrorCode::kShapeMismatch, "cdist: rows differ in length or dtype: {} and {}",
          x1.shape().to_string(), x2.shape().to_string());
  }
  return Apply(kCdist, at, {x1, x2}, {p});
}

Tensor cov(const Tensor& self, int64_t correction, const std::optional<Tensor>& fweights,
           const std::optional<Tensor>& aweights, Location at) {
  LocationScope scope(at);
  if (self.dim() > 2 || self.dtype() == DType::kBool) {
    Throw(ErrorCode::kShapeMismatch, "cov: needs at most 2 dims and numbers, got {}",
          self.shape().to_string());
  }
  Tensor x = self.dim() < 2 ? Reshaped(self, {1, self.numel()}) : self;
  int64_t count = x.size(1);
  auto check = [&](const char* name, const Tensor& w, bool good, const char* kind) {
    if (good && w.dim() <= 1 && w.numel() == count) return;
    Throw(ErrorCode::kShapeMismatch, "cov: {} must be a vector of {} {}, got {}", name, count, kind,
          w.shape().to_string());
  };
  Tensor w;
  if (fweights && fweights->defined()) {
    check("fweights", *fweights, IsIntegral(fweights->dtype()), "integers");
    w = Reshaped(*fweights, {count});
  }
  bool weighs = aweights && aweights->defined();
  if (weighs) {
    check("aweights", *aweights, IsFloat(aweights->dtype()), "floating numbers");
    Tensor a = Reshaped(*aweights, {count});
    w = w.defined() ? w * a : a;
  }
  if (!w.defined()) {
    Tensor centered = x - sum(x, Dims{1}, true) / static_cast<double>(count);
    double divisor = static_cast<double>(std::max<int64_t>(count - correction, 0));
    return squeeze(matmul(centered, MatrixAdjoint(centered)) / divisor);
  }
  if (count == 0) Throw(ErrorCode::kEmptyTensor, "cov: there are no weights to normalise by");
  Tensor total = sum(w, Dims{0});
  Tensor centered = x - sum(x * w, Dims{1}, true) / total;
  Tensor divisor = total;
  if (weighs && correction != 0) {
    divisor = total - sum(w * Reshaped(*aweights, {count}), Dims{0}) / total * correction;
  } else {
    divisor = total - correction;
  }
  divisor = maximum(divisor, ConstantLike(0, divisor));
  Tensor weighted = centered * w;
  return squeeze(matmul(Casted(centered, weighted.dtype()), MatrixAdjoint(weighted)) / divisor);
}

Tensor corrcoef(const Tensor& self, Location at) {
  LocationScope scope(at);
  if (self.dim() > 2) {
    Throw(ErrorCode::kShapeMismatch, "corrcoef: needs at most 2 dims, got {}",
          self.shape().to_string());
  }
  Tensor c = cov(self, 1, std::nullopt, std::nullopt, at);
  if (c.dim() == 0) return c / c;
  int64_t n = c.size(0);
  Tensor variances = Sliced(Reshaped(c, {n * n}), 0, 0, n, n + 1);
  Tensor deviation = sqrt(variances);
  c = c / Reshaped(deviation, {n, 1}) / Reshaped(deviation, {1, n});
  return clamp(c, -1, 1);
}

std::vector<Tensor> gradient(const Tensor& self, const std::vector<double>& spacing,
                             const Dims& dim, int64_t edge_order, Location at) {
  LocationScope scope(at);
  Dims dims = GradientDims(self, dim, spacing.size(), edge_order);
  std::vector<Tensor> results;
  for (int i = 0; i < dims.size(); ++i) {
    double step = spacing.empty() ? 1 : spacing[i];
    results.push_back(EvenGradient(self, static_cast<int>(dims[i]), step, edge_order));
  }
  return results;
}

std::vector<Tensor> gradient(const Tensor& self, const std::vector<Tensor>& spacing,
                             const Dims& dim, int64_t edge_order, Location at) {
  LocationScope scope(at);
  Dims dims = GradientDims(self, dim, spacing.size(), edge_order);
  std::vector<Tensor> results;
  for (int i = 0; i < static_cast<int>(spacing.size()); ++i) {
    if (spacing[i].dim() != 1 || spacing[i].numel() != self.size(dims[i])) {
      Throw(ErrorCode::kShapeMismatch,
            "gradient: coordinates along dim {} of {} must be a vector of {}, got {}", dims[i],
            self.shape().to_string(), self.size(dims[i]), spacing[i].shape().to_string());
    }
    results.push_back(UnevenGradient(self, static_cast<int>(dims[i]), spacing[i], edge_order));
  }
  return results;
}

// ---- Records

namespace {

/// `spacing` is none, a number, numbers or coordinates; `dim` none, a dim or dims.
Any CallGradient(std::span<const Any> args) {
  const Tensor& self = args[0].ToTensor();
  const Any &spacing = args[1], &dim = args[2];
  Dims dims;
  if (!dim.IsNone()) dims = dim.IsSequence() ? Dims(dim.ToInts()) : Dims{dim.ToInt()};
  int64_t edge_order = args[3].ToInt();
  bool coordinates = spacing.IsTensor() || (spacing.IsSequence() && !spacing.ToList().empty() &&
                                            spacing.ToList()[0].IsTensor());
  if (coordinates) {
    std::vector<Tensor> vectors =
        spacing.IsTensor() ? std::vector<Tensor>{spacing.ToTensor()} : boxing::ToTensors(spacing);
    return boxing::FromTensors(gradient(self, vectors, dims, edge_order));
  }
  std::vector<double> steps;
  if (spacing.IsSequence()) {
    steps = spacing.ToDoubles();
  } else if (!spacing.IsNone()) {
    size_t count = static_cast<size_t>(dims.empty() ? self.dim() : dims.size());
    steps.assign(count, spacing.ToDouble());
  }
  return boxing::FromTensors(gradient(self, steps, dims, edge_order));
}

/// The last argument says how PyTorch computes; here it is always by differences.
Any CallCdist(std::span<const Any> args) {
  return Any(cdist(args[0].ToTensor(), args[1].ToTensor(), args[2].ToDouble()));
}

constinit const OpDef kCdist = {
    .schema = "cdist_of(Tensor x1, Tensor x2, float p) -> Tensor",
    .doc = "p-norms of the differences of all rows.",
    .infer = InferCdist,
    .expand = ExpandCdist,
    .samples = {{"f32[2,3] f32[4,3]", "{p=2.0}"}},
};
constinit const OpDef kCdistCall = {
    .schema = "cdist(Tensor x1, Tensor x2, float p=2.0, Any compute_mode=None) -> Tensor",
    .doc = "p-norms of the differences of all rows, whatever the compute_mode.",
    .call = CallCdist,
    .autocast = AutocastRule::kF32,
};
HAMMOCK_FUNCTION(kCov,
                 "cov(Tensor self, *, int correction=1, Tensor? fweights=None, Tensor? "
                 "aweights=None) -> Tensor",
                 "Covariances of the rows.", cov)
HAMMOCK_FUNCTION(kCorrcoef, "corrcoef(Tensor self) -> Tensor", "Correlations of the rows.",
                 corrcoef)
constinit const OpDef kGradient = {
    .schema = "gradient(Tensor self, *, Any spacing=None, Any dim=None, int edge_order=1) -> Any",
    .doc = "Central differences along each dim.",
    .call = CallGradient,
};

}  // namespace

std::span<const OpDef* const> ops::DistanceOps() {
  static constexpr const OpDef* kOps[] = {&kCdist, &kCdistCall, &kCov, &kCorrcoef, &kGradient};
  return kOps;
}

}  // namespace hammock
