#include <cmath>
#include <limits>
#include <numbers>

#include "base/throw.h"
#include "hammock/ops/elementwise.h"
#include "hammock/ops/shape.h"
#include "ir/primitives.h"
#include "ops/primitives/elementwise_kit.h"
#include "ops/primitives/families.h"
#include "trace/apply.h"

namespace hammock {

using namespace ops;  // NOLINT: records and the op writer's kit

namespace ops {
extern const OpDef kLogAddExp, kLogAddExp2, kXlogy, kSinc, kLogit, kLerp, kAddcmul, kAddcdiv,
    kNanToNum;
}

namespace {

// max + log1p(exp(-|a - b|)); two equal infinities are their own sum.
std::vector<Tensor> ExpandLogAddExp(const ExpandCall& call) {
  Tensor a = Wide(call, 0), b = Wide(call, 1);
  Tensor sum = maximum(a, b) + log1p(exp(-abs(a - b)));
  return Narrow(call, where(logical_and(eq(a, b), isinf(a)), a, sum));
}

std::vector<Tensor> ExpandLogAddExp2(const ExpandCall& call) {
  Tensor a = Wide(call, 0), b = Wide(call, 1);
  Tensor sum = maximum(a, b) + log1p(exp2(-abs(a - b))) * std::numbers::log2e;
  return Narrow(call, where(logical_and(eq(a, b), isinf(a)), a, sum));
}

std::vector<Tensor> ExpandXlogy(const ExpandCall& call) {
  Tensor x = Wide(call, 0), y = Wide(call, 1);
  return Narrow(call, where(isnan(y), y, where(eq(x, 0), 0.0, x * log(y))));
}

/// PyTorch's, where `self` is 0: the logarithm if there is one, else 0.
std::vector<Tensor> XlogyVjp(const VjpCall& call) {
  const Tensor &g = call.grad(), &x = call.in[0], &y = call.in[1];
  std::vector<Tensor> grads(2);
  if (call.needs(0)) {
    grads[0] = where(logical_and(eq(x, 0), le(y, 0)), 0.0, xlogy(g, y));
  }
  if (call.needs(1)) grads[1] = g * x / y;
  return grads;
}

std::vector<Tensor> ExpandSinc(const ExpandCall& call) {
  Tensor x = Wide(call, 0);
  Tensor angle = x * std::numbers::pi;
  return Narrow(call, where(eq(x, 0), 1.0, sin(angle) / angle));
}

Tensor SincGrad(const Tensor& g, const Tensor& x, const VjpCall&) {
  Tensor angle = x * std::numbers::pi;
  Tensor square = angle * x;
  return g * where(eq(square, 0), 0.0, (cos(angle) * angle - sin(angle)) / square);
}

std::vector<Tensor> ExpandLogit(const ExpandCall& call) {
  Tensor x = Wide(call, 0);
  if (call.in[1].defined()) {
    Tensor eps = Wide(call, 1);
    x = minimum(maximum(x, eps), 1.0 - eps);
  }
  return Narrow(call, log(x / (1.0 - x)));
}

/// PyTorch's: outside of the domain NaN, where it is clamped 0.
Tensor LogitGrad(const Tensor& g, const Tensor& x, const VjpCall& call) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  Tensor low = ConstantLike(0, x), high = ConstantLike(1, x);
  if (call.in[1].defined()) {
    low = Casted(call.in[1], x.dtype());
    high = high - low;
  }
  Tensor outside = logical_or(lt(x, low), gt(x, high));
  return where(outside, call.in[1].defined() ? 0.0 : kNan, g / (x * (1.0 - x)));
}

// From the nearer end, so that weights 0 and 1 are exact.
std::vector<Tensor> ExpandLerp(const ExpandCall& call) {
  Tensor start = Wide(call, 0), end = Wide(call, 1), weight = Wide(call, 2);
  Tensor way = end - start;
  Tensor near = start + weight * way, far = end - way * (1.0 - weight);
  return Narrow(call, where(lt(weight, 0.5), near, far));
}

/// Of the plain formula: the way to the other end does not matter to an end's share.
std::vector<Tensor> LerpVjp(const VjpCall& call) {
  const Tensor &start = call.in[0], &end = call.in[1];
  DType wide = WideFloat(start.dtype());
  Tensor g = Casted(call.grad(), wide), weight = Casted(call.in[2], wide);
  std::vector<Tensor> grads(3);
  auto reduced = [&](const Tensor& grad, const Tensor& operand) {
    return Casted(sum_to_size(grad, operand.sizes()), operand.dtype());
  };
  if (call.needs(0)) grads[0] = reduced(g * (1.0 - weight), start);
  if (call.needs(1)) grads[1] = reduced(g * weight, end);
  if (call.needs(2)) {
    grads[2] = reduced(g * (Casted(end, wide) - Casted(start, wide)), call.in[2]);
  }
  return grads;
}

std::vector<Tensor> ExpandAddcmul(const ExpandCall& call) {
  return Narrow(call, Wide(call, 0) + Wide(call, 3) * Wide(call, 1) * Wide(call, 2));
}

std::vector<Tensor> ExpandAddcdiv(const ExpandCall& call) {
  return Narrow(call, Wide(call, 0) + Wide(call, 3) * Wide(call, 1) / Wide(call, 2));
}

std::vector<Tensor> ExpandNanToNum(const ExpandCall& call) {
  Tensor x = call.in[0];
  double infinity = std::numeric_limits<double>::infinity();
  Tensor y = where(eq(x, infinity), call.in[2], where(eq(x, -infinity), call.in[3], x));
  return {where(isnan(x), call.in[1], y)};
}

/// Broadcast and promoted without the last operand, a number in the dtype of computation.
void InferScaled(const InferCall& call) {
  auto tensors = call.in.first(call.in.size() - 1);
  Dims sizes = tensors[0]->sizes();
  for (const Shape* other : tensors) {
    sizes = BroadcastSizes(call.op.name(), sizes, other->sizes());
  }
  call.out = {Shape(ComputeDType(kAdd, tensors), sizes)};
}

void InferLerp(const InferCall& call) {
  RequireSameDType(call, *call.in[0], *call.in[1]);
  RequireDType(call, IsFloat(call.in[0]->dtype()), *call.in[0], "a floating dtype");
  Dims sizes = BroadcastSizes("lerp", call.in[0]->sizes(), call.in[1]->sizes());
  call.out = {call.in[0]->With(BroadcastSizes("lerp", sizes, call.in[2]->sizes()))};
}

Tensor ApplyScaled(const OpDef& op, const Location& at, const Tensor& self, const Tensor& a,
                   const Tensor& b, const Scalar& value) {
  const Shape* types[] = {&self.shape(), &a.shape(), &b.shape()};
  DType dtype = ComputeDType(kAdd, types);
  return Apply(op, at, {self, a, b, Lift(value, WideFloat(dtype))});
}

}  // namespace

