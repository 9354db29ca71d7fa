// Softmax and the normalisations that follow it in a network.

#include "base/throw.h"
#include "hammock/ops/elementwise.h"
#include "hammock/ops/nn.h"
#include "hammock/ops/reduce.h"
#include "ir/primitives.h"
#include "ops/kit/compose.h"
#include "ops/primitives/families.h"
#include "trace/autocast.h"

namespace hammock {

using namespace ops;  // NOLINT: the writer's kit of this folder

namespace {

extern const OpDef kSoftmin;

extern const OpDef kSoftmax, kLogSoftmax, kLayerNorm, kNativeLayerNorm, kRmsNorm;

Tensor ReduceTo(const OpDef& op, const Tensor& x, const Dims& dims) {
  return Apply(op, Location(), {x}, {dims, true});
}

// ---- Softmax

void InferSoftmax(const InferCall& c) {
  c.out.push_back(c.attrs[1].IsNone() ? *c.in[0] : c.in[0]->With(c.attrs[1].dtype()));
}

std::vector<Tensor> ExpandSoftmax(const ExpandCall& c) {
  DType dtype = c.out[0].dtype();
  Tensor x = Casted(c.in[0], WideFloat(dtype));
  if (x.numel() == 0) return {Casted(x, dtype)};
  Dims dims = OneDim(static_cast<int>(c.attrs[0].integer()), x.dim());
  Tensor shifted = x - ReduceTo(kReduceMax, x, dims);
  Tensor weights = exp(shifted);
  Tensor total = ReduceTo(kReduceSum, weights, dims);
  Tensor result = &c.op == &kSoftmax ? weights * reciprocal(total) : shifted - log(total);
  return {Casted(result, dtype)};
}

std::vector<Tensor> SoftmaxVjp(const VjpCall& c) {
  const Tensor& self = c.in[0];
  if (self.numel() == 0) return {ZerosLike(self.shape(), c.grad())};
  DType wide = WideFloat(c.out[0].dtype());
  Tensor g = Casted(c.grad(), wide), y = Casted(c.out[0], wide);
  Dims dims = OneDim(static_cast<int>(c.attrs[0].integer()), y.dim());
  Tensor result = &c.op == &kSoftmax ? y * (g - ReduceTo(kReduceSum, g * y, dims))
                                     : g - exp(y) * ReduceTo(kReduceSum, g, dims);
  return {Casted(result, self.dtype())};
}

Tensor SoftmaxNode(const OpDef& op, const char* name, const Tensor& self, int64_t dim,
                   std::optional<DType> dtype, const Location& at) {
  if (!IsFloat(dtype.value_or(self.dtype()))) NeedFloat(name, self);
  return Apply(op, at, {self}, {WrapDim(name, dim, self.dim()), dtype ? Attr(*dtype) : Attr()});
}

// ---- Layer norm

/// Dims of the suffix that is normalised; checks it, the weight and the bias.
Dims NormDims(const char* op, const Shape& input, const Dims& normalized, const Shape* weight,
              const Shape* bias) {
  int first = input.rank() - normalized.size();
  bool fits = !normalized.empty() && first >= 0;
  for (int i = 0; fits && i < normalized.size(); ++i) {
    fits = input.size(first + i) == normalized[i];
  }
  if (!fits) {
    Throw(ErrorCode::kShapeMismatch,
          "{}: the last dims of {} must be normalized_shape={}, which needs at least one size", op,
          input.to_string(), ToString(normalized));
  }
  for (const Shape* extra : {weight, bias}) {
    if (extra && extra->sizes() != normalized) {
      Throw(ErrorCode::kShapeMismatch, "{}: weight and bias must have normalized_shape={}, got {}",
            op, ToString(normalized), extra->to_string());
    }
  }
  Dims dims;
  for (int i = first; i < input.rank(); ++i) dims.push_back(i);
  return dims;
}

void InferLayerNorm(const InferCall& c) {
  const Shape& input = *c.in[0];
  Dims dims = NormDims(c.op.name(), input, Dims(c.attrs[0].ints()), c.in[1],
                       c.in.size() > 2 ? c.in[2] : nullptr);
  c.out.push_back(input);
  for (int i = 1; i < c.op.num_outputs; ++i) {
    c.out.push_back(input.With(ReducedSizes(input.sizes(), dims, true)));
  }
}

Tensor Scaled(const Tensor& x, const Tensor& weight) {
  return weight.defined() ? x * Casted(weight, x.dtype()) : x;
}
Tensor Biased(const Tensor& x, const Tensor& bias) {
  return bias.defined() ? x + Casted(bias, x.dtype()) : x;
}

std::vector<Tensor> ExpandLayerNorm(const ExpandCall& c) {
  DType dtype = c.out[0].dtype();
  Tensor x = Casted(c.in[0], WideFloat(dtype));
  Dims dims = NormDims(c.op.name(), x.shape(), Dims(c.attrs[0].ints()), nullptr, nullptr);
  Tensor count = ConstantLike(CountOf(x.sizes(), dims), x);
  Tensor mean = ReduceTo(kReduceSum, x, dims) / count;
  Tensor distance = x - mean;
  Tensor variance = ReduceTo(kReduceSum, distance * distance, dims) / count;
  Tensor scale = rsqrt(variance + ConstantLike(c.attrs[1].real(), x));
  std::vector<Tensor> results{Casted(Biased(Scaled(distance * scale, c.in[1]), c.in[2]), dtype)};
  if (c.op.num_outputs == 3) {
    results.push_back(Casted(mean, dtype));
    results.push_back(Casted(scale, dtype));
  }
  return results;
}

std::vector<Tensor> ExpandRmsNorm(const ExpandCall& c) {
  DType dtype = c.out[0].dtype();
  Tensor x = Casted(c.in[0], WideFloat(dtype));
  Dims dims = NormDims(c.op.name(), x.shape(), Dims(c.attrs[0].ints()), nullptr, nullptr);
  Tensor count = ConstantLike(CountOf(x.sizes(), dims), x);
  double eps = c.attrs[1].IsNone() ? InfoOf(dtype).epsilon : c.attrs[1].real();
  Tensor squares = ReduceTo(kReduceSum, x * x, dims) / count;
  return {Casted(Scaled(x * rsqrt(squares + ConstantLike(eps, x)), c.in[1]), dtype)};
}

/// Of x normalised to n = (x - mean) * scale (or x * scale) over `dims`, where a gradient g arrives
/// at n: g minus its parts along 1 and n, scaled.
Tensor NormalisedGrad(const Tensor& g, const Tensor& n, const Tensor& scale, const Dims& dims,
                      bool centred) {
  Tensor count = ConstantLike(CountOf(n.sizes(), dims), n);
  Tensor along = n * (ReduceTo(kReduceSum, g * n, dims) / count);
  if (centred) along = along + ReduceTo(kReduceSum, g, dims) / count;
  return (g - along) * scale;
}

/// Gradients of input, weight and bias, in that order; `normalised` is x before them.
std::vector<Tensor> NormGrads(const VjpCall& c, const Tensor& g, const Tensor& normalised,
                              const Tensor& scale, const Dims& dims, bool centred) {
  std::vector<Tensor> grads(c.in.size());
  if (c.needs(0)) {
    Tensor scaled = Scaled(g, c.in[1]);
    grads[0] = Casted(NormalisedGrad(scaled, normalised, scale, dims, centred), c.in[0].dtype());
  }
  if (c.needs(1)) {
    grads[1] = Casted(SummedTo(g * normalised, c.in[1].sizes()), c.in[1].dtype());
  }
  if (c.in.size() > 2 && c.needs(2)) {
    grads[2] = Casted(SummedTo(g, c.in[2].sizes()), c.in[2].dtype());
  }
  return grads;
}

std::vector<Tensor> LayerNormVjp(const VjpCall& c) {
  DType wide = WideFloat(c.in[0].dtype());
  Tensor x = Casted(c.in[0], wide);
  Dims dims = NormDims(c.op.name(), x.shape(), Dims(c.attrs[0].ints()), nullptr, nullptr);
  Tensor count = ConstantLike(CountOf(x.sizes(), dims), x);
  Tensor mean = ReduceTo(kReduceSum, x, dims) / count;
  Tensor distance = x - mean;
  Tensor variance = ReduceTo(kReduceSum, distance * distance, dims) / count;
  Tensor scale = rsqrt(variance + ConstantLike(c.attrs[1].real(), x));
  Tensor normalised = distance * scale;
  auto grads = NormGrads(c, Casted(c.grad(), wide), normalised, scale, dims, true);
  if (c.op.num_outputs == 3 && c.needs(0)) {  // mean and scale are results as well
    Tensor to_mean = Casted(c.grads[1], wide) / count;
    Tensor to_scale = Casted(c.grads[2], wide) * scale * scale * normalised / count;
    grads[0] = Casted(Casted(grads[0], wide) + to_mean - to_scale, c.in[0].dtype());
  }
  return grads;
}

std::vector<Tensor> RmsNormVjp(const VjpCall& c) {
  DType dtype = c.in[0].dtype(), wide = WideFloat(dtype);
  Tensor x = Casted(c.in[0], wide);
  Dims dims = NormDims(c.op.name(), x.shape(), Dims(c.attrs[0].ints()), nullptr, nullptr);
  Tensor count = ConstantLike(CountOf(x.sizes(), dims), x);
  double eps = c.attrs[1].IsNone() ? InfoOf(dtype).epsilon : c.attrs[1].real();
  Tensor scale = rsqrt(ReduceTo(kReduceSum, x * x, dims) / count + ConstantLike(eps, x));
  return NormGrads(c, Casted(c.grad(), wide), x * scale, scale, dims, false);
}

Tensor OrUndefined(const std::optional<Tensor>& tensor) { return tensor ? *tensor : Tensor(); }

}  // namespace

Tensor softmax(const Tensor& self, int64_t dim, std::optional<DType> dtype, Location at) {
  LocationScope scope(at);
  if (Autocasted cast(kSoftmax, at); cast) return softmax(cast(self), dim, dtype, at);
  return SoftmaxNode(kSoftmax, "softmax", self, dim, dtype, at);
}

Tensor log_softmax(const Tensor& self, int64_t dim, std::optional<DType> dtype, Location at) {
  LocationScope scope(at);
  if (Autocasted cast(kLogSoftmax, at); cast) return log_softmax(cast(self), dim, dtype, at);
  return SoftmaxNode(kLogSoftmax, "log_softmax", self, dim, dtype, at);
}

Tensor softmin(const Tensor& self, int64_t dim, std::optional<DType> dtype, Location at) {
  if (Autocasted cast(kSoftmin, at); cast) return softmin(cast(self), dim, dtype, at);
  LocationScope scope(at);
  return softmax(-self, dim, dtype, at);
}

Tensor layer_norm(const Tensor& input, const Dims& normalized_shape,
                  const std::optional<Tensor>& weight, const std::optional<Tensor>& bias,
                  double eps, Location at) {
  LocationScope scope(at);
  if (Autocasted cast(kLayerNorm, at); cast)
    return layer_norm(cast(input), normalized_shape, cast(weight), cast(bias), eps, at);
  NeedFloat("layer_norm", input);
  return Apply(kLayerNorm, at, {input, OrUndefined(weight), OrUndefined(bias)},
               {normalized_shape, eps});
}

std::tuple<Tensor, Tensor, Tensor> native_layer_norm(const Tensor& input,
                                                     const Dims& normalized_shape,
                                                     const std::optional<Tensor>& weight,
                                                     const std::optional<Tensor>& bias, double eps,
                                                     Location at) {
  LocationScope scope(at);
  if (Autocasted cast(kNativeLayerNorm, at); cast)
    return native_layer_norm(cast(input), normalized_shape, cast(weight), cast(bias), eps, at);
  NeedFloat("native_layer_norm", input);
  const Tensor operands[] = {input, OrUndefined(weight), OrUndefined(bias)};
  const Attr attrs[] = {normalized_shape, eps};
  auto results = ApplyMulti(kNativeLayerNorm, at, operands, attrs);
  return {results[0], results[1], results[2]};
}

Tensor rms_norm(const Tensor& input, const Dims& normalized_shape,
                const std::optional<Tensor>& weight, std::optional<double> eps, Location at) {
  LocationScope scope(at);
  if (Autocasted cast(kRmsNorm, at); cast)
    return rms_norm(cast(input), normalized_shape, cast(weight), eps, at);
  NeedFloat("rms_norm", input);
  return Apply(kRmsNorm, at, {input, OrUndefined(weight)},
               {normalized_shape, eps ? Attr(*eps) : Attr()});
}

namespace {

constinit const OpDef kSoftmax = {
    .schema = "softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
    .doc = "exp(x) over its sum along `dim`, without overflow.",
    .call = Box<softmax>,
    .autocast = AutocastRule::kF32,
    .infer = InferSoftmax,
    .expand = ExpandSoftmax,
    .vjp = SoftmaxVjp,
    .samples = {{"f32[2,3]", "{dim=1, dtype=none}"}},
};
constinit const OpDef kLogSoftmax = {
    .schema = "log_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
    .doc = "Logarithm of softmax, exact where softmax is near zero.",
    .call = Box<log_softmax>,
    .autocast = AutocastRule::kF32,
    .infer = InferSoftmax,
    .expand = ExpandSoftmax,
    .vjp = SoftmaxVjp,
    .samples = {{"f32[2,3]", "{dim=1, dtype=none}"}},
};
constinit const OpDef kSoftmin = {
    .schema = "softmin(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
    .doc = "Softmax of the negated input.",
    .call = Box<softmin>,
    .autocast = AutocastRule::kF32,
};
constinit const OpDef kLayerNorm = {
    .schema =
        "layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? "
        "bias=None, float eps=1e-05) -> Tensor",
    .doc = "Normalises the last dims to mean 0 and variance 1, then scales and shifts.",
    .call = Box<layer_norm>,
    .autocast = AutocastRule::kF32,
    .infer = InferLayerNorm,
    .expand = ExpandLayerNorm,
    .vjp = LayerNormVjp,
    .samples = {{"f32[2,3] f32[3] f32[3]", "{normalized_shape=[3], eps=1e-05}"}},
};
constinit const OpDef kNativeLayerNorm = {
    .schema =
        "native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? "
        "bias, float eps) -> (Tensor, Tensor, Tensor)",
    .doc = "As layer_norm, with the mean and the reciprocal standard deviation.",
    .call = Box<native_layer_norm>,
    .autocast = AutocastRule::kF32,
    .infer = InferLayerNorm,
    .expand = ExpandLayerNorm,
    .vjp = LayerNormVjp,
    .num_outputs = 3,
    .samples = {{"f32[2,3] f32[3] f32[3]", "{normalized_shape=[3], eps=1e-05}"}},
};
constinit const OpDef kRmsNorm = {
    .schema =
        "rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? "
        "eps=None) -> Tensor",
    .doc = "Divides by the root of the mean square of the last dims, then scales.",
    .call = Box<rms_norm>,
    .autocast = AutocastRule::kF32,
    .infer = InferLayerNorm,
    .expand = ExpandRmsNorm,
    .vjp = RmsNormVjp,
    .samples = {{"f32[2,3] f32[3]", "{normalized_shape=[3], eps=none}"}},
};

}  // namespace

std::span<const OpDef* const> ops::SoftmaxOps() {
  static constexpr const OpDef* kOps[] = {&kSoftmax,   &kLogSoftmax,      &kSoftmin,
                                          &kLayerNorm, &kNativeLayerNorm, &kRmsNorm};
  return kOps;
}

}  // namespace hammock
