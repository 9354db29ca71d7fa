#include <limits>

#include "base/throw.h"
#include "hammock/ops/elementwise.h"
#include "ir/primitives.h"
#include "ops/primitives/complex_parts.h"
#include "ops/primitives/elementwise_kit.h"
#include "ops/primitives/families.h"
#include "trace/apply.h"

namespace hammock {

using namespace ops;  // NOLINT: records and the op writer's kit

#define BINARY(name, record)                                             \
  Tensor name(const Tensor& self, const TensorArg& other, Location at) { \
    return ApplyBinary(record, at, self, AsTensor(other, self));         \
  }
BINARY(eq, kEq)
BINARY(ne, kNe)
BINARY(lt, kLt)
BINARY(le, kLe)
BINARY(gt, kGt)
BINARY(ge, kGe)
BINARY(logical_and, kLogicalAnd)
BINARY(logical_or, kLogicalOr)
BINARY(logical_xor, kLogicalXor)
#undef BINARY

Tensor logical_not(const Tensor& self, Location at) { return ApplyUnary(kLogicalNot, at, self); }

// ---- tests of one operand

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The answer that holds for every element.
Tensor Always(const Tensor& self, bool answer) {
  return Filled(self.sizes(), answer, DType::kBool, self);
}

/// Refuses complex numbers, which have none.
void NeedOrder(const char* op, const Tensor& x) {
  if (!IsComplex(x.dtype())) return;
  Throw<TypeError>(ErrorCode::kDTypeMismatch, "{}: complex numbers have no order: {}", op,
                   x.shape().to_string());
}

}  // namespace

Tensor isnan(const Tensor& self, Location at) { return ApplyUnary(kIsNan, at, self); }

Tensor isinf(const Tensor& self, Location at) {
  LocationScope scope(at);
  if (IsComplex(self.dtype())) return logical_or(isinf(RealPart(self)), isinf(ImagPart(self)));
  if (!IsFloat(self.dtype())) return Always(self, false);
  return eq(abs(self), ConstantLike(kInfinity, self));
}

Tensor isfinite(const Tensor& self, Location at) {
  LocationScope scope(at);
  if (IsComplex(self.dtype())) {
    return logical_and(isfinite(RealPart(self)), isfinite(ImagPart(self)));
  }
  if (!IsFloat(self.dtype())) return Always(self, true);
  return lt(abs(self), ConstantLike(kInfinity, self));
}

Tensor isposinf(const Tensor& self, Location at) {
  LocationScope scope(at);
  NeedOrder("isposinf", self);
  if (!IsFloat(self.dtype())) return Always(self, false);
  return eq(self, ConstantLike(kInfinity, self));
}

Tensor isneginf(const Tensor& self, Location at) {
  LocationScope scope(at);
  NeedOrder("isneginf", self);
  if (!IsFloat(self.dtype())) return Always(self, false);
  return eq(self, ConstantLike(-kInfinity, self));
}

Tensor isreal(const Tensor& self, Location at) {
  LocationScope scope(at);
  if (IsComplex(self.dtype())) return eq(ImagPart(self), 0.0);
  return Always(self, true);
}

Tensor signbit(const Tensor& self, Location at) {
  LocationScope scope(at);
  NeedOrder("signbit", self);
  if (!IsSigned(self.dtype())) return Always(self, false);
  Tensor zero = ConstantLike(0, self);
  // copysign sees the sign of -0 and of NaN, which a comparison does not.
  return lt(IsFloat(self.dtype()) ? copysign(ConstantLike(1, self), self) : self, zero);
}

// ---- choices

Tensor where(const Tensor& condition, const TensorArg& self, const TensorArg& other, Location at) {
  LocationScope scope(at);
  DType dtype = condition.dtype();
  if (dtype != DType::kBool && dtype != DType::kU8) {
    Throw<TypeError>(ErrorCode::kDTypeMismatch, "where: condition is {}, needs bool",
                     condition.shape().to_string());
  }
  auto number = [](const Scalar& value) { return Lift(value, DTypeOfNumber(value)); };
  Tensor a = self.is_tensor()    ? self.tensor()
             : other.is_tensor() ? AsTensor(self, other.tensor())
                                 : number(self.scalar());
  Tensor b = other.is_tensor()  ? other.tensor()
             : self.is_tensor() ? AsTensor(other, self.tensor())
                                : number(other.scalar());
  return Apply(kWhere, at, {Casted(condition, DType::kBool), a, b});
}

Tensor heaviside(const Tensor& self, const TensorArg& values, Location at) {
  LocationScope scope(at);
  if (values.is_tensor() && values.tensor().dtype() != self.dtype()) {
    Throw<TypeError>(ErrorCode::kDTypeMismatch, "heaviside: dtypes differ: {} and {}; cast one",
                     self.shape().to_string(), values.tensor().shape().to_string());
  }
  Tensor zero = ConstantLike(0, self);
  Tensor step = Casted(gt(self, zero), self.dtype());
  return where(eq(self, zero), AsTensor(values, self), step);
}

namespace ops {
extern const OpDef kClamp;
}