Tensor logaddexp(const Tensor& self, const TensorArg& other, Location at) {
  LocationScope scope(at);
  return ApplyBinary(kLogAddExp, at, self, AsTensor(other, self));
}

Tensor logaddexp2(const Tensor& self, const TensorArg& other, Location at) {
  LocationScope scope(at);
  return ApplyBinary(kLogAddExp2, at, self, AsTensor(other, self));
}

Tensor xlogy(const Tensor& self, const TensorArg& other, Location at) {
  LocationScope scope(at);
  return ApplyBinary(kXlogy, at, self, AsTensor(other, self));
}

Tensor sinc(const Tensor& self, Location at) { return ApplyUnary(kSinc, at, self); }

Tensor logit(const Tensor& self, const std::optional<Scalar>& eps, Location at) {
  LocationScope scope(at);
  Tensor bound;
  if (eps) bound = Lift(*eps, WideFloat(FloatOf(self.dtype())));
  return Apply(kLogit, at, {self, bound});
}

Tensor lerp(const Tensor& self, const Tensor& end, const TensorArg& weight, Location at) {
  LocationScope scope(at);
  if (!weight.is_tensor()) return Apply(kLerp, at, {self, end, LiftWide(weight.scalar(), self)});
  if (weight.tensor().dtype() != self.dtype()) {
    Throw<TypeError>(ErrorCode::kDTypeMismatch, "lerp: weight is {}, needs the dtype of self, {}",
                     weight.tensor().shape().to_string(), self.shape().to_string());
  }
  return Apply(kLerp, at, {self, end, weight.tensor()});
}

Tensor addcmul(const Tensor& self, const Tensor& tensor1, const Tensor& tensor2,
               const Scalar& value, Location at) {
  return ApplyScaled(kAddcmul, at, self, tensor1, tensor2, value);
}

Tensor addcdiv(const Tensor& self, const Tensor& tensor1, const Tensor& tensor2,
               const Scalar& value, Location at) {
  LocationScope scope(at);
  if (!IsFloat(tensor1.dtype()) && !IsFloat(tensor2.dtype())) {
    Throw<TypeError>(ErrorCode::kDTypeMismatch,
                     "addcdiv: integer division of {} by {} is not supported; cast one to a "
                     "floating dtype",
                     tensor1.shape().to_string(), tensor2.shape().to_string());
  }
  return ApplyScaled(kAddcdiv, at, self, tensor1, tensor2, value);
}

