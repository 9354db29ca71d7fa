// Discrete Fourier transforms: primitives over complex numbers as they lie in memory.

#include <bit>

#include "hammock/ops/elementwise.h"
#include "hammock/ops/operators.h"
#include "ir/primitives.h"
#include "ops/kit/compose.h"
#include "ops/kit/record.h"
#include "ops/primitives/complex_parts.h"

namespace hammock::ops {
namespace {

// ---- Inference

void CheckNormalization(const InferCall& call, int64_t normalization) {
  if (normalization >= 0 && normalization <= 2) return;
  Refuse(call, ErrorCode::kValue, "normalization must be 0, 1 or 2, got {}", normalization);
}

/// A dim that the tensor has: a 0-d tensor has none.
int TransformedDim(const InferCall& call, int64_t dim) {
  const Shape& self = *call.in[0];
  if (dim >= 0 && dim < self.rank()) return static_cast<int>(dim);
  Refuse(call, ErrorCode::kDimOutOfRange, "dimension {} of {} is out of range [0, {})", dim,
         self.to_string(), self.rank());
}

void InferC2C(const InferCall& call) {
  const Shape& self = *call.in[0];
  RequireDType(call, IsComplex(self.dtype()), self, "c64 or c128");
  CheckNormalization(call, call.attrs[1].integer());
  Dims seen;
  for (int64_t dim : call.attrs[0].ints()) {
    TransformedDim(call, dim);
    if (Contains(seen, dim)) {
      Refuse(call, ErrorCode::kValue, "dimension {} is transformed twice", dim);
    }
    seen.push_back(dim);
  }
  call.out = {self};
}

void InferR2C(const InferCall& call) {
  const Shape& self = *call.in[0];
  RequireDType(call, self.dtype() == DType::kF32 || self.dtype() == DType::kF64, self,
               "f32 or f64");
  CheckNormalization(call, call.attrs[1].integer());
  const int dim = TransformedDim(call, call.attrs[0].integer());
  Dims sizes = self.sizes();
  if (sizes[dim] < 1) {
    Refuse(call, ErrorCode::kShapeMismatch, "{} has no elements along dim {}", self.to_string(),
           dim);
  }
  sizes[dim] = sizes[dim] / 2 + 1;
  call.out = {self.With(ComplexOf(self.dtype())).With(sizes)};
}

void InferC2R(const InferCall& call) {
  const Shape& self = *call.in[0];
  RequireDType(call, IsComplex(self.dtype()), self, "c64 or c128");
  CheckNormalization(call, call.attrs[1].integer());
  const int dim = TransformedDim(call, call.attrs[0].integer());
  const int64_t size = call.attrs[2].integer();
  if (size < 1 || self.size(dim) != size / 2 + 1) {
    Refuse(call, ErrorCode::kShapeMismatch, "{} real numbers have {} frequencies, got {} in {}",
           size, size / 2 + 1, self.size(dim), self.to_string());
  }
  Dims sizes = self.sizes();
  sizes[dim] = size;
  call.out = {self.With(RealOf(self.dtype())).With(sizes)};
}

// ---- Gradients: a transform is linear, its adjoint is the opposite one with the same scale

Tensors C2CVjp(const VjpCall& c) {
  return {Apply(kFftC2C, Location(), {c.grad()}, {c.attrs[0], c.attrs[1], !c.attrs[2].boolean()})};
}

/// Frequencies times `factor`, but for those that are their own conjugates: the first, and the last
/// of an even number.
Tensor OthersTimes(const Tensor& frequencies, int dim, int64_t size, double factor) {
  Tensor k = CountingAlong(dim, frequencies.dim(), size / 2 + 1, frequencies);
  Tensor own = eq(k, ConstantLike(0, k));
  if (size % 2 == 0) own = logical_or(own, eq(k, ConstantLike(size / 2, k)));
  const DType part = RealOf(frequencies.dtype());
  Tensor weight = where(own, Constant(1.0, part), Constant(factor, part));
  Parts z = PartsOf(frequencies);
  return Joined({z.real * weight, z.imag * weight});
}

Tensors R2CVjp(const VjpCall& c) {
  const int dim = static_cast<int>(c.attrs[0].integer());
  const int64_t size = c.in[0].size(dim);
  return {
      Apply(kFftC2R, Location(), {OthersTimes(c.grad(), dim, size, 0.5)}, {dim, c.attrs[1], size})};
}

Tensors C2RVjp(const VjpCall& c) {
  const int dim = static_cast<int>(c.attrs[0].integer());
  Tensor spectrum = Apply(kFftR2C, Location(), {c.grad()}, {dim, c.attrs[1]});
  return {OthersTimes(spectrum, dim, c.attrs[2].integer(), 2.0)};
}

// ---- Costs: 5 n log2 n operations, as is usual to count; half of it for real numbers

int64_t FlopsAlong(int64_t elements, int64_t size) {
  return size < 2 ? 0 : 5 * elements * std::bit_width(static_cast<uint64_t>(size - 1));
}

int64_t C2CFlops(const CostCall& call) {
  int64_t flops = 0;
  for (int64_t dim : call.attrs[0].ints()) {
    flops += FlopsAlong(call.in[0]->numel(), call.in[0]->size(static_cast<int>(dim)));
  }
  return flops;
}

int64_t RealFlops(const Shape& real, const CostCall& call) {
  return FlopsAlong(real.numel(), real.size(static_cast<int>(call.attrs[0].integer()))) / 2;
}
int64_t R2CFlops(const CostCall& call) { return RealFlops(*call.in[0], call); }
int64_t C2RFlops(const CostCall& call) { return RealFlops(call.out[0], call); }

}  // namespace

constinit const OpDef kFftC2C = {
    .schema = "fft_c2c(Tensor self, int[] dim, int normalization, bool forward) -> Tensor",
    .doc = "The Fourier transform of complex numbers along `dim`, or its conjugate.",
    .infer = InferC2C,
    .takes_complex = true,
    .vjp = C2CVjp,
    .flops = C2CFlops,
    .samples = {{"c64[2,6]", "{dim=[1], normalization=0, forward=true}"},
                {"c64[4,3,5]", "{dim=[0, 2], normalization=1, forward=false}"},
                {"c64[7]", "{dim=[0], normalization=2, forward=true}"}},
};
constinit const OpDef kFftR2C = {
    .schema = "fft_r2c(Tensor self, int dim, int normalization) -> Tensor",
    .doc = "The Fourier transform of real numbers along `dim`: size / 2 + 1 frequencies.",
    .infer = InferR2C,
    .takes_complex = true,
    .vjp = R2CVjp,
    .flops = R2CFlops,
    .samples = {{"f32[2,6]", "{dim=1, normalization=0}"}, {"f32[5,3]", "{dim=0, normalization=1}"}},
};
constinit const OpDef kFftC2R = {
    .schema = "fft_c2r(Tensor self, int dim, int normalization, SymInt size) -> Tensor",
    .doc = "The `size` real numbers of which these are the first frequencies, times their number.",
    .infer = InferC2R,
    .takes_complex = true,
    .vjp = C2RVjp,
    .flops = C2RFlops,
    .samples = {{"c64[2,4]", "{dim=1, normalization=0, size=6}"},
                {"c64[3,2]", "{dim=0, normalization=2, size=5}"}},
};

}  // namespace hammock::ops
