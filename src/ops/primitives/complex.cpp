/// Complex numbers and their parts.

#include <numbers>

#include "hammock/ops/elementwise.h"
#include "hammock/ops/operators.h"
#include "hammock/ops/view.h"
#include "ir/primitives.h"
#include "ops/kit/record.h"
#include "ops/primitives/complex_parts.h"
#include "ops/primitives/elementwise_kit.h"
#include "ops/primitives/families.h"

namespace hammock {

using namespace ops;  // NOLINT: the writer's kit of this folder

namespace ops {
extern const OpDef kConj, kSgnComplex;
}

Tensor complex(const Tensor& real, const Tensor& imag, Location at) {
  LocationScope scope(at);
  Dims sizes = BroadcastSizes("complex", real.sizes(), imag.sizes());
  return Apply(kComplex, at, {Broadcasted(real, sizes), Broadcasted(imag, sizes)});
}

Tensor polar(const Tensor& abs, const Tensor& angle, Location at) {
  LocationScope scope(at);
  return complex(abs * cos(angle), abs * sin(angle), at);
}

Tensor conj(const Tensor& self, Location at) {
  if (!self.defined() || !IsComplex(self.dtype(at))) return self;
  return Apply(kConj, at, {self});
}

Tensor conj_physical(const Tensor& self, Location at) { return conj(self, at); }

Tensor adjoint(const Tensor& self, Location at) {
  LocationScope scope(at);
  NeedRank("adjoint", self, 2);
  return conj(transpose(self, -2, -1, at), at);
}

Tensor angle(const Tensor& self, Location at) {
  LocationScope scope(at);
  if (IsComplex(self.dtype())) return atan2(ImagPart(self), RealPart(self));
  Tensor x = Casted(self, FloatOf(self.dtype()));
  Tensor half_turn = ConstantLike(std::numbers::pi, x), zero = ConstantLike(0, x);
  return where(isnan(x), x, where(lt(x, zero), half_turn, zero));
}

Tensor sgn(const Tensor& self, Location at) {
  LocationScope scope(at);
  return IsComplex(self.dtype()) ? Apply(kSgnComplex, at, {self}) : sign(self, at);
}

namespace ops {
namespace {

void InferComplex(const InferCall& call) {
  const Shape &real = *call.in[0], &imag = *call.in[1];
  RequireSameDType(call, real, imag);
  RequireDType(call, real.dtype() == DType::kF32 || real.dtype() == DType::kF64, real,
               "f32 or f64");
  if (real.sizes() != imag.sizes()) {
    Refuse(call, ErrorCode::kShapeMismatch, "the parts are {} and {}, needs equal sizes",
           real.to_string(), imag.to_string());
  }
  call.out = {real.With(ComplexOf(real.dtype()))};
}

void InferPart(const InferCall& call) {
  const Shape& self = *call.in[0];
  RequireDType(call, IsComplex(self.dtype()), self, "a complex dtype");
  call.out = {self.With(RealOf(self.dtype()))};
}

void InferLikeComplex(const InferCall& call) {
  RequireDType(call, IsComplex(call.in[0]->dtype()), *call.in[0], "a complex dtype");
  call.out = {*call.in[0]};
}

Tensors ComplexVjp(const VjpCall& c) { return {RealPart(c.grad()), ImagPart(c.grad())}; }

Tensors RealVjp(const VjpCall& c) { return {Casted(c.grad(), c.in[0].dtype())}; }

Tensors ImagVjp(const VjpCall& c) {
  return {Joined({ZerosLike(c.grad().shape(), c.grad()), c.grad()})};
}

Tensors ExpandConj(const ExpandCall& call) {
  Parts z = PartsOf(call.in[0]);
  return {Joined({z.real, -z.imag})};
}

Tensors ConjVjp(const VjpCall& c) { return {conj(c.grad())}; }

Tensors ExpandSgn(const ExpandCall& call) {
  Parts z = PartsOf(call.in[0]);
  Tensor size = hypot(z.real, z.imag);
  Tensor is_zero = eq(size, 0.0), divisor = where(is_zero, 1.0, size);
  auto part = [&](const Tensor& x) { return where(is_zero, 0.0, x / divisor); };
  return {Joined({part(z.real), part(z.imag)})};
}

/// (g - Re(conj(g) y) y) / |z|: what turns the number, not what stretches it.
Tensors SgnVjp(const VjpCall& c) {
  const Tensor &z = c.in[0], &y = c.out[0], &g = c.grad();
  Tensor size = abs(z);
  Tensor is_zero = eq(size, 0.0), divisor = where(is_zero, 1.0, size);
  Tensor along = RealPart(conj(g) * y);
  return {where(is_zero, 0.0, (g - y * along) / divisor)};
}

}  // namespace

constinit const OpDef kComplex = {
    .schema = "complex(Tensor real, Tensor imag) -> Tensor",
    .doc = "Complex numbers of their parts, which are f32 or f64.",
    .call = Box<hammock::complex>,
    .infer = InferComplex,
    .vjp = ComplexVjp,
    .samples = {{"f32[2,3] f32[2,3]"}, {"f64[] f64[]"}},
};
constinit const OpDef kReal = {
    .schema = "real(Tensor self) -> Tensor",
    .doc = "The real part of complex numbers, a view; real numbers themselves.",
    .call = Box<hammock::real>,
    .infer = InferPart,
    .takes_complex = true,
    .vjp = RealVjp,
    .samples = {{"c64[2,3]"}},
};
constinit const OpDef kImag = {
    .schema = "imag(Tensor self) -> Tensor",
    .doc = "The imaginary part of complex numbers, a view.",
    .call = Box<hammock::imag>,
    .infer = InferPart,
    .takes_complex = true,
    .vjp = ImagVjp,
    .samples = {{"c64[2,3]"}},
};
constinit const OpDef kConj = {
    .schema = "conj(Tensor self) -> Tensor",
    .doc = "Complex conjugate; real numbers themselves.",
    .call = Box<UnaryFn(hammock::conj)>,
    .infer = InferLikeComplex,
    .keeps_layout = true,
    .expand = ExpandConj,
    .vjp = ConjVjp,
    .samples = {{"c64[2,3]"}},
};
constinit const OpDef kSgnComplex = {
    .schema = "sgn(Tensor self) -> Tensor",
    .doc = "The sign of real numbers; complex ones over their absolute value, 0 for 0.",
    .call = Box<UnaryFn(hammock::sgn)>,
    .infer = InferLikeComplex,
    .keeps_layout = true,
    .expand = ExpandSgn,
    .vjp = SgnVjp,
    .samples = {{"c64[2,3]"}},
};

namespace {

constinit const OpDef kFunctions[] = {
    {
        .schema = "polar(Tensor abs, Tensor angle) -> Tensor",
        .doc = "Complex numbers of absolute values and angles.",
        .call = Box<hammock::polar>,
    },
    {
        .schema = "adjoint(Tensor self) -> Tensor",
        .doc = "The last two dims exchanged, and conjugated.",
        .call = Box<hammock::adjoint>,
    },
    {
        .schema = "view_as_real(Tensor(a) self) -> Tensor(a)",
        .doc = "Complex numbers as pairs along a new last dim.",
        .call = Box<hammock::view_as_real>,
    },
    {
        .schema = "view_as_complex(Tensor(a) self) -> Tensor(a)",
        .doc = "Pairs along the last dim as complex numbers.",
        .call = Box<hammock::view_as_complex>,
    },
    {
        .schema = "conj_physical(Tensor self) -> Tensor",
        .doc = "Same as conj.",
        .call = Box<UnaryFn(hammock::conj)>,
    },
    {
        .schema = "resolve_conj(Tensor self) -> Tensor",
        .doc = "The tensor itself: conjugates are values, not marks.",
        .call = Box<UnaryFn(hammock::positive)>,
    },
    {
        .schema = "angle(Tensor self) -> Tensor",
        .doc = "The angle of complex numbers in [-pi, pi]; pi for negative numbers, else 0.",
        .call = Box<UnaryFn(hammock::angle)>,
    },
};

}  // namespace

std::span<const OpDef* const> ComplexOps() {
  static constexpr const OpDef* kNodes[] = {&kComplex, &kReal, &kImag, &kConj, &kSgnComplex};
  static const auto list = Listed(kNodes, kFunctions);
  return list;
}

}  // namespace ops
}  // namespace hammock