Tensor nan_to_num(const Tensor& self, const std::optional<Scalar>& nan,
                  const std::optional<Scalar>& posinf, const std::optional<Scalar>& neginf,
                  Location at) {
  LocationScope scope(at);
  DType dtype = self.dtype();
  if (!IsFloat(dtype)) return clone(self, at);
  return Apply(
      kNanToNum, at,
      {self, Lift(nan.value_or(0.0), dtype), Lift(posinf.value_or(InfoOf(dtype).highest), dtype),
       Lift(neginf.value_or(InfoOf(dtype).lowest), dtype)});
}

// ---- records

namespace ops {

constinit const OpDef kLogAddExp = {
    .schema = "logaddexp(Tensor self, Tensor other) -> Tensor",
    .doc = "log(exp(self) + exp(other)), without overflow.",
    .call = Box<BinaryFn(logaddexp)>,
    .infer = InferFloatOnly,
    .rule = DTypeRule::kFloat,
    .expand = ExpandLogAddExp,
};
constinit const OpDef kLogAddExp2 = {
    .schema = "logaddexp2(Tensor self, Tensor other) -> Tensor",
    .doc = "log2(2 ** self + 2 ** other), without overflow.",
    .call = Box<BinaryFn(logaddexp2)>,
    .infer = InferFloatOnly,
    .rule = DTypeRule::kFloat,
    .expand = ExpandLogAddExp2,
};
constinit const OpDef kXlogy = {
    .schema = "xlogy(Tensor self, Tensor other) -> Tensor",
    .doc = "self * log(other), 0 where `self` is 0 unless `other` is NaN.",
    .call = Box<BinaryFn(xlogy)>,
    .rule = DTypeRule::kFloat,
    .expand = ExpandXlogy,
    .vjp = XlogyVjp,
    .domain = {0.1, 5.0},
};
constinit const OpDef kSinc = {
    .schema = "sinc(Tensor self) -> Tensor",
    .doc = "sin(pi * self) / (pi * self), 1 at 0.",
    .call = Box<UnaryFn(sinc)>,
    .rule = DTypeRule::kFloat,
    .expand = ExpandSinc,
    .vjp = FirstVjp<SincGrad>,
};
constinit const OpDef kLogit = {
    .schema = "logit(Tensor self, Scalar? eps=None) -> Tensor",
    .doc = "log(x / (1 - x)), with x clamped to [eps, 1 - eps] where eps is given.",
    .call = Box<logit>,
    .infer = InferFloatOfFirst,
    .keeps_layout = true,
    .expand = ExpandLogit,
    .vjp = FirstVjp<LogitGrad>,
    .domain = {0.1, 0.9},
    .samples = {{"f32[2,3] none"}},
};
constinit const OpDef kLerp = {
    .schema = "lerp(Tensor self, Tensor end, Tensor weight) -> Tensor",
    .doc = "self + weight * (end - self), exact at both ends.",
    .call = Box<lerp>,
    .infer = InferLerp,
    .keeps_layout = true,
    .expand = ExpandLerp,
    .vjp = LerpVjp,
    .samples = {{"f32[2,3] f32[2,3] f32[]"}, {"f32[2,3] f32[3] f32[2,3]"}},
};
constinit const OpDef kAddcmul = {
    .schema = "addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor",
    .doc = "self + value * tensor1 * tensor2",
    .call = Box<addcmul>,
    .infer = InferScaled,
    .keeps_layout = true,
    .expand = ExpandAddcmul,
    .samples = {{"f32[2,3] f32[3] f32[2,1] f32[]"}},
};
constinit const OpDef kAddcdiv = {
    .schema = "addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor",
    .doc = "self + value * tensor1 / tensor2",
    .call = Box<addcdiv>,
    .infer = InferScaled,
    .keeps_layout = true,
    .expand = ExpandAddcdiv,
    .samples = {{"f32[2,3] f32[3] f32[2,1] f32[]"}},
};
constinit const OpDef kNanToNum = {
    .schema =
        "nan_to_num(Tensor self, Scalar? nan=None, Scalar? posinf=None, Scalar? neginf=None) "
        "-> Tensor",
    .doc = "Replaces NaN and the infinities.",
    .call = Box<nan_to_num>,
    .infer = InferFloatLikeFirst,
    .keeps_layout = true,
    .expand = ExpandNanToNum,
    .samples = {{"f32[2,3] f32[] f32[] f32[]"}},
};

namespace {

constexpr const OpDef* kNodes[] = {&kLogAddExp, &kLogAddExp2, &kXlogy,   &kSinc,    &kLogit,
                                   &kLerp,      &kAddcmul,    &kAddcdiv, &kNanToNum};

}  // namespace

std::span<const OpDef* const> SpecialOps() {
  static const auto list = Listed(kNodes, {});
  return list;
}

}  // namespace ops
}  // namespace hammock