namespace {

std::vector<Tensor> ExpandClamp(const ExpandCall& call) {
  DType dtype = call.out[0].dtype();
  Tensor x = Casted(call.in[0], dtype);
  if (call.in[1].defined()) x = maximum(x, Casted(call.in[1], dtype));
  if (call.in[2].defined()) x = minimum(x, Casted(call.in[2], dtype));
  return {x};
}

/// Where the operand is inside, or outside at the side of a bound; a lower bound above the upper
/// one does not count.
Tensors ClampVjp(const VjpCall& call) {
  const Tensor &x = call.in[0], &low = call.in[1], &high = call.in[2], &g = call.grad();
  Tensors grads(3);
  if (call.needs(0)) {
    Tensor inside = low.defined() ? ge(x, low) : le(x, high);
    if (low.defined() && high.defined()) inside = logical_and(inside, le(x, high));
    grads[0] = where(inside, g, 0.0);
  }
  if (call.needs(1)) {
    Tensor below = lt(x, low);
    grads[1] = where(high.defined() ? logical_and(below, lt(low, high)) : below, g, 0.0);
  }
  if (call.needs(2)) {
    Tensor above = gt(x, high);
    grads[2] = where(low.defined() ? logical_or(above, lt(high, low)) : above, g, 0.0);
  }
  for (size_t i = 0; i < 3; ++i) {
    if (!grads[i].defined()) continue;
    grads[i] = Casted(SummedTo(grads[i], call.in[i].sizes()), call.in[i].dtype());
  }
  return grads;
}

Tensor Bound(const std::optional<TensorArg>& bound, const Tensor& self) {
  return bound ? AsTensor(*bound, self) : Tensor();
}

}  // namespace

Tensor clamp(const Tensor& self, const std::optional<TensorArg>& min,
             const std::optional<TensorArg>& max, Location at) {
  LocationScope scope(at);
  if (!min && !max) {
    Throw(ErrorCode::kValue, "clamp: at least one of min and max must be given");
  }
  return Apply(kClamp, at, {self, Bound(min, self), Bound(max, self)});
}

Tensor clip(const Tensor& self, const std::optional<TensorArg>& min,
            const std::optional<TensorArg>& max, Location at) {
  return clamp(self, min, max, at);
}

Tensor clamp_min(const Tensor& self, const TensorArg& min, Location at) {
  return clamp(self, min, std::nullopt, at);
}

Tensor clamp_max(const Tensor& self, const TensorArg& max, Location at) {
  return clamp(self, std::nullopt, max, at);
}

// ---- closeness

Tensor isclose(const Tensor& self, const Tensor& other, double rtol, double atol, bool equal_nan,
               Location at) {
  LocationScope scope(at);
  if (self.dtype() != other.dtype()) {
    Throw<TypeError>(ErrorCode::kDTypeMismatch, "isclose: dtypes differ: {} and {}; cast one",
                     self.shape().to_string(), other.shape().to_string());
  }
  if (rtol < 0 || atol < 0) {
    Throw(ErrorCode::kValue, "isclose: rtol {} and atol {} must not be negative", rtol, atol);
  }
  Tensor close = eq(self, other);
  if (equal_nan && IsFloatOrComplex(self.dtype())) {
    close = logical_or(close, logical_and(isnan(self), isnan(other)));
  }
  Tensor a = Casted(self, FloatOf(self.dtype())), b = Casted(other, FloatOf(self.dtype()));
  Tensor allowed = add(abs(mul(b, rtol)), atol);
  Tensor actual = abs(sub(a, b));
  return logical_or(close, logical_and(isfinite(actual), le(actual, allowed)));
}

// ---- records

namespace ops {

constinit const OpDef kClamp = {
    .schema = "clamp(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor",
    .doc = "Elements below `min` become `min`, those above `max` become `max`; NaN stays.",
    .call = Box<clamp>,
    .rule = DTypeRule::kPromote,
    .expand = ExpandClamp,
    .vjp = ClampVjp,
};

namespace {

constexpr const OpDef* kNodes[] = {&kClamp};

#define UNARY(name, text) \
  { .schema = #name "(Tensor self) -> Tensor", .doc = text, .call = Box<UnaryFn(name)> }

constinit const OpDef kFunctions[] = {
    UNARY(isinf, "Whether an element is infinite."),
    UNARY(isfinite, "Whether an element is neither infinite nor NaN."),
    UNARY(isposinf, "Whether an element is positive infinity."),
    UNARY(isneginf, "Whether an element is negative infinity."),
    UNARY(isreal, "True for every element of a real tensor."),
    UNARY(signbit, "Whether the sign bit is set; -0 and NaN have one too."),
    {
        .schema = "heaviside(Tensor self, Tensor values) -> Tensor",
        .doc = "1 for positive elements, 0 for negative ones, `values` for zeros.",
        .call = Box<heaviside>,
    },
    {
        .schema = "clip(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor",
        .doc = "Same as clamp.",
        .call = Box<clip>,
    },
    {
        .schema = "clamp_min(Tensor self, Tensor min) -> Tensor",
        .doc = "clamp with a lower bound only.",
        .call = Box<clamp_min>,
    },
    {
        .schema = "clamp_max(Tensor self, Tensor max) -> Tensor",
        .doc = "clamp with an upper bound only.",
        .call = Box<clamp_max>,
    },
    {
        .schema = "isclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool "
                  "equal_nan=False) -> Tensor",
        .doc = "Whether |self - other| <= atol + rtol * |other|.",
        .call = Box<isclose>,
    },
};
#undef UNARY

}  // namespace

std::span<const OpDef* const> CompareOps() {
  static const auto list = Listed(kNodes, kFunctions);
  return list;
}

}  // namespace ops
}  // namespace hammock
