// Moments, norms and sums of exponentials.

#include <cmath>
#include <limits>

#include "base/throw.h"
#include "hammock/ops/elementwise.h"
#include "hammock/ops/linalg.h"
#include "hammock/ops/reduce.h"
#include "ir/primitives.h"
#include "ops/kit/compose.h"
#include "ops/kit/reduce_steps.h"
#include "ops/primitives/complex_parts.h"
#include "ops/primitives/families.h"
#include "trace/autocast.h"

namespace hammock {

using namespace ops;  // NOLINT: the writer's kit of this folder

namespace {

extern const OpDef kDist;

extern const OpDef kVar, kStd, kVarMean, kStdMean, kLogSumExp, kNorm;

/// |x|^2
Tensor SquareOfSize(const Tensor& x) {
  if (!IsComplex(x.dtype())) return x * x;
  Parts parts = PartsOf(x);
  return parts.real * parts.real + parts.imag * parts.imag;
}

/// Sum of squared distances from the mean over (count - correction), and the mean with keepdim.
std::pair<Tensor, Tensor> Moments(const Tensor& x, const Dims& dims, int64_t correction) {
  int64_t count = CountOf(x.sizes(), dims);
  Tensor mean = Reduce(kReduceSum, x, dims, true) / ConstantLike(count, x);
  Tensor distance = x - mean;
  Tensor squares = Reduce(kReduceSum, SquareOfSize(distance), dims, true);
  return {squares / ConstantLike(std::max<int64_t>(count - correction, 0), squares), mean};
}

void InferVariance(const InferCall& c) {
  InferReduced(c, RealOf(c.in[0]->dtype()));
  if (c.op.num_outputs == 2) InferReduced(c, c.in[0]->dtype());
}

std::vector<Tensor> ExpandVariance(const ExpandCall& c) {
  DType dtype = c.out[0].dtype();
  Dims dims(c.attrs[0].ints());
  int64_t correction = c.attrs[1].IsNone() ? 1 : c.attrs[1].integer();
  auto [variance, mean] = Moments(Casted(c.in[0], WideFloat(c.in[0].dtype())), dims, correction);
  bool root = &c.op == &kStd || &c.op == &kStdMean;
  Tensor first = root ? sqrt(variance) : variance;
  std::vector<Tensor> results{Reshaped(Casted(first, dtype), c.out[0].sizes())};
  if (c.op.num_outputs == 2) {
    results.push_back(Reshaped(Casted(mean, c.out[1].dtype()), c.out[1].sizes()));
  }
  return results;
}

std::vector<Tensor> VarianceVjp(const VjpCall& c) {
  const Tensor& self = c.in[0];
  DType wide = WideFloat(self.dtype());
  Tensor x = Casted(self, wide);
  Dims dims(c.attrs[0].ints());
  int64_t count = CountOf(x.sizes(), dims);
  int64_t correction = c.attrs[1].IsNone() ? 1 : c.attrs[1].integer();
  Tensor g = KeptLike(c, c.grads[0], wide);
  if (&c.op == &kStd || &c.op == &kStdMean) {
    Tensor y = KeptLike(c, c.out[0], wide);
    g = where(eq(y, 0), 0.0, g / (y * 2.0));
  }
  Tensor mean = Reduce(kReduceSum, x, dims, true) / ConstantLike(count, x);
  Tensor result;
  if (x.dim() == 0 && count <= correction) {  // as PyTorch's
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    result = g * where(eq(x, mean), std::numeric_limits<double>::quiet_NaN(),
                       ConstantLike(kInfinity, x));
  } else {
    result = g * ((x - mean) * (2.0 / static_cast<double>(count - correction)));
  }
  if (c.op.num_outputs == 2) {
    result = result + KeptLike(c, c.grads[1], wide) / ConstantLike(count, x);
  }
  return {Casted(result, self.dtype())};
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

std::vector<Tensor> LogSumExpVjp(const VjpCall& c) {
  DType wide = WideFloat(c.out[0].dtype());
  Tensor shares = exp(Casted(c.in[0], wide) - KeptLike(c, c.out[0], wide));
  return {Casted(KeptLike(c, c.grad(), wide) * shares, c.in[0].dtype())};
}

void InferNorm(const InferCall& c) {
  const Shape& self = *c.in[0];
  DType dtype = RealOf(c.attrs[3].IsNone() ? self.dtype() : c.attrs[3].dtype());
  c.out.push_back(
      Shape(dtype, ReducedSizes(self.sizes(), Dims(c.attrs[1].ints()), c.attrs[2].boolean())));
}

/// The operand of a norm in the precision of its result.
Tensor WideOperand(const Tensor& x, DType result) {
  return Casted(x, IsComplex(x.dtype()) ? ComplexOf(result) : WideFloat(result));
}

std::vector<Tensor> ExpandNorm(const ExpandCall& c) {
  DType dtype = c.out[0].dtype();
  Tensor x = WideOperand(c.in[0], dtype);
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
    result = Reduce(kReduceSum, Casted(ne(x, ConstantLike(0, x)), size.dtype()), dims, keepdim);
  } else if (p == 1) {
    result = Reduce(kReduceSum, size, dims, keepdim);
  } else if (p == 2) {
    result = sqrt(Reduce(kReduceSum, SquareOfSize(x), dims, keepdim));
  } else {
    Tensor total = Reduce(kReduceSum, pow(size, ConstantLike(p, size)), dims, keepdim);
    result = pow(total, ConstantLike(1.0 / p, total));
  }
  return {Casted(result, dtype)};
}

/// The gradient of a norm that is zero, which has none, is taken as zero.
std::vector<Tensor> NormVjp(const VjpCall& c) {
  DType wide = WideFloat(c.out[0].dtype());
  Tensor x = WideOperand(c.in[0], wide);
  Tensor y = KeptLike(c, c.out[0], wide), g = KeptLike(c, c.grad(), wide);
  double p = c.attrs[0].real();
  Tensor result;
  if (p == 0) {
    result = ZerosLike(x.shape(), x);
  } else if (std::isinf(p)) {
    Tensor chosen = Casted(eq(abs(x), y), wide);
    result = sgn(x) * chosen * (g / Reduce(kReduceSum, chosen, Dims(c.attrs[1].ints()), true));
  } else if (p == 1) {
    result = sgn(x) * g;
  } else if (p == 2) {
    result = where(eq(y, 0), 0.0, x * (g / y));
  } else if (p < 1) {
    Tensor scaled = where(eq(x, 0), 0.0, sgn(x) * pow(abs(x), p - 1));
    result = scaled * g * pow(y, 1 - p);
  } else {
    result = sgn(x) * pow(abs(x), p - 1) * where(eq(y, 0), 0.0, g / pow(y, p - 1));
  }
  return {Casted(result, c.in[0].dtype())};
}

std::vector<Tensor> Variance(const OpDef& op, const char* name, const Tensor& self, const Dims& dim,
                             int64_t correction, bool keepdim, const Location& at) {
  NeedFloat(name, self);
  const Attr attrs[] = {WrapDims(name, dim, self.dim()), correction, keepdim};
  return ApplyMulti(op, at, std::span(&self, 1), attrs);
}

}  // namespace

Tensor var(const Tensor& self, const Dims& dim, int64_t correction, bool keepdim, Location at) {
  LocationScope scope(at);
  return Variance(kVar, "var", self, dim, correction, keepdim, at)[0];
}

Tensor std(const Tensor& self, const Dims& dim, int64_t correction, bool keepdim, Location at) {
  LocationScope scope(at);
  return Variance(kStd, "std", self, dim, correction, keepdim, at)[0];
}

std::tuple<Tensor, Tensor> var_mean(const Tensor& self, const Dims& dim, int64_t correction,
                                    bool keepdim, Location at) {
  LocationScope scope(at);
  auto both = Variance(kVarMean, "var_mean", self, dim, correction, keepdim, at);
  return {both[0], both[1]};
}

std::tuple<Tensor, Tensor> std_mean(const Tensor& self, const Dims& dim, int64_t correction,
                                    bool keepdim, Location at) {
  LocationScope scope(at);
  auto both = Variance(kStdMean, "std_mean", self, dim, correction, keepdim, at);
  return {both[0], both[1]};
}

Tensor logsumexp(const Tensor& self, const Dims& dim, bool keepdim, Location at) {
  LocationScope scope(at);
  if (Autocasted cast(kLogSumExp, at); cast) return logsumexp(cast(self), dim, keepdim, at);
  return Apply(kLogSumExp, at, {self}, {WrapDims("logsumexp", dim, self.dim()), keepdim});
}

Tensor norm(const Tensor& self, const Scalar& p, const Dims& dim, bool keepdim,
            std::optional<DType> dtype, Location at) {
  LocationScope scope(at);
  if (Autocasted cast(kNorm, at); cast) return norm(cast(self), p, dim, keepdim, dtype, at);
  if (!IsFloatOrComplex(dtype.value_or(self.dtype()))) NeedFloat("norm", self);
  Dims dims = WrapDims("norm", dim, self.dim());
  if (std::isinf(p.ToDouble()) || p.ToDouble() < 0) NeedElements("norm", self, dims);
  return Apply(kNorm, at, {self},
               {p.To(DType::kF64), dims, keepdim, dtype ? Attr(*dtype) : Attr()});
}

Tensor dist(const Tensor& self, const Tensor& other, const Scalar& p, Location at) {
  if (Autocasted cast(kDist, at); cast) return dist(cast(self), cast(other), p, at);
  LocationScope scope(at);
  return norm(self - other, p, {}, false, std::nullopt, at);
}

// ---- Records

namespace {

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
  if (p == "nuc") {
    Tensor x = dtype ? to(self, *dtype) : self;
    return nuclear_norm(x, dim ? *dim : Dims{-2, -1}, keepdim);
  }
  if (p != "fro") {
    Throw(ErrorCode::kValue, "norm: '{}' is no norm; use 'fro', 'nuc', a number or an infinity", p);
  }
  return norm(self, 2.0, BoxedDims(dim), keepdim, dtype);
}

#define HAMMOCK_VARIANCE(op, Form, returns, about)                                           \
  HAMMOCK_FUNCTION(k_##op##_all, #op "(Tensor self, bool unbiased=True) -> " returns, about, \
                   Form<hammock::op>::All)                                                   \
  HAMMOCK_FUNCTION(k_##op##_dim,                                                             \
                   #op                                                                       \
                   ".dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) " \
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
                 "A norm by name: 'fro' or 'nuc'.", NormNamed)
HAMMOCK_FUNCTION(kDist, "dist(Tensor self, Tensor other, Scalar p=2) -> Tensor",
                 "The p-norm of a difference.", dist, AutocastRule::kF32)

constinit const OpDef kVar = {
    .schema =
        "var.correction(Tensor self, int[1]? dim=None, *, int? correction=None, bool "
        "keepdim=False) -> Tensor",
    .doc = "Variance; `correction` is subtracted from the count.",
    .call = Box<One<var>::Correction>,
    .infer = InferVariance,
    .expand = ExpandVariance,
    .vjp = VarianceVjp,
    .samples = {{"f32[2,3]", "{dim=[1], correction=1, keepdim=false}"}},
};
constinit const OpDef kStd = {
    .schema =
        "std.correction(Tensor self, int[1]? dim=None, *, int? correction=None, bool "
        "keepdim=False) -> Tensor",
    .doc = "Standard deviation; `correction` is subtracted from the count.",
    .call = Box<One<hammock::std>::Correction>,
    .infer = InferVariance,
    .expand = ExpandVariance,
    .vjp = VarianceVjp,
    .samples = {{"f32[2,3]", "{dim=[1], correction=1, keepdim=false}"}},
};
constinit const OpDef kVarMean = {
    .schema =
        "var_mean.correction(Tensor self, int[1]? dim=None, *, int? correction=None, bool "
        "keepdim=False) -> (Tensor, Tensor)",
    .doc = "Variance and mean.",
    .call = Box<Two<var_mean>::Correction>,
    .infer = InferVariance,
    .expand = ExpandVariance,
    .vjp = VarianceVjp,
    .num_outputs = 2,
    .samples = {{"f32[2,3]", "{dim=[1], correction=1, keepdim=false}"}},
};
constinit const OpDef kStdMean = {
    .schema =
        "std_mean.correction(Tensor self, int[1]? dim=None, *, int? correction=None, bool "
        "keepdim=False) -> (Tensor, Tensor)",
    .doc = "Standard deviation and mean.",
    .call = Box<Two<std_mean>::Correction>,
    .infer = InferVariance,
    .expand = ExpandVariance,
    .vjp = VarianceVjp,
    .num_outputs = 2,
    .samples = {{"f32[2,3]", "{dim=[1], correction=1, keepdim=false}"}},
};
constinit const OpDef kLogSumExp = {
    .schema = "logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor",
    .doc = "Logarithm of the sum of exponentials, without overflow.",
    .call = Box<logsumexp>,
    .autocast = AutocastRule::kF32,
    .infer = InferLogSumExp,
    .expand = ExpandLogSumExp,
    .vjp = LogSumExpVjp,
    .samples = {{"f32[2,3]", "{dim=[1], keepdim=false}"}},
};
constinit const OpDef kNorm = {
    .schema =
        "norm(Tensor self, Scalar? p=2, int[1]? dim=None, bool keepdim=False, *, ScalarType? "
        "dtype=None) -> Tensor",
    .doc = "The p-norm of the elements along dims.",
    .baked = "p",
    .call = Box<NormBoxed>,
    .autocast = AutocastRule::kF32,
    .infer = InferNorm,
    .expand = ExpandNorm,
    .vjp = NormVjp,
    .samples = {{"f32[2,3]", "{p=2.0, dim=[1], keepdim=false, dtype=none}"}},
};

}  // namespace

std::span<const OpDef* const> ops::StatisticsOps() {
  // A bool must be tried as `unbiased` before it is taken for a dim.
  static constexpr const OpDef* kOps[] = {
      &k_var_all,      &k_var_dim,      &kVar,       &k_std_all,      &k_std_dim,      &kStd,
      &k_var_mean_all, &k_var_mean_dim, &kVarMean,   &k_std_mean_all, &k_std_mean_dim, &kStdMean,
      &kLogSumExp,     &kNorm,          &kNormNamed, &kDist,
  };
  return kOps;
}

}  // namespace hammock
