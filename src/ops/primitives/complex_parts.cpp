/// Complex functions in real ones. Inverse functions follow Kahan ("Branch Cuts for Complex
/// Elementary Functions", 1987): signs of zeros choose the side of a cut, as in C and PyTorch.
///
/// Terms that cancel or overflow are computed in f64 for c64 (Wide); for c128 by formulas that do
/// neither.

#include "ops/primitives/complex_parts.h"

#include <numbers>

#include "hammock/ops/elementwise.h"
#include "hammock/ops/operators.h"
#include "ir/primitives.h"

namespace hammock::ops {
namespace {

Tensor Number(double value, const Tensor& like) { return ConstantLike(value, like); }

Tensor Zeros(const Tensor& like) { return ZerosLike(like.shape(), like); }

/// The parts in f64.
Parts Wide(const Tensor& x) {
  Parts parts = PartsOf(x);
  return {Casted(parts.real, DType::kF64), Casted(parts.imag, DType::kF64)};
}

/// The result of a call, rounded to its dtype.
Tensors Result(const ExpandCall& call, const Parts& parts) {
  DType dtype = RealOf(call.out[0].dtype());
  return {Joined({Casted(parts.real, dtype), Casted(parts.imag, dtype)})};
}

Parts Times(const Parts& a, const Parts& b) {
  return {a.real * b.real - a.imag * b.imag, a.real * b.imag + a.imag * b.real};
}
Tensor IsNonzero(const Parts& z) { return logical_or(ne(z.real, 0.0), ne(z.imag, 0.0)); }

Parts Times(const Parts& a, double b) { return {a.real * b, a.imag * b}; }

/// Both operands are divided by the divisor's larger part first: no square overflows.
Parts Over(const Parts& a, const Parts& b) {
  Tensor scale = maximum(abs(b.real), abs(b.imag));
  Parts x = {a.real / scale, a.imag / scale}, y = {b.real / scale, b.imag / scale};
  Tensor divisor = y.real * y.real + y.imag * y.imag;
  return {(x.real * y.real + x.imag * y.imag) / divisor,
          (x.imag * y.real - x.real * y.imag) / divisor};
}

Parts One(const Parts& like) {
  Tensor zero = Zeros(like.real);
  return {zero + 1.0, zero};
}

/// The root with the real part that is not negative.
Parts Root(const Parts& z) {
  const Tensor &x = z.real, &y = z.imag;
  Tensor size = sqrt(abs(x) * 0.5 + hypot(x, y) * 0.5);
  Tensor other = abs(y) / (size * 2.0);
  Tensor is_zero = eq(size, 0.0), is_infinite = isinf(y);
  // Of -0 as of 0: a sign bit tells nothing there.
  Tensor right = ge(x, 0.0);
  Tensor real = where(is_zero, size, where(right, size, other));
  Tensor imag = where(is_zero, y, copysign(where(right, other, size), y));
  return {where(is_infinite, abs(y), real), where(is_infinite, y, imag)};
}

Parts Exponential(const Parts& z) {
  Tensor size = exp(z.real);
  // The exponential of a real number is real, also where it overflows.
  return {size * cos(z.imag), where(eq(z.imag, 0.0), z.imag, size * sin(z.imag))};
}

/// log|z|; near the unit circle by the distance from it.
Tensor LogOfSize(const Parts& z) {
  Tensor size = hypot(z.real, z.imag);
  Tensor a = abs(z.real), b = abs(z.imag);
  Tensor large = maximum(a, b), small = minimum(a, b);
  Tensor near = log1p((large - 1.0) * (large + 1.0) + small * small) * 0.5;
  return where(logical_and(gt(size, 0.5), lt(size, 2.0)), near, log(size));
}

Parts Logarithm(const Parts& z) { return {LogOfSize(z), atan2(z.imag, z.real)}; }

/// i z and -i z.
Parts TurnedLeft(const Parts& z) { return {-z.imag, z.real}; }
Parts TurnedRight(const Parts& z) { return {z.imag, -z.real}; }

Parts HyperbolicSine(const Parts& z) {
  return {sinh(z.real) * cos(z.imag), cosh(z.real) * sin(z.imag)};
}
Parts HyperbolicCosine(const Parts& z) {
  return {cosh(z.real) * cos(z.imag), sinh(z.real) * sin(z.imag)};
}

Parts HyperbolicTangent(const Parts& z) {
  const Tensor &x = z.real, &y = z.imag;
  Tensor t = tan(y), s = sinh(x);
  Tensor beta = t * t + 1.0;
  Tensor divisor = beta * s * s + 1.0;
  Tensor far = gt(abs(x), 20.0);
  Tensor far_imag = sin(y) * cos(y) * exp(abs(x) * -2.0) * 4.0;
  return {where(far, copysign(Number(1, x), x), beta * cosh(x) * s / divisor),
          where(far, far_imag, t / divisor)};
}

/// The roots of 1 - z and 1 + z.
struct UnitRoots {
  explicit UnitRoots(const Parts& z)
      : minus(Root({1.0 - z.real, -z.imag})), plus(Root({z.real + 1.0, z.imag})) {}
  Parts minus;
  Parts plus;
};

/// Real and imaginary part of conj(a) b.
Tensor RealOfConjugateProduct(const Parts& a, const Parts& b) {
  return a.real * b.real + a.imag * b.imag;
}
Tensor ImagOfConjugateProduct(const Parts& a, const Parts& b) {
  return a.real * b.imag - a.imag * b.real;
}

Parts ArcSine(const Parts& z) {
  UnitRoots roots(z);
  return {atan2(z.real, Times(roots.minus, roots.plus).real),
          asinh(ImagOfConjugateProduct(roots.minus, roots.plus))};
}

Parts ArcCosine(const Parts& z) {
  UnitRoots roots(z);
  return {atan2(roots.minus.real, roots.plus.real) * 2.0,
          asinh(ImagOfConjugateProduct(roots.plus, roots.minus))};
}

Parts ArcHyperbolicCosine(const Parts& z) {
  Parts minus = Root({z.real - 1.0, z.imag}), plus = Root({z.real + 1.0, z.imag});
  return {asinh(RealOfConjugateProduct(minus, plus)), atan2(minus.imag, plus.real) * 2.0};
}

Parts ArcHyperbolicTangent(const Parts& z) {
  const Tensor &x = z.real, &y = z.imag;
  Tensor away = 1.0 - x;
  Tensor real = log1p(x * 4.0 / (away * away + y * y)) * 0.25;
  // Squares of large numbers overflow; the result is a turn of 90 degrees there.
  Tensor far = gt(maximum(abs(x), abs(y)), 1e150);
  Tensor quarter = copysign(Number(std::numbers::pi / 2, y), y);
  Tensor imag = atan2(y * 2.0, away * (x + 1.0) - y * y) * 0.5;
  return {where(far, copysign(Number(0, x), x), real), where(far, quarter, imag)};
}

/// f in the dtype of the parts.
template <auto F>
Tensors Plain(const ExpandCall& call) {
  return Result(call, F(PartsOf(call.in[0])));
}
/// f in f64.
template <auto F>
Tensors Precise(const ExpandCall& call) {
  return Result(call, F(Wide(call.in[0])));
}

/// Operands and results are as those of `call`, of the part.
Tensor OnPart(const ExpandCall& call, bool real) {
  Tensors operands;
  for (const Tensor& x : call.in) {
    bool split = x.defined() && IsComplex(x.dtype());
    operands.push_back(!split ? x : real ? RealPart(x) : ImagPart(x));
  }
  return Apply(call.op, Location(), operands, call.attrs);
}

}  // namespace

Parts PartsOf(const Tensor& x) {
  if (!IsComplex(x.dtype())) return {x, ZerosLike(x.shape(), x)};
  return {RealPart(x), ImagPart(x)};
}

Tensor Joined(const Parts& parts) { return Apply(kComplex, Location(), {parts.real, parts.imag}); }

Tensor RealPart(const Tensor& x) {
  return IsComplex(x.dtype()) ? Apply(kReal, Location(), {x}) : x;
}

Tensor ImagPart(const Tensor& x) { return Apply(kImag, Location(), {x}); }

Tensors EachPart(const ExpandCall& call) {
  return {Joined({OnPart(call, true), OnPart(call, false)})};
}

Tensors BilinearParts(const ExpandCall& call) {
  Parts a = PartsOf(call.in[0]), b = PartsOf(call.in[1]);
  auto product = [&](const Tensor& x, const Tensor& y) {
    const Tensor operands[] = {x, y};
    return Apply(call.op, Location(), operands, call.attrs);
  };
  return {Joined({product(a.real, b.real) - product(a.imag, b.imag),
                  product(a.real, b.imag) + product(a.imag, b.real)})};
}

Tensors MulParts(const ExpandCall& call) {
  return {Joined(Times(PartsOf(call.in[0]), PartsOf(call.in[1])))};
}

Tensors DivParts(const ExpandCall& call) {
  return {Joined(Over(PartsOf(call.in[0]), PartsOf(call.in[1])))};
}

Tensors ReciprocalParts(const ExpandCall& call) {
  Parts z = PartsOf(call.in[0]);
  return {Joined(Over(One(z), z))};
}

Tensors AbsParts(const ExpandCall& call) {
  Parts z = PartsOf(call.in[0]);
  return {hypot(z.real, z.imag)};
}

/// exp(w log z); a power of zero is zero, or one where the exponent is zero.
Tensors PowParts(const ExpandCall& call) {
  Parts z = Wide(call.in[0]), w = Wide(call.in[1]);
  Parts power = Exponential(Times(w, Logarithm(z)));
  Tensor base_is_zero = logical_and(eq(z.real, 0.0), eq(z.imag, 0.0));
  Tensor one = logical_and(eq(w.real, 0.0), eq(w.imag, 0.0));
  Tensor zero = Zeros(z.real);
  return Result(call, {where(one, 1.0, where(base_is_zero, zero, power.real)),
                       where(logical_or(one, base_is_zero), zero, power.imag)});
}

Tensors SqrtParts(const ExpandCall& call) { return Precise<Root>(call); }
Tensors RsqrtParts(const ExpandCall& call) {
  return Precise<[](const Parts& z) { return Over(One(z), Root(z)); }>(call);
}
Tensors ExpParts(const ExpandCall& call) { return Plain<Exponential>(call); }
Tensors Exp2Parts(const ExpandCall& call) {
  return Precise<[](const Parts& z) { return Exponential(Times(z, std::numbers::ln2)); }>(call);
}
Tensors Expm1Parts(const ExpandCall& call) {
  return Precise<[](const Parts& z) {
    Tensor half = sin(z.imag * 0.5);
    return Parts{expm1(z.real) * cos(z.imag) - half * half * 2.0, exp(z.real) * sin(z.imag)};
  }>(call);
}
Tensors LogParts(const ExpandCall& call) { return Precise<Logarithm>(call); }
Tensors Log2Parts(const ExpandCall& call) {
  return Precise<[](const Parts& z) { return Times(Logarithm(z), std::numbers::log2e); }>(call);
}
Tensors Log10Parts(const ExpandCall& call) {
  return Precise<[](const Parts& z) { return Times(Logarithm(z), std::numbers::log10e); }>(call);
}
Tensors Log1pParts(const ExpandCall& call) {
  return Precise<[](const Parts& z) {
    Tensor moved = z.real + 1.0;
    Tensor near = log1p(z.real * (z.real + 2.0) + z.imag * z.imag) * 0.5;
    Tensor small = lt(maximum(abs(z.real), abs(z.imag)), 0.5);
    return Parts{where(small, near, LogOfSize({moved, z.imag})), atan2(z.imag, moved)};
  }>(call);
}
Tensors SinhParts(const ExpandCall& call) { return Plain<HyperbolicSine>(call); }
Tensors CoshParts(const ExpandCall& call) { return Plain<HyperbolicCosine>(call); }
Tensors TanhParts(const ExpandCall& call) { return Precise<HyperbolicTangent>(call); }
Tensors SinParts(const ExpandCall& call) {
  return Plain<[](const Parts& z) { return TurnedRight(HyperbolicSine(TurnedLeft(z))); }>(call);
}
Tensors CosParts(const ExpandCall& call) {
  return Plain<[](const Parts& z) { return HyperbolicCosine(TurnedLeft(z)); }>(call);
}
Tensors TanParts(const ExpandCall& call) {
  return Precise<[](const Parts& z) { return TurnedRight(HyperbolicTangent(TurnedLeft(z))); }>(
      call);
}
Tensors AsinParts(const ExpandCall& call) { return Precise<ArcSine>(call); }
Tensors AcosParts(const ExpandCall& call) { return Precise<ArcCosine>(call); }
Tensors AtanParts(const ExpandCall& call) {
  return Precise<[](const Parts& z) { return TurnedRight(ArcHyperbolicTangent(TurnedLeft(z))); }>(
      call);
}
Tensors AsinhParts(const ExpandCall& call) {
  return Precise<[](const Parts& z) { return TurnedRight(ArcSine(TurnedLeft(z))); }>(call);
}
Tensors AcoshParts(const ExpandCall& call) { return Precise<ArcHyperbolicCosine>(call); }
Tensors AtanhParts(const ExpandCall& call) { return Precise<ArcHyperbolicTangent>(call); }
Tensors SigmoidParts(const ExpandCall& call) {
  return Precise<[](const Parts& z) {
    Parts e = Exponential({-z.real, -z.imag});
    return Over(One(z), {e.real + 1.0, e.imag});
  }>(call);
}

Tensors EqParts(const ExpandCall& call) {
  Parts a = PartsOf(call.in[0]), b = PartsOf(call.in[1]);
  return {logical_and(eq(a.real, b.real), eq(a.imag, b.imag))};
}

Tensors NeParts(const ExpandCall& call) {
  Parts a = PartsOf(call.in[0]), b = PartsOf(call.in[1]);
  return {logical_or(ne(a.real, b.real), ne(a.imag, b.imag))};
}

Tensors IsNanParts(const ExpandCall& call) {
  Parts z = PartsOf(call.in[0]);
  return {logical_or(isnan(z.real), isnan(z.imag))};
}

Tensors CastParts(const ExpandCall& call) {
  DType to = call.out[0].dtype();
  Parts z = PartsOf(call.in[0]);
  if (to == DType::kBool) return {IsNonzero(z)};
  if (!IsComplex(to)) return {Casted(z.real, to)};
  return {Joined({Casted(z.real, RealOf(to)), Casted(z.imag, RealOf(to))})};
}

Tensors ConstantParts(const ExpandCall& call) {
  Scalar value = call.attrs[0].scalar();
  DType dtype = RealOf(call.out[0].dtype());
  return {Joined({Constant(value.ToDouble(), dtype), Constant(value.imag(), dtype)})};
}

Tensors NonzeroParts(const ExpandCall& call) {
  const Tensor truth[] = {IsNonzero(PartsOf(call.in[0]))};
  return {Apply(call.op, Location(), truth, call.attrs)};
}

Tensors ReduceProdParts(const ExpandCall& call) {
  const Tensor& x = call.in[0];
  Dims dims(call.attrs[0].ints());
  Dims order, outer;
  for (int d = 0; d < x.dim(); ++d) {
    if (Contains(dims, d)) continue;
    order.push_back(d);
    outer.push_back(x.shape().size(d));
  }
  for (int64_t d : dims) {
    if (x.dim() > 0) order.push_back(d);
  }
  // The reduced dims as one, the last.
  const int last = outer.size();
  int64_t extent = CountOf(x.sizes(), dims);
  outer.push_back(extent);
  auto moved = [&](const Tensor& part) { return Reshaped(Permuted(part, order), outer); };
  Parts z = {moved(RealPart(x)), moved(ImagPart(x))};
  auto slice = [&](int64_t start, int64_t size) {
    return Parts{Sliced(z.real, last, start, size), Sliced(z.imag, last, start, size)};
  };
  if (extent == 0) {
    Dims sizes = call.out[0].sizes();
    DType dtype = RealOf(x.dtype());
    return {Joined({Filled(sizes, 1, dtype, x), Filled(sizes, 0, dtype, x)})};
  }
  while (extent > 1) {
    int64_t half = extent / 2;
    Parts product = Times(slice(0, half), slice(half, half));
    if (extent % 2 != 0) {
      Parts rest = slice(extent - 1, 1);
      const Tensor reals[] = {product.real, rest.real}, imags[] = {product.imag, rest.imag};
      product = {Concatenated(reals, last), Concatenated(imags, last)};
    }
    z = product;
    extent = half + extent % 2;
  }
  const Dims& sizes = call.out[0].sizes();
  return {Joined({Reshaped(z.real, sizes), Reshaped(z.imag, sizes)})};
}

Tensors ScanParts(const ExpandCall& call) {
  if (call.attrs[0].str() == "sum" || call.in[0].dim() == 0) return EachPart(call);
  const int dim = static_cast<int>(call.attrs[1].integer());
  const bool reverse = call.attrs[2].boolean();
  auto turned = [&](const Tensor& x) { return reverse ? Flipped(x, dim) : x; };
  Parts z = {turned(RealPart(call.in[0])), turned(ImagPart(call.in[0]))};
  const int64_t extent = call.in[0].shape().size(dim);
  for (int64_t step = 1; step < extent; step *= 2) {
    auto slice = [&](int64_t start, int64_t size) {
      return Parts{Sliced(z.real, dim, start, size), Sliced(z.imag, dim, start, size)};
    };
    Parts kept = slice(0, step);
    Parts product = Times(slice(step, extent - step), slice(0, extent - step));
    const Tensor reals[] = {kept.real, product.real}, imags[] = {kept.imag, product.imag};
    z = {Concatenated(reals, dim), Concatenated(imags, dim)};
  }
  return {Joined({turned(z.real), turned(z.imag)})};
}

}  // namespace hammock::ops
