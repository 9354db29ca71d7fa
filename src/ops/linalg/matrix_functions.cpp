// Determinants, norms, powers and the exponential of matrices.

#include <cmath>
#include <limits>

#include "base/throw.h"
#include "hammock/ops/aliases.h"
#include "hammock/ops/elementwise.h"
#include "hammock/ops/linalg.h"
#include "hammock/ops/matmul.h"
#include "hammock/ops/reduce.h"
#include "ir/primitives.h"
#include "ops/kit/compose.h"
#include "ops/kit/reduce_steps.h"
#include "ops/primitives/families.h"
#include "ops/primitives/matrix_steps.h"

namespace hammock {

using namespace ops;  // NOLINT: the writer's kit of this folder

namespace {

extern const OpDef kDet, kSlogdet, kMatrixExp;

// ---- Determinants

Shape WithoutMatrix(const Shape& type) {
  Dims sizes = type.sizes();
  sizes.resize(type.rank() - 2);
  return type.With(sizes);
}

Tensor Last(const OpDef& op, const Tensor& x) { return Reduce(op, x, Dims{x.dim() - 1}, false); }

std::vector<Tensor> ExpandDet(const ExpandCall& c) {
  LuFactors lu = LuOf(c.in[0], "");
  return {Parity(lu) * Last(kReduceProd, DiagonalOf(lu.factors))};
}

/// conj(det(A) * inverse(A).T), the transposed adjugate, which singular matrices have too: their
/// pivots of zero are replaced by tiny ones, and the adjugate changes by as little.
std::vector<Tensor> DetVjp(const VjpCall& c) {
  LuFactors lu = LuOf(c.in[0], "");
  int64_t n = c.in[0].size(-1);
  Dims batch = BatchOf(c.in[0]), column = WithMatrix(batch, n, 1);
  Tensor pivots = DiagonalOf(lu.factors);
  Tensor tiny = where(eq(pivots, ConstantLike(0, pivots)),
                      ConstantLike(InfoOf(pivots.dtype()).epsilon, pivots), 0.0);
  Tensor identity = Identity(n, pivots);
  Tensor factors = lu.factors + Reshaped(tiny, column) * identity;
  Tensor det = Parity(lu) * Last(kReduceProd, pivots + tiny);
  Tensor rows = Reshaped(lu.rows, column);
  Tensor order =
      Casted(eq(rows, CountingAlong(batch.size() + 1, batch.size() + 2, n, rows)), pivots.dtype());
  Tensor lower = SolveTriangular(factors, order, false, false, true);
  Tensor inverse = SolveTriangular(factors, lower, true, false, false);
  return {Reshaped(c.grad() * conj(det), WithMatrix(batch, 1, 1)) * MatrixAdjoint(inverse)};
}

void InferDet(const InferCall& c) { c.out.push_back(WithoutMatrix(*c.in[0])); }

std::vector<Tensor> ExpandSlogdet(const ExpandCall& c) {
  LuFactors lu = LuOf(c.in[0], "");
  Tensor diagonal = DiagonalOf(lu.factors);
  return {Parity(lu) * Last(kReduceProd, sgn(diagonal)), Last(kReduceSum, log(abs(diagonal)))};
}

void InferSlogdet(const InferCall& c) {
  const Shape type = WithoutMatrix(*c.in[0]);
  c.out = {type, type.With(RealOf(type.dtype()))};
}

// ---- Exponential

/// The Taylor polynomial of degree 16, by blocks of powers of the fourth power. Exact to the last
/// bit of f64 for matrices of norm up to 1/2.
Tensor TaylorExp(const Tensor& x) {
  Tensor identity = Identity(x.size(-1), x);
  Tensor x2 = matmul(x, x), x3 = matmul(x2, x), x4 = matmul(x2, x2);
  auto inverse_factorial = [&](int k) { return ConstantLike(1 / std::tgamma(k + 1.0), x); };
  Tensor sum = x4 * inverse_factorial(16);
  for (int block = 3; block >= 0; --block) {
    int k = 4 * block;
    Tensor low = identity * inverse_factorial(k) + x * inverse_factorial(k + 1);
    sum = sum + low + x2 * inverse_factorial(k + 2) + x3 * inverse_factorial(k + 3);
    if (block > 0) sum = matmul(sum, x4);
  }
  return sum;
}

/// Scaling and squaring. How often to square depends on values, so all squarings that may be needed
/// are there and each is taken or not. Norms up to 2^20 are scaled to 1/2. Each squaring doubles
/// the relative error of what came before, hence f64.
std::vector<Tensor> ExpandMatrixExp(const ExpandCall& c) {
  constexpr int kMostSquarings = 21;
  DType dtype = c.out[0].dtype();
  Tensor x = Casted(c.in[0], IsComplex(dtype) ? DType::kC128 : DType::kF64);
  if (x.numel() == 0) return {c.in[0]};
  int rank = x.dim();
  Tensor columns = Reduce(kReduceSum, abs(x), Dims{rank - 2}, true);
  Tensor norm = Reduce(kReduceMax, columns, Dims{rank - 1}, true);
  Tensor wanted = ceil(log2(maximum(norm, ConstantLike(0.5, norm)))) + ConstantLike(1, norm);
  Tensor squarings = minimum(wanted, ConstantLike(kMostSquarings, norm));
  Tensor result = TaylorExp(x * exp2(-squarings));
  for (int i = 0; i < kMostSquarings; ++i) {
    result = where(gt(squarings, ConstantLike(i, squarings)), matmul(result, result), result);
  }
  return {Casted(result, dtype)};
}

void InferLikeFirst(const InferCall& c) { c.out.push_back(*c.in[0]); }

// ---- Norms

/// The two dims of a matrix norm, wrapped and different.
Dims MatrixDims(const char* op, const Tensor& self, const Dims& dim) {
  if (dim.size() != 2 || self.dim() < 2) {
    Throw(ErrorCode::kValue, "{}: needs two dims of a tensor that has them, got {} of {}", op,
          ToString(dim), self.shape().to_string());
  }
  return WrapDims(op, dim, self.dim());
}

/// `reduce` over the singular values of the matrices in `dims`.
Tensor SingularNorm(const char* op, const Tensor& self, const Dims& dims, bool keepdim,
                    const OpDef& reduce) {
  Dims order;
  for (int i = 0; i < self.dim(); ++i) {
    if (!Contains(dims, i)) order.push_back(i);
  }
  order.push_back(dims[0]);
  order.push_back(dims[1]);
  Tensor matrices = Permuted(self, order);
  NeedFactorable(op, matrices);
  Tensor result = Last(reduce, linalg_svdvals(matrices));
  return Reshaped(result, ReducedSizes(self.sizes(), dims, keepdim));
}

Tensor CastedTo(const char* op, const Tensor& self, std::optional<DType> dtype) {
  Tensor x = dtype ? Casted(self, *dtype) : self;
  NeedFloat(op, x);
  return x;
}

}  // namespace

Tensor linalg_det(const Tensor& A, Location at) {
  LocationScope scope(at);
  NeedFactorable("linalg_det", A);
  NeedSquare("linalg_det", A);
  return Apply(kDet, at, {A});
}

Tensor det(const Tensor& self, Location at) { return linalg_det(self, at); }

std::tuple<Tensor, Tensor> linalg_slogdet(const Tensor& A, Location at) {
  LocationScope scope(at);
  NeedFactorable("linalg_slogdet", A);
  NeedSquare("linalg_slogdet", A);
  auto parts = ApplyMulti(kSlogdet, at, std::span(&A, 1));
  return {parts[0], parts[1]};
}

std::tuple<Tensor, Tensor> slogdet(const Tensor& self, Location at) {
  return linalg_slogdet(self, at);
}

Tensor logdet(const Tensor& self, Location at) {
  LocationScope scope(at);
  auto [sign, logarithm] = linalg_slogdet(self, at);
  if (IsComplex(sign.dtype())) return complex(logarithm, angle(sign));
  Tensor negative = lt(sign, ConstantLike(0, sign));
  return where(negative, ConstantLike(std::nan(""), logarithm), logarithm);
}

Tensor matrix_power(const Tensor& self, int64_t n, Location at) {
  LocationScope scope(at);
  NeedSquare("matrix_power", self);
  if (n == 0) return clone(Batched(Identity(self.size(-1), self), BatchOf(self)));
  Tensor power = n < 0 ? linalg_inv(self, at) : self;
  uint64_t rest = n < 0 ? -static_cast<uint64_t>(n) : static_cast<uint64_t>(n);
  Tensor result;
  for (;; power = matmul(power, power)) {
    if (rest & 1) result = result.defined() ? matmul(result, power) : power;
    rest >>= 1;
    if (rest == 0) return result.is_same(self) ? clone(result) : result;
  }
}

Tensor matrix_exp(const Tensor& self, Location at) {
  LocationScope scope(at);
  NeedFloat("matrix_exp", self);
  NeedSquare("matrix_exp", self);
  return Apply(kMatrixExp, at, {self});
}

Tensor linalg_vector_norm(const Tensor& self, const Scalar& ord, const Dims& dim, bool keepdim,
                          std::optional<DType> dtype, Location at) {
  LocationScope scope(at);
  NeedFloat("linalg_vector_norm", self);
  return norm(self, ord, dim, keepdim, dtype, at);
}

Tensor linalg_matrix_norm(const Tensor& self, const Scalar& ord, const Dims& dim, bool keepdim,
                          std::optional<DType> dtype, Location at) {
  LocationScope scope(at);
  const char* op = "linalg_matrix_norm";
  Dims dims = MatrixDims(op, self, dim);
  Tensor x = CastedTo(op, self, dtype);
  double order = ord.ToDouble(), size = std::abs(order);
  if (size != 1 && size != 2 && !std::isinf(size)) {
    Throw(ErrorCode::kValue, "{}: ord must be 1, 2, an infinity or its negative, got {}", op,
          ord.to_string());
  }
  if (size == 2) return SingularNorm(op, x, dims, keepdim, order > 0 ? kReduceMax : kReduceMin);
  // Sums of columns, or of rows.
  Dims summed = {size == 1 ? dims[0] : dims[1]}, compared = {size == 1 ? dims[1] : dims[0]};
  Tensor sums = Reduce(kReduceSum, abs(x), summed, true);
  NeedElements(op, sums, compared);
  Tensor result = Reduce(order > 0 ? kReduceMax : kReduceMin, sums, compared, true);
  return Reshaped(result, ReducedSizes(x.sizes(), dims, keepdim));
}

Tensor linalg_matrix_norm(const Tensor& self, const std::string& ord, const Dims& dim, bool keepdim,
                          std::optional<DType> dtype, Location at) {
  LocationScope scope(at);
  const char* op = "linalg_matrix_norm";
  Dims dims = MatrixDims(op, self, dim);
  Tensor x = CastedTo(op, self, dtype);
  if (ord == "fro") return norm(x, 2, dims, keepdim, std::nullopt, at);
  if (ord == "nuc") return SingularNorm(op, x, dims, keepdim, kReduceSum);
  Throw(ErrorCode::kValue, "{}: ord must be 'fro' or 'nuc', got '{}'", op, ord);
}

Tensor frobenius_norm(const Tensor& self, const Dims& dim, bool keepdim, Location at) {
  LocationScope scope(at);
  if (dim.size() > 2) {
    Throw(ErrorCode::kValue, "frobenius_norm: expected at most 2 dims, got {}", ToString(dim));
  }
  return norm(self, 2, dim, keepdim, std::nullopt, at);
}

Tensor nuclear_norm(const Tensor& self, const Dims& dim, bool keepdim, Location at) {
  LocationScope scope(at);
  return SingularNorm("nuclear_norm", self, MatrixDims("nuclear_norm", self, dim), keepdim,
                      kReduceSum);
}

// ---- Records

namespace {

/// torch.linalg.norm: what it means depends on which arguments are given.
Tensor NormOf(const Tensor& self, const Any& ord, const std::optional<Dims>& dim, bool keepdim,
              std::optional<DType> dtype) {
  const char* op = "linalg_norm";
  if (ord.IsNone()) return linalg_vector_norm(self, 2, BoxedDims(dim), keepdim, dtype);
  if (!dim && self.dim() != 1 && self.dim() != 2) {
    Throw(ErrorCode::kValue, "{}: an ord without dims needs a vector or a matrix, got {}", op,
          self.shape().to_string());
  }
  size_t count = dim ? static_cast<size_t>(dim->size()) : static_cast<size_t>(self.dim());
  Dims dims = dim ? *dim : count == 2 ? Dims{-2, -1} : Dims{-1};
  if (ord.kind() == Any::Kind::kString) {
    return linalg_matrix_norm(self, ord.ToStringRef(), dims, keepdim, dtype);
  }
  if (count == 1) return linalg_vector_norm(self, ord.ToScalar(), dims, keepdim, dtype);
  return linalg_matrix_norm(self, ord.ToScalar(), dims, keepdim, dtype);
}

}  // namespace

Tensor linalg_norm(const Tensor& self, const Scalar& ord, const std::optional<Dims>& dim,
                   bool keepdim, std::optional<DType> dtype, Location at) {
  LocationScope scope(at);
  return NormOf(self, ord, dim, keepdim, dtype);
}

namespace {

std::optional<Dims> DimsFrom(const Any& value) {
  if (value.IsNone()) return std::nullopt;
  return value.IsSequence() ? Dims(value.ToInts()) : Dims{value.ToInt()};
}

std::optional<DType> DTypeFrom(const Any& value) {
  return value.IsNone() ? std::optional<DType>() : value.ToDType();
}

Any CallNorm(std::span<const Any> args) {
  return Any(
      NormOf(args[0].ToTensor(), args[1], DimsFrom(args[2]), args[3].ToBool(), DTypeFrom(args[4])));
}

Any CallMatrixNorm(std::span<const Any> args) {
  Dims dims(args[2].ToInts());
  if (args[1].kind() == Any::Kind::kString) {
    return Any(linalg_matrix_norm(args[0].ToTensor(), args[1].ToStringRef(), dims, args[3].ToBool(),
                                  DTypeFrom(args[4])));
  }
  return Any(linalg_matrix_norm(args[0].ToTensor(), args[1].ToScalar(), dims, args[3].ToBool(),
                                DTypeFrom(args[4])));
}

Tensor VectorNormBoxed(const Tensor& self, const Scalar& ord, std::optional<Dims> dim, bool keepdim,
                       std::optional<DType> dtype) {
  return linalg_vector_norm(self, ord, BoxedDims(dim), keepdim, dtype);
}
Tensor FrobeniusAll(const Tensor& self, Location at) { return frobenius_norm(self, {}, false, at); }
Tensor NuclearAll(const Tensor& self, bool keepdim, Location at) {
  if (self.dim() != 2) {
    Throw(ErrorCode::kShapeMismatch, "nuclear_norm: expected a matrix, got {}",
          self.shape().to_string());
  }
  return nuclear_norm(self, {0, 1}, keepdim, at);
}

constinit const OpDef kDet = {
    .schema = "linalg_det(Tensor A) -> Tensor",
    .doc = "The determinant.",
    .call = Box<linalg_det>,
    .infer = InferDet,
    .expand = ExpandDet,
    .vjp = DetVjp,
    .samples = {{"f32[2,3,3]"}},
};
constinit const OpDef kSlogdet = {
    .schema = "linalg_slogdet(Tensor A) -> (Tensor, Tensor)",
    .doc = "Sign of the determinant and logarithm of its absolute value.",
    .call = Box<linalg_slogdet>,
    .infer = InferSlogdet,
    .expand = ExpandSlogdet,
    .num_outputs = 2,
    .samples = {{"f32[2,3,3]"}},
};
constinit const OpDef kMatrixExp = {
    .schema = "matrix_exp(Tensor self) -> Tensor",
    .doc = "The exponential of each matrix.",
    .call = Box<matrix_exp>,
    .infer = InferLikeFirst,
    .expand = ExpandMatrixExp,
    .samples = {{"f32[2,3,3]"}},
};
HAMMOCK_FUNCTION(kDetOld, "det(Tensor self) -> Tensor", "The determinant.", det)
HAMMOCK_FUNCTION(kSlogdetOld, "slogdet(Tensor self) -> (Tensor, Tensor)",
                 "Sign and logarithm of the determinant.", slogdet)
HAMMOCK_FUNCTION(kLogdet, "logdet(Tensor self) -> Tensor",
                 "Logarithm of the determinant; NaN where that is negative.", logdet)
HAMMOCK_FUNCTION(kMatrixPower, "matrix_power(Tensor self, int n) -> Tensor",
                 "A power of each matrix; of its inverse where n is negative.", matrix_power)
HAMMOCK_FUNCTION(kLinalgPower, "linalg_matrix_power(Tensor self, int n) -> Tensor",
                 "Same as matrix_power.", matrix_power)
HAMMOCK_FUNCTION(kLinalgExp, "linalg_matrix_exp(Tensor self) -> Tensor", "Same as matrix_exp.",
                 matrix_exp)
HAMMOCK_FUNCTION(kVectorNorm,
                 "linalg_vector_norm(Tensor self, Scalar ord=2, int[1]? dim=None, bool "
                 "keepdim=False, *, ScalarType? dtype=None) -> Tensor",
                 "A norm of vectors.", VectorNormBoxed)
constinit const OpDef kMatrixNorm = {
    .schema =
        "linalg_matrix_norm(Tensor self, Any ord=\"fro\", int[] dim=[-2,-1], bool keepdim=False, "
        "*, ScalarType? dtype=None) -> Tensor",
    .doc = "A norm of matrices.",
    .call = CallMatrixNorm,
};
constinit const OpDef kLinalgNorm = {
    .schema =
        "linalg_norm(Tensor self, Any ord=None, Any dim=None, bool keepdim=False, *, ScalarType? "
        "dtype=None) -> Tensor",
    .doc = "A norm of vectors or matrices.",
    .call = CallNorm,
};
HAMMOCK_FUNCTION(kFrobenius, "frobenius_norm(Tensor self) -> Tensor", "Root of the sum of squares.",
                 FrobeniusAll)
HAMMOCK_FUNCTION(kFrobeniusDim,
                 "frobenius_norm.dim(Tensor self, int[1] dim, bool keepdim=False) -> Tensor",
                 "Root of the sum of squares over at most two dims.", frobenius_norm)
HAMMOCK_FUNCTION(kNuclear, "nuclear_norm(Tensor self, bool keepdim=False) -> Tensor",
                 "Sum of the singular values.", NuclearAll)
HAMMOCK_FUNCTION(kNuclearDim,
                 "nuclear_norm.dim(Tensor self, int[2] dim, bool keepdim=False) -> Tensor",
                 "Sum of the singular values of the matrices in two dims.", nuclear_norm)

}  // namespace

std::span<const OpDef* const> ops::MatrixOps() {
  static constexpr const OpDef* kOps[] = {
      &kDet,         &kSlogdet,      &kMatrixExp, &kDetOld,     &kSlogdetOld, &kLogdet,
      &kMatrixPower, &kLinalgPower,  &kLinalgExp, &kVectorNorm, &kMatrixNorm, &kLinalgNorm,
      &kFrobenius,   &kFrobeniusDim, &kNuclear,   &kNuclearDim,
  };
  return kOps;
}

}  // namespace hammock
