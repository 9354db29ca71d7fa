#include "base/throw.h"
#include "hammock/ops/create.h"
#include "hammock/ops/elementwise.h"
#include "hammock/ops/nn.h"
#include "hammock/ops/reduce.h"
#include "ir/primitives.h"
#include "ops/primitives/elementwise_kit.h"
#include "ops/primitives/families.h"
#include "trace/apply.h"
#include "trace/layout.h"

namespace hammock {

using namespace ops;  // NOLINT: records and the op writer's kit

namespace ops {
extern const OpDef kRelu, kRelu6, kGelu, kSilu, kMish, kSelu, kHardswish, kHardsigmoid, kLogSigmoid,
    kSoftsign, kTanhshrink, kElu, kCelu, kSoftplus, kLeakyRelu, kHardtanh, kThreshold, kSoftshrink,
    kHardshrink, kPrelu, kGlu;
}

namespace {

// ---- expansions; f16 and bf16 are computed in f32 and rounded once

Tensors ExpandRelu(const ExpandCall& call) { return {maximum(call.in[0], 0)}; }

Tensors ExpandRelu6(const ExpandCall& call) { return {minimum(maximum(call.in[0], 0), 6)}; }

constexpr double kSqrtTwoOverPi = 0.79788456080286535588;

Tensors ExpandGelu(const ExpandCall& call) {
  if (call.attrs[0].str() == "none") return {ApplyUnary(kExactGelu, Location(), call.in[0])};
  Tensor x = Wide(call, 0);
  // (1 + tanh(u)) / 2 = sigmoid(2u), which has no cancellation.
  Tensor twice = x * (x * x * (2 * kSqrtTwoOverPi * 0.044715) + 2 * kSqrtTwoOverPi);
  return Narrow(call, x * sigmoid(twice));
}

Tensors ExpandSilu(const ExpandCall& call) {
  Tensor x = Wide(call, 0);
  return Narrow(call, x * sigmoid(x));
}

/// log(1 + exp(x)) without overflow.
Tensor SoftplusOf(const Tensor& x) { return maximum(x, 0) + log1p(exp(-abs(x))); }

Tensors ExpandMish(const ExpandCall& call) {
  Tensor x = Wide(call, 0);
  return Narrow(call, x * tanh(SoftplusOf(x)));
}

/// scale * x above zero, scale * alpha * expm1(input_scale * x) below; the argument of expm1 is
/// kept from overflowing where its result is not used.
Tensor EluOf(const Tensor& x, const Tensor& alpha, const Tensor& scale, const Tensor& input_scale) {
  Tensor below = expm1(minimum(x, 0) * input_scale) * (alpha * scale);
  return where(x > 0, x * scale, below);
}

Tensors ExpandElu(const ExpandCall& call) {
  return Narrow(call, EluOf(Wide(call, 0), Wide(call, 1), Wide(call, 2), Wide(call, 3)));
}

constexpr double kSeluAlpha = 1.6732632423543772848170429916717;
constexpr double kSeluScale = 1.0507009873554804934193349852946;

Tensors ExpandSelu(const ExpandCall& call) {
  Tensor x = Wide(call, 0);
  Tensor alpha = ConstantLike(kSeluAlpha, x), scale = ConstantLike(kSeluScale, x);
  return Narrow(call, EluOf(x, alpha, scale, ConstantLike(1, x)));
}

Tensors ExpandCelu(const ExpandCall& call) {
  Tensor x = Wide(call, 0), alpha = Wide(call, 1);
  return Narrow(call, EluOf(x, alpha, ConstantLike(1, x), reciprocal(alpha)));
}

Tensors ExpandHardsigmoid(const ExpandCall& call) {
  Tensor x = Wide(call, 0);
  return Narrow(call, minimum(maximum(x + 3.0, 0), 6.0) / 6.0);
}

Tensors ExpandHardswish(const ExpandCall& call) {
  Tensor x = Wide(call, 0);
  return Narrow(call, x * minimum(maximum(x + 3.0, 0), 6.0) / 6.0);
}

Tensors ExpandLogSigmoid(const ExpandCall& call) {
  Tensor x = Wide(call, 0);
  return Narrow(call, minimum(x, 0) - log1p(exp(-abs(x))));
}

Tensors ExpandSoftsign(const ExpandCall& call) {
  Tensor x = Wide(call, 0);
  return Narrow(call, x / (abs(x) + 1.0));
}

Tensors ExpandTanhshrink(const ExpandCall& call) {
  Tensor x = Wide(call, 0);
  return Narrow(call, x - tanh(x));
}

Tensors ExpandSoftplus(const ExpandCall& call) {
  Tensor x = Wide(call, 0), beta = Wide(call, 1), threshold = Wide(call, 2);
  Tensor scaled = x * beta;
  return Narrow(call, where(scaled > threshold, x, SoftplusOf(scaled) / beta));
}

Tensors ExpandLeakyRelu(const ExpandCall& call) {
  Tensor x = Wide(call, 0);
  return Narrow(call, where(x > 0, x, x * Wide(call, 1)));
}

Tensors ExpandHardtanh(const ExpandCall& call) {
  return {minimum(maximum(call.in[0], call.in[1]), call.in[2])};
}

Tensors ExpandThreshold(const ExpandCall& call) {
  return {where(call.in[0] <= call.in[1], call.in[2], call.in[0])};
}

Tensors ExpandSoftshrink(const ExpandCall& call) {
  Tensor x = Wide(call, 0), lambd = Wide(call, 1);
  return Narrow(call, where(x > lambd, x - lambd, where(x < -lambd, x + lambd, 0.0)));
}

Tensors ExpandHardshrink(const ExpandCall& call) {
  Tensor x = Wide(call, 0);
  return Narrow(call, where(abs(x) <= Wide(call, 1), 0.0, x));
}

Tensors ExpandPrelu(const ExpandCall& call) {
  Tensor x = Wide(call, 0), weight = Wide(call, 1);
  Dims sizes = Dims::Filled(x.dim(), 1);
  if (weight.numel() != 1) sizes[1] = weight.numel();
  return Narrow(call, where(x > 0, x, x * Reshaped(weight, sizes)));
}

Tensors ExpandGlu(const ExpandCall& call) {
  int dim = static_cast<int>(call.attrs[0].integer());
  int64_t half = call.out[0].size(dim);
  Tensor a = Sliced(call.in[0], dim, 0, half), b = Sliced(call.in[0], dim, half, half);
  DType wide = WideFloat(call.out[0].dtype());
  return Narrow(call, Casted(a, wide) * sigmoid(Casted(b, wide)));
}

// ---- gradients of those whose expansion has another one at a kink or overflows in it

Tensor ReluGrad(const Tensor& g, const Tensor&, const VjpCall& call) {
  return where(call.out[0] <= 0, 0.0, g);
}

/// g strictly between two bounds.
Tensor Inside(const Tensor& g, const Tensor& x, const TensorArg& low, const TensorArg& high) {
  return where(logical_and(gt(x, low), lt(x, high)), g, 0.0);
}
Tensor Relu6Grad(const Tensor& g, const Tensor& x, const VjpCall&) {
  return Inside(g, x, 0.0, 6.0);
}
Tensor HardtanhGrad(const Tensor& g, const Tensor& x, const VjpCall& call) {
  return Inside(g, x, call.in[1], call.in[2]);
}
Tensor HardsigmoidGrad(const Tensor& g, const Tensor& x, const VjpCall&) {
  return Inside(g / 6.0, x, -3.0, 3.0);
}
Tensor HardswishGrad(const Tensor& g, const Tensor& x, const VjpCall&) {
  return where(x <= -3.0, 0.0, where(x >= 3.0, g, g * (x / 3.0 + 0.5)));
}
Tensor HardshrinkGrad(const Tensor& g, const Tensor& x, const VjpCall& call) {
  const Tensor& lambd = call.in[1];
  return where(logical_or(gt(x, lambd), lt(x, -lambd)), g, 0.0);
}

/// The slope of the side that `self` is on, whatever the weight is: NaN is not positive.
Tensors PreluVjp(const VjpCall& call) {
  const Tensor &x = call.in[0], &weight = call.in[1], &g = call.grad();
  DType wide = WideFloat(x.dtype());
  Dims sizes = Dims::Filled(x.dim(), 1), summed;
  if (weight.numel() != 1) sizes[1] = weight.numel();
  for (int i = 0; i < x.dim(); ++i) {
    if (sizes[i] == 1) summed.push_back(i);
  }
  Tensor wide_g = Casted(g, wide), wide_x = Casted(x, wide);
  Tensors grads(2);
  if (call.needs(0)) {
    Tensor slope = Reshaped(Casted(weight, wide), sizes);
    grads[0] = Casted(where(x > 0, wide_g, wide_g * slope), x.dtype());
  }
  if (call.needs(1)) {
    Tensor each = where(x > 0, 0.0, wide_g * wide_x);
    Tensor total = summed.empty() ? each : sum(each, summed);
    grads[1] = Casted(Reshaped(total, weight.sizes()), weight.dtype());
  }
  return grads;
}

Tensor ExactGeluGrad(const Tensor& g, const Tensor& x, const VjpCall&) {
  constexpr double kSqrtHalf = 0.70710678118654752440;
  Tensor density = exp(x * x * -0.5) * (0.5 * kSqrtTwoOverPi);
  return g * ((erf(x * kSqrtHalf) + 1.0) * 0.5 + x * density);
}

Tensor GeluGrad(const Tensor& g, const Tensor& x, const VjpCall& call) {
  if (call.attrs[0].str() == "none") return ExactGeluGrad(g, x, call);
  constexpr double kCubic = 0.044715;
  Tensor t = tanh((x + x * x * x * kCubic) * kSqrtTwoOverPi);
  Tensor slope = (x * x * (3 * kCubic) + 1.0) * kSqrtTwoOverPi;
  return g * ((t + 1.0) * 0.5 + x * 0.5 * (1.0 - t * t) * slope);
}

Tensor SiluGrad(const Tensor& g, const Tensor& x, const VjpCall&) {
  Tensor s = sigmoid(x);
  return g * (s * (x * (1.0 - s) + 1.0));
}

// Parts with |x| would have a second derivative of 0 at 0.
Tensor LogSigmoidGrad(const Tensor& g, const Tensor& x, const VjpCall&) { return g * sigmoid(-x); }

Tensor SoftplusGrad(const Tensor& g, const Tensor& x, const VjpCall& c) {
  Tensor scaled = x * Casted(c.in[1], x.dtype());
  return where(scaled > Casted(c.in[2], x.dtype()), g, g * sigmoid(scaled));
}

Tensor MishGrad(const Tensor& g, const Tensor& x, const VjpCall&) {
  Tensor t = tanh(SoftplusOf(x));
  return g * (t + x * sigmoid(x) * (1.0 - t * t));
}

Tensor EluSlope(const Tensor& g, const Tensor& x, const Tensor& alpha, const Tensor& scale,
                const Tensor& input_scale) {
  Tensor below = exp(minimum(x, 0) * input_scale) * (alpha * scale * input_scale);
  return g * where(x > 0, scale, below);
}
Tensor EluGrad(const Tensor& g, const Tensor& x, const VjpCall& call) {
  return EluSlope(g, x, call.in[1], call.in[2], call.in[3]);
}
Tensor SeluGrad(const Tensor& g, const Tensor& x, const VjpCall&) {
  return EluSlope(g, x, ConstantLike(kSeluAlpha, x), ConstantLike(kSeluScale, x),
                  ConstantLike(1, x));
}
Tensor CeluGrad(const Tensor& g, const Tensor& x, const VjpCall& call) {
  return EluSlope(g, x, call.in[1], ConstantLike(1, x), reciprocal(call.in[1]));
}

// ---- inference

void InferGelu(const InferCall& call) {
  InferFloatOnly(call);
  const std::string& approximate = call.attrs[0].str();
  if (approximate != "none" && approximate != "tanh") {
    Refuse(call, ErrorCode::kValue, "unknown approximate '{}', needs 'none' or 'tanh'",
           approximate);
  }
}

void InferPrelu(const InferCall& call) {
  const Shape &self = *call.in[0], &weight = *call.in[1];
  RequireSameDType(call, self, weight);
  int64_t channels = self.rank() > 1 ? self.size(1) : 1;
  if (weight.numel() != 1 && (weight.numel() != channels || self.rank() < 2)) {
    Refuse(call, ErrorCode::kShapeMismatch, "weight {} needs one element or one per channel: {}",
           weight.to_string(), channels);
  }
  InferFloatLikeFirst(call);
}

void InferGlu(const InferCall& call) {
  const Shape& self = *call.in[0];
  if (self.rank() == 0) Refuse(call, ErrorCode::kShapeMismatch, "a 0-d tensor has no halves");
  int dim = CheckedDim(call, call.attrs[0].integer(), self);
  if (self.size(dim) % 2 != 0) {
    Refuse(call, ErrorCode::kShapeMismatch, "dimension {} of {} has an odd size, needs two halves",
           dim, self.to_string());
  }
  RequireDType(call, IsFloat(self.dtype()), self, "a floating dtype");
  Dims sizes = self.sizes();
  sizes[dim] /= 2;
  call.out = {self.With(sizes)};
}

}  // namespace

// ---- front functions

#define UNARY(name, record) \
  Tensor name(const Tensor& self, Location at) { return ApplyUnary(record, at, self); }
UNARY(relu, kRelu)
UNARY(relu6, kRelu6)
UNARY(silu, kSilu)
UNARY(mish, kMish)
UNARY(selu, kSelu)
UNARY(hardswish, kHardswish)
UNARY(hardsigmoid, kHardsigmoid)
UNARY(softsign, kSoftsign)
UNARY(tanhshrink, kTanhshrink)
#undef UNARY
Tensor log_sigmoid(const Tensor& self, Location at) {
  LocationScope scope(at);
  return RowMajor(ApplyUnary(kLogSigmoid, at, self));
}
Tensor logsigmoid(const Tensor& self, Location at) { return log_sigmoid(self, at); }

Tensor gelu(const Tensor& self, const std::string& approximate, Location at) {
  return Apply(kGelu, at, {self}, {approximate});
}

Tensor elu(const Tensor& self, const Scalar& alpha, const Scalar& scale, const Scalar& input_scale,
           Location at) {
  LocationScope scope(at);
  return Apply(kElu, at,
               {self, LiftWide(alpha, self), LiftWide(scale, self), LiftWide(input_scale, self)});
}

Tensor celu(const Tensor& self, const Scalar& alpha, Location at) {
  LocationScope scope(at);
  if (alpha.ToDouble() == 0) Throw(ErrorCode::kValue, "celu: alpha must not be 0");
  return Apply(kCelu, at, {self, LiftWide(alpha, self)});
}

Tensor softplus(const Tensor& self, const Scalar& beta, const Scalar& threshold, Location at) {
  LocationScope scope(at);
  return Apply(kSoftplus, at, {self, LiftWide(beta, self), LiftWide(threshold, self)});
}

Tensor leaky_relu(const Tensor& self, const Scalar& negative_slope, Location at) {
  LocationScope scope(at);
  return Apply(kLeakyRelu, at, {self, LiftWide(negative_slope, self)});
}

Tensor hardtanh(const Tensor& self, const Scalar& min_val, const Scalar& max_val, Location at) {
  LocationScope scope(at);
  if (InfoOf(self.dtype()).kind == DTypeKind::kUnsigned && min_val.ToDouble() < 0) {
    Throw(ErrorCode::kValue, "hardtanh: min_val {} is below every value of {}", min_val.to_string(),
          NameOf(self.dtype()));
  }
  return Apply(kHardtanh, at, {self, Lift(min_val, self.dtype()), Lift(max_val, self.dtype())});
}

Tensor threshold(const Tensor& self, const Scalar& threshold, const Scalar& value, Location at) {
  LocationScope scope(at);
  return Apply(kThreshold, at, {self, Lift(threshold, self.dtype()), Lift(value, self.dtype())});
}

Tensor softshrink(const Tensor& self, const Scalar& lambd, Location at) {
  LocationScope scope(at);
  if (lambd.ToDouble() < 0) {
    Throw(ErrorCode::kValue, "softshrink: lambd {} must not be negative", lambd.to_string());
  }
  return Apply(kSoftshrink, at, {self, LiftWide(lambd, self)});
}

Tensor hardshrink(const Tensor& self, const Scalar& lambd, Location at) {
  LocationScope scope(at);
  return Apply(kHardshrink, at, {self, LiftWide(lambd, self)});
}

Tensor prelu(const Tensor& self, const Tensor& weight, Location at) {
  return Apply(kPrelu, at, {self, weight});
}

Tensor glu(const Tensor& self, int64_t dim, Location at) {
  LocationScope scope(at);
  return Apply(kGlu, at, {self}, {WrapDim("glu", dim, self.dim())});
}

Tensor rrelu(const Tensor& self, const Scalar& lower, const Scalar& upper, bool training,
             const std::optional<Generator>& generator, Location at) {
  LocationScope scope(at);
  double low = lower.ToDouble(), high = upper.ToDouble();
  if (low > high) {
    Throw(ErrorCode::kValue, "rrelu: lower {} must not be above upper {}", low, high);
  }
  if (!training) return leaky_relu(self, (low + high) / 2, at);
  NeedFloat("rrelu", self);
  Tensor slope = add(mul(rand_like(self, std::nullopt, std::nullopt, generator), high - low), low);
  return where(gt(self, ConstantLike(0, self)), self, mul(self, slope));
}

Tensor dropout(const Tensor& self, double p, bool training, Location at) {
  LocationScope scope(at);
  if (!(p >= 0 && p <= 1)) Throw(ErrorCode::kValue, "dropout: p {} must be in [0, 1]", p);
  if (!training) return self;
  NeedFloat("dropout", self);
  if (p == 0) return self;  // no numbers are drawn
  // Both numbers are parameters, so that a schedule of p compiles once.
  Tensor keep = lt(rand_like(self), 1 - p);
  return mul(mul(self, Casted(keep, self.dtype())), p == 1 ? 0.0 : 1 / (1 - p));
}

// ---- records

namespace ops {

#define UNARY(record, name, function, gradient, text, inference, type_rule)  \
  constinit const OpDef record = {.schema = #name "(Tensor self) -> Tensor", \
                                  .doc = text,                               \
                                  .call = Box<name>,                         \
                                  .infer = inference,                        \
                                  .rule = DTypeRule::type_rule,              \
                                  .expand = function,                        \
                                  .vjp = gradient};
UNARY(kRelu, relu, ExpandRelu, FirstVjp<ReluGrad>, "The larger of `self` and 0.", InferNotBool,
      kPromote)
UNARY(kRelu6, relu6, ExpandRelu6, FirstVjp<Relu6Grad>, "`self` clamped to [0, 6].", InferNotBool,
      kPromote)
UNARY(kSilu, silu, ExpandSilu, FirstVjp<SiluGrad>, "x * sigmoid(x)", InferFloatOnly, kFloat)
UNARY(kMish, mish, ExpandMish, FirstVjp<MishGrad>, "x * tanh(log(1 + exp(x)))", InferFloatOnly,
      kFloat)
UNARY(kSelu, selu, ExpandSelu, FirstVjp<SeluGrad>, "elu with the self-normalising alpha and scale.",
      InferFloatOnly, kFloat)
UNARY(kHardswish, hardswish, ExpandHardswish, FirstVjp<HardswishGrad>, "x * relu6(x + 3) / 6",
      InferFloatOnly, kFloat)
UNARY(kHardsigmoid, hardsigmoid, ExpandHardsigmoid, FirstVjp<HardsigmoidGrad>, "relu6(x + 3) / 6",
      InferFloatOnly, kFloat)
UNARY(kLogSigmoid, log_sigmoid, ExpandLogSigmoid, FirstVjp<LogSigmoidGrad>,
      "log(sigmoid(x)), without overflow.", InferFloatOnly, kFloat)
UNARY(kSoftsign, softsign, ExpandSoftsign, nullptr, "x / (1 + |x|)", nullptr, kFloat)
UNARY(kTanhshrink, tanhshrink, ExpandTanhshrink, nullptr, "x - tanh(x)", nullptr, kFloat)
#undef UNARY

constinit const OpDef kExactGelu = {
    .schema = "_gelu(Tensor self) -> Tensor",
    .doc = "gelu by its definition.",
    .infer = InferFloatOnly,
    .rule = DTypeRule::kFloat,
    .scalar = ScalarFn::kGelu,
    .vjp = FirstVjp<ExactGeluGrad>,
};
constinit const OpDef kGelu = {
    .schema = "gelu(Tensor self, *, str approximate='none') -> Tensor",
    .doc = "x times the normal distribution function of x, exact or by 'tanh'.",
    .call = Box<gelu>,
    .infer = InferGelu,
    .rule = DTypeRule::kFloat,
    .expand = ExpandGelu,
    .vjp = FirstVjp<GeluGrad>,
    .samples = {{"f32[2,3]", "{approximate=\"none\"}"}, {"f32[2,3]", "{approximate=\"tanh\"}"}},
};
constinit const OpDef kElu = {
    .schema = "elu(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor",
    .doc = "scale * x where positive, scale * alpha * (exp(input_scale * x) - 1) elsewhere.",
    .call = Box<elu>,
    .infer = InferFloatLikeFirst,
    .keeps_layout = true,
    .expand = ExpandElu,
    .vjp = FirstVjp<EluGrad>,
    .samples = {{"f32[2,3] f32[] f32[] f32[]"}},
};
constinit const OpDef kCelu = {
    .schema = "celu(Tensor self, Scalar alpha=1.0) -> Tensor",
    .doc = "x where positive, alpha * (exp(x / alpha) - 1) elsewhere.",
    .call = Box<celu>,
    .infer = InferFloatLikeFirst,
    .keeps_layout = true,
    .expand = ExpandCelu,
    .vjp = FirstVjp<CeluGrad>,
    .samples = {{"f32[2,3] f32[]"}},
};
constinit const OpDef kSoftplus = {
    .schema = "softplus(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor",
    .doc = "log(1 + exp(beta * x)) / beta; x itself where beta * x is above the threshold.",
    .call = Box<softplus>,
    .autocast = AutocastRule::kF32,
    .infer = InferFloatLikeFirst,
    .keeps_layout = true,
    .expand = ExpandSoftplus,
    .vjp = FirstVjp<SoftplusGrad>,
    .samples = {{"f32[2,3] f32[] f32[]"}},
};
constinit const OpDef kLeakyRelu = {
    .schema = "leaky_relu(Tensor self, Scalar negative_slope=0.01) -> Tensor",
    .doc = "x where positive, negative_slope * x elsewhere.",
    .call = Box<leaky_relu>,
    .infer = InferFloatLikeFirst,
    .keeps_layout = true,
    .expand = ExpandLeakyRelu,
    .samples = {{"f32[2,3] f32[]"}, {"bf16[3] f32[]"}},
};
constinit const OpDef kHardtanh = {
    .schema = "hardtanh(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor",
    .doc = "`self` clamped to [min_val, max_val].",
    .call = Box<hardtanh>,
    .infer = InferLikeFirst,
    .keeps_layout = true,
    .expand = ExpandHardtanh,
    .vjp = FirstVjp<HardtanhGrad>,
    .samples = {{"f32[2,3] f32[] f32[]"}, {"i64[3] i64[] i64[]"}},
};
constinit const OpDef kThreshold = {
    .schema = "threshold(Tensor self, Scalar threshold, Scalar value) -> Tensor",
    .doc = "`value` where self <= threshold, else `self`.",
    .call = Box<threshold>,
    .infer = InferLikeFirst,
    .keeps_layout = true,
    .expand = ExpandThreshold,
    .samples = {{"f32[2,3] f32[] f32[]"}, {"i64[3] i64[] i64[]"}},
};
constinit const OpDef kSoftshrink = {
    .schema = "softshrink(Tensor self, Scalar lambd=0.5) -> Tensor",
    .doc = "Moved by lambd toward 0; 0 within lambd of it, and for NaN.",
    .call = Box<softshrink>,
    .infer = InferFloatLikeFirst,
    .keeps_layout = true,
    .expand = ExpandSoftshrink,
    .samples = {{"f32[2,3] f32[]"}},
};
constinit const OpDef kHardshrink = {
    .schema = "hardshrink(Tensor self, Scalar lambd=0.5) -> Tensor",
    .doc = "0 within lambd of 0, else `self`.",
    .call = Box<hardshrink>,
    .infer = InferFloatLikeFirst,
    .keeps_layout = true,
    .expand = ExpandHardshrink,
    .vjp = FirstVjp<HardshrinkGrad>,
    .samples = {{"f32[2,3] f32[]"}},
};
constinit const OpDef kPrelu = {
    .schema = "prelu(Tensor self, Tensor weight) -> Tensor",
    .doc = "x where positive, weight * x elsewhere; one weight, or one per channel.",
    .call = Box<prelu>,
    .autocast = AutocastRule::kLow,
    .infer = InferPrelu,
    .expand = ExpandPrelu,
    .vjp = PreluVjp,
    .samples = {{"f32[2,3] f32[1]"}, {"f32[2,3,4] f32[3]"}},
};
constinit const OpDef kGlu = {
    .schema = "glu(Tensor self, int dim=-1) -> Tensor",
    .doc = "First half along `dim` times the sigmoid of the second.",
    .call = Box<glu>,
    .infer = InferGlu,
    .expand = ExpandGlu,
    .samples = {{"f32[2,4]", "{dim=1}"}, {"f32[2,3]", "{dim=0}"}},
};

namespace {

constexpr const OpDef* kNodes[] = {
    &kRelu,        &kRelu6,      &kGelu,      &kSilu,       &kMish,       &kSelu,  &kHardswish,
    &kHardsigmoid, &kLogSigmoid, &kSoftsign,  &kTanhshrink, &kElu,        &kCelu,  &kSoftplus,
    &kLeakyRelu,   &kHardtanh,   &kThreshold, &kSoftshrink, &kHardshrink, &kPrelu, &kGlu};

constinit const OpDef kFunctions[] = {
    {
        .schema = "logsigmoid(Tensor self) -> Tensor",
        .doc = "Same as log_sigmoid.",
        .call = Box<logsigmoid>,
    },
    {
        .schema = "rrelu(Tensor self, Scalar lower=0.125, Scalar upper=0.3333333333333333, bool "
                  "training=False, Generator? generator=None) -> Tensor",
        .doc = "leaky_relu whose slope is random while training, else the mean of the bounds.",
        .call = Box<rrelu>,
    },
    {
        .schema = "dropout(Tensor self, float p=0.5, bool training=True) -> Tensor",
        .doc = "While training, zeroes each element with probability p and scales the others.",
        .call = Box<dropout>,
    },
    {
        .schema = "dropout.train(Tensor self, float p, bool train) -> Tensor",
        .doc = "dropout with PyTorch's native names.",
        .call = Box<dropout>,
    },
};

}  // namespace

std::span<const OpDef* const> ActivationOps() {
  static const auto list = Listed(kNodes, kFunctions);
  return list;
}

}  // namespace ops
}  // namespace hammock
