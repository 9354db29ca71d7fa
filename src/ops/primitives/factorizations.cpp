// Factors of matrices: primitives, and PyTorch's functions that are one of them.

#include <algorithm>

#include "base/throw.h"
#include "hammock/ops/create.h"
#include "hammock/ops/elementwise.h"
#include "hammock/ops/linalg.h"
#include "hammock/ops/reduce.h"
#include "ir/primitives.h"
#include "ops/kit/compose.h"
#include "ops/kit/record.h"
#include "ops/primitives/families.h"
#include "ops/primitives/matrix_steps.h"

namespace hammock {

using namespace ops;  // NOLINT: the writer's kit of this folder

// ---- Steps

void ops::NeedMatrix(const char* op, const Tensor& x) {
  if (x.dim() >= 2) return;
  Throw(ErrorCode::kShapeMismatch, "{}: needs matrices, at least 2 dims, got {}", op,
        x.shape().to_string());
}

void ops::NeedSquare(const char* op, const Tensor& x) {
  NeedMatrix(op, x);
  if (x.size(-1) == x.size(-2)) return;
  Throw(ErrorCode::kShapeMismatch, "{}: needs square matrices, got {} by {} in {}", op, x.size(-2),
        x.size(-1), x.shape().to_string());
}

void ops::NeedFactorable(const char* op, const Tensor& x) {
  NeedMatrix(op, x);
  if (RealOf(x.dtype()) == DType::kF32 || RealOf(x.dtype()) == DType::kF64) return;
  Throw<TypeError>(ErrorCode::kDTypeMismatch,
                   "{}: {} is not supported, needs f32, f64, c64 or c128", op,
                   x.shape().to_string());
}

Dims ops::BatchOf(const Tensor& x) {
  Dims sizes = x.sizes();
  sizes.resize(x.dim() - 2);
  return sizes;
}

Dims ops::WithMatrix(const Dims& batch, int64_t rows, int64_t columns) {
  Dims sizes = batch;
  sizes.push_back(rows);
  sizes.push_back(columns);
  return sizes;
}

Tensor ops::MatrixTransposed(const Tensor& x) {
  Dims order;
  for (int i = 0; i < x.dim(); ++i) order.push_back(i);
  std::swap(order[x.dim() - 1], order[x.dim() - 2]);
  return Permuted(x, order);
}

Tensor ops::MatrixAdjoint(const Tensor& x) { return conj(MatrixTransposed(x)); }

Tensor ops::Batched(const Tensor& x, const Dims& batch) {
  return Broadcasted(x, WithMatrix(batch, x.size(-2), x.size(-1)));
}

Tensor ops::DiagonalOf(const Tensor& x) {
  int64_t rows = x.size(-2), columns = x.size(-1), count = std::min(rows, columns);
  Dims sizes = BatchOf(x);
  int last = sizes.size();
  sizes.push_back(rows * columns);
  if (count == 0) {
    sizes[last] = 0;
    return Reshaped(x, sizes);
  }
  return Sliced(Reshaped(x, sizes), last, 0, count, columns + 1);
}

namespace {

/// row - column < bound, for each element of a matrix: bool[rows, columns].
Tensor RowMinusColumnBelow(int64_t bound, int64_t rows, int64_t columns, const Tensor& like) {
  Tensor distance = CountingAlong(0, 2, rows, like) - CountingAlong(1, 2, columns, like);
  return lt(distance, ConstantLike(bound, distance));
}

}  // namespace

Tensor ops::Identity(int64_t n, const Tensor& like) {
  Tensor same = eq(CountingAlong(0, 2, n, like), CountingAlong(1, 2, n, like));
  return Casted(same, like.dtype());
}

Tensor ops::UpperPart(const Tensor& x) {
  return where(RowMinusColumnBelow(1, x.size(-2), x.size(-1), x), x, ConstantLike(0, x));
}

Tensor ops::UnitLowerPart(const Tensor& x) {
  int64_t rows = x.size(-2), columns = x.size(-1);
  Tensor on = RowMinusColumnBelow(1, rows, columns, x);
  Tensor above = RowMinusColumnBelow(0, rows, columns, x);
  return where(on, where(above, ConstantLike(0, x), ConstantLike(1, x)), x);
}

LuFactors ops::LuOf(const Tensor& x, const char* op) {
  const Attr attrs[] = {op};
  auto parts = ApplyMulti(kLu, Location(), std::span(&x, 1), attrs);
  return {parts[0], parts[1], parts[2]};
}

Tensor ops::Parity(const LuFactors& lu) {
  int last = lu.pivots.dim() - 1;
  Tensor pivots = Casted(lu.pivots, DType::kI64);
  Tensor own = Counting(pivots.size(last), pivots);
  Tensor exchanged = Casted(ne(pivots, own + ConstantLike(1, own)), DType::kI64);
  Tensor count = Apply(kReduceSum, Location(), {exchanged}, {Dims{last}, false});
  Tensor odd = remainder(count, ConstantLike(2, count));
  return Casted(ConstantLike(1, odd) - odd * ConstantLike(2, odd), lu.factors.dtype());
}

Tensor ops::SolveTriangular(const Tensor& a, const Tensor& b, bool upper, bool transpose,
                            bool unit) {
  return Apply(kSolveTriangular, Location(), {a, b}, {upper, transpose, unit});
}

// ---- Inference

namespace {

/// The sizes before the last two, then `last`.
Shape WithLast(const Shape& type, std::initializer_list<int64_t> last) {
  Dims sizes = type.sizes();
  sizes.resize(type.rank() - 2);
  for (int64_t size : last) sizes.push_back(size);
  return type.With(sizes);
}

/// Rows and columns of a matrix of real or complex numbers.
std::pair<int64_t, int64_t> Matrix(const InferCall& call, const Shape& type) {
  const DType part = RealOf(type.dtype());
  RequireDType(call, part == DType::kF32 || part == DType::kF64, type, "f32, f64, c64 or c128");
  if (type.rank() < 2) {
    Refuse(call, ErrorCode::kShapeMismatch, "needs matrices, at least 2 dims, got {}",
           type.to_string());
  }
  return {type.size(type.rank() - 2), type.size(type.rank() - 1)};
}

int64_t Square(const InferCall& call, const Shape& type) {
  auto [rows, columns] = Matrix(call, type);
  if (rows != columns) {
    Refuse(call, ErrorCode::kShapeMismatch, "needs square matrices, got {} by {} in {}", rows,
           columns, type.to_string());
  }
  return rows;
}

void InferCholesky(const InferCall& call) {
  Square(call, *call.in[0]);
  call.out = {*call.in[0]};
}

void InferLu(const InferCall& call) {
  const Shape& a = *call.in[0];
  auto [rows, columns] = Matrix(call, a);
  call.out = {a, WithLast(a, {std::min(rows, columns)}).With(DType::kI32),
              WithLast(a, {rows}).With(DType::kI64)};
}

void InferQr(const InferCall& call) {
  const Shape& a = *call.in[0];
  const std::string& mode = call.attrs[0].str();
  if (mode != "reduced" && mode != "complete") {
    Refuse(call, ErrorCode::kValue, "mode must be reduced or complete, got '{}'", mode);
  }
  auto [rows, columns] = Matrix(call, a);
  int64_t inner = mode == "complete" ? rows : std::min(rows, columns);
  call.out = {WithLast(a, {rows, inner}), WithLast(a, {inner, columns})};
}

void InferEigh(const InferCall& call) {
  const Shape& a = *call.in[0];
  int64_t size = Square(call, a);
  const std::string& triangle = call.attrs[0].str();
  if (triangle != "L" && triangle != "U") {
    Refuse(call, ErrorCode::kValue, "UPLO must be 'L' or 'U', got '{}'", triangle);
  }
  call.out = {WithLast(a, {size}).With(RealOf(a.dtype())), a};
}

void InferEig(const InferCall& call) {
  const Shape& a = *call.in[0];
  int64_t size = Square(call, a);
  const Shape complex = a.With(ComplexOf(a.dtype()));
  call.out = {WithLast(complex, {size}), complex};
}

void InferSvd(const InferCall& call) {
  const Shape& a = *call.in[0];
  auto [rows, columns] = Matrix(call, a);
  int64_t count = std::min(rows, columns);
  bool full = call.attrs[0].boolean();
  call.out = {WithLast(a, {rows, full ? rows : count}),
              WithLast(a, {count}).With(RealOf(a.dtype())),
              WithLast(a, {full ? columns : count, columns})};
}

void InferSolveTriangular(const InferCall& call) {
  const Shape &a = *call.in[0], &b = *call.in[1];
  RequireSameDType(call, a, b);
  int64_t size = Square(call, a);
  auto [rows, columns] = Matrix(call, b);
  if (rows != size || WithLast(a, {}) != WithLast(b, {})) {
    Refuse(call, ErrorCode::kShapeMismatch, "{} @ X == {} needs equal batches and {} rows",
           a.to_string(), b.to_string(), size);
  }
  call.out = {b};
}

// ---- Costs: leading terms, as is usual to count. A complex multiplication and addition is four of
// real numbers.

struct MatrixSizes {
  int64_t count;  // of matrices, times four where they are complex
  int64_t rows, columns, inner;
};

MatrixSizes SizesOf(const Shape& type) {
  const int64_t rows = type.size(type.rank() - 2), columns = type.size(type.rank() - 1);
  int64_t count = IsComplex(type.dtype()) ? 4 : 1;
  for (int i = 0; i < type.rank() - 2; ++i) count *= type.size(i);
  return {count, rows, columns, std::min(rows, columns)};
}

/// Multiples of the cube of a square matrix's size.
template <int64_t kNumerator, int64_t kDenominator = 1>
int64_t CubeFlops(const CostCall& call) {
  const auto [count, n, columns, inner] = SizesOf(*call.in[0]);
  return count * (kNumerator * n * n * n / kDenominator);
}

int64_t EliminationFlops(int64_t rows, int64_t columns, int64_t steps) {
  return 2 * rows * columns * steps - (rows + columns) * steps * steps +
         2 * steps * steps * steps / 3;
}

int64_t LuFlops(const CostCall& call) {
  const auto [count, rows, columns, inner] = SizesOf(*call.in[0]);
  return count * EliminationFlops(rows, columns, inner);
}

/// Reflections, then the product of them.
int64_t QrFlops(const CostCall& call) {
  const auto [count, rows, columns, inner] = SizesOf(*call.in[0]);
  const int64_t q_columns = SizesOf(call.out[0]).columns;
  return 2 * count *
         (EliminationFlops(rows, columns, inner) + EliminationFlops(rows, q_columns, inner));
}

int64_t SvdFlops(const CostCall& call) {
  const auto [count, rows, columns, inner] = SizesOf(*call.in[0]);
  const int64_t outer = std::max(rows, columns), square = inner * inner;
  return count * (call.attrs[0].boolean() ? 4 * outer * outer * inner + 22 * square * inner
                                          : 6 * outer * square + 20 * square * inner);
}

int64_t SolveTriangularFlops(const CostCall& call) {
  const auto [count, rows, columns, inner] = SizesOf(*call.in[1]);
  return count * rows * rows * columns;
}

std::string Triangle(const char* op, const std::string& name) {
  if (name == "L" || name == "l") return "L";
  if (name == "U" || name == "u") return "U";
  Throw(ErrorCode::kValue, "{}: UPLO must be 'L' or 'U', got '{}'", op, name);
}

}  // namespace

// ---- Functions

Tensor linalg_cholesky(const Tensor& self, bool upper, Location at) {
  return Apply(kCholesky, at, {self}, {upper});
}

Tensor cholesky(const Tensor& self, bool upper, Location at) {
  return linalg_cholesky(self, upper, at);
}

std::tuple<Tensor, Tensor> linalg_lu_factor(const Tensor& A, Location at) {
  LocationScope scope(at);
  LuFactors lu = LuOf(A, "");
  return {lu.factors, lu.pivots};
}

std::tuple<Tensor, Tensor> linalg_qr(const Tensor& A, const std::string& mode, Location at) {
  LocationScope scope(at);
  if (mode != "reduced" && mode != "complete" && mode != "r") {
    Throw(ErrorCode::kValue, "linalg_qr: mode must be reduced, complete or r, got '{}'", mode);
  }
  const Attr attrs[] = {mode == "r" ? "reduced" : mode};
  auto parts = ApplyMulti(kQr, at, std::span(&A, 1), attrs);
  return {mode == "r" ? new_empty(A, {0}) : parts[0], parts[1]};
}

std::tuple<Tensor, Tensor> qr(const Tensor& self, bool some, Location at) {
  return linalg_qr(self, some ? "reduced" : "complete", at);
}

std::tuple<Tensor, Tensor> linalg_eigh(const Tensor& self, const std::string& UPLO, Location at) {
  LocationScope scope(at);
  const Attr attrs[] = {Triangle("linalg_eigh", UPLO)};
  auto parts = ApplyMulti(kEigh, at, std::span(&self, 1), attrs);
  return {parts[0], parts[1]};
}

Tensor linalg_eigvalsh(const Tensor& self, const std::string& UPLO, Location at) {
  LocationScope scope(at);
  return std::get<0>(linalg_eigh(self, UPLO, at));
}

std::tuple<Tensor, Tensor> linalg_eig(const Tensor& self, Location at) {
  LocationScope scope(at);
  auto parts = ApplyMulti(kEig, at, std::span(&self, 1), {});
  return {parts[0], parts[1]};
}

Tensor linalg_eigvals(const Tensor& self, Location at) {
  LocationScope scope(at);
  return std::get<0>(linalg_eig(self, at));
}

std::tuple<Tensor, Tensor> symeig(const Tensor& self, bool eigenvectors, bool upper, Location at) {
  LocationScope scope(at);
  auto [values, vectors] = linalg_eigh(self, upper ? "U" : "L", at);
  return {values, eigenvectors || self.numel() == 0 ? vectors : new_empty(self, {0})};
}

std::tuple<Tensor, Tensor, Tensor> linalg_svd(const Tensor& A, bool full_matrices, Location at) {
  LocationScope scope(at);
  const Attr attrs[] = {full_matrices};
  auto parts = ApplyMulti(kSvd, at, std::span(&A, 1), attrs);
  return {parts[0], parts[1], parts[2]};
}

Tensor linalg_svdvals(const Tensor& A, Location at) {
  LocationScope scope(at);
  return std::get<1>(linalg_svd(A, false, at));
}

std::tuple<Tensor, Tensor, Tensor> svd(const Tensor& self, bool some, bool compute_uv,
                                       Location at) {
  LocationScope scope(at);
  auto [u, s, vh] = linalg_svd(self, compute_uv && !some, at);
  if (compute_uv) return {u, s, MatrixAdjoint(vh)};
  // PyTorch gives zeros of the full sizes.
  int64_t rows = self.size(-2), columns = self.size(-1);
  return {new_zeros(self, WithMatrix(BatchOf(self), rows, rows)), s,
          new_zeros(self, WithMatrix(BatchOf(self), columns, columns))};
}

// ---- Records

namespace ops {

constinit const OpDef kCholesky = {
    .schema = "linalg_cholesky(Tensor self, *, bool upper=False) -> Tensor",
    .doc = "The triangular L with L @ L.mH == self, or its adjoint.",
    .call = Box<linalg_cholesky>,
    .infer = InferCholesky,
    .takes_complex = true,
    .vjp = CholeskyVjp,
    .can_fail = true,
    .flops = CubeFlops<1, 3>,
};
constinit const OpDef kLu = {
    .schema = "lu_decompose(Tensor A, str op=\"\") -> (Tensor, Tensor, Tensor)",
    .doc = "L and U of P.T @ A in one matrix, the exchanges of rows, and the order of the rows.",
    .infer = InferLu,
    .takes_complex = true,
    .vjp = LuVjp,
    .can_fail = true,
    .num_outputs = 3,
    .flops = LuFlops,
    .samples = {{"f32[2,3,3]", "{op=\"\"}"}},
};
constinit const OpDef kQr = {
    .schema = "linalg_qr(Tensor A, str mode=\"reduced\") -> (Tensor, Tensor)",
    .doc = "Orthonormal columns Q and the upper triangular R with Q @ R == A.",
    .call = Box<linalg_qr>,
    .infer = InferQr,
    .takes_complex = true,
    .vjp = QrVjp,
    .num_outputs = 2,
    .flops = QrFlops,
    .samples = {{"f32[2,4,3]", "{mode=\"reduced\"}"}, {"f32[3,3]", "{mode=\"complete\"}"}},
};
constinit const OpDef kEigh = {
    .schema = "linalg_eigh(Tensor self, str UPLO=\"L\") -> (Tensor, Tensor)",
    .doc = "Ascending eigenvalues and eigenvectors of a symmetric or Hermitian matrix.",
    .call = Box<linalg_eigh>,
    .infer = InferEigh,
    .takes_complex = true,
    .vjp = EighVjp,
    .can_fail = true,
    .num_outputs = 2,
    .flops = CubeFlops<9>,
};
constinit const OpDef kEig = {
    .schema = "linalg_eig(Tensor self) -> (Tensor, Tensor)",
    .doc = "Eigenvalues and eigenvectors of a square matrix, complex.",
    .call = Box<linalg_eig>,
    .infer = InferEig,
    .takes_complex = true,
    .vjp = EigVjp,
    .can_fail = true,
    .num_outputs = 2,
    .flops = CubeFlops<25>,
};
constinit const OpDef kSvd = {
    .schema = "linalg_svd(Tensor A, bool full_matrices=True) -> (Tensor, Tensor, Tensor)",
    .doc = "U, descending singular values S and Vh with U @ diag(S) @ Vh == A.",
    .call = Box<linalg_svd>,
    .infer = InferSvd,
    .takes_complex = true,
    .vjp = SvdVjp,
    .can_fail = true,
    .num_outputs = 3,
    .flops = SvdFlops,
    .samples = {{"f32[2,3,4]", "{full_matrices=false}"}, {"f32[4,2]", "{full_matrices=false}"}},
};
constinit const OpDef kSolveTriangular = {
    .schema =
        "solve_triangular(Tensor A, Tensor B, bool upper, bool transpose, bool unitriangular) -> "
        "Tensor",
    .doc = "X with A @ X == B, of whose A only one triangle is read.",
    .infer = InferSolveTriangular,
    .takes_complex = true,
    .vjp = SolveTriangularVjp,
    .flops = SolveTriangularFlops,
    .domain = {0.5, 2.0},
    .samples = {{"f32[2,3,3] f32[2,3,2]", "{upper=true, transpose=false, unitriangular=true}"},
                {"f32[3,3] f32[3,2]", "{upper=false, transpose=true, unitriangular=false}"}},
};

}  // namespace ops

namespace {

Any CallLuFactor(std::span<const Any> args) {
  if (!args[1].ToBool()) {
    Throw<NotSupported>(ErrorCode::kNotSupported,
                        "linalg_lu_factor: LU without pivoting is not available");
  }
  return boxing::ToAny(linalg_lu_factor(args[0].ToTensor()));
}

HAMMOCK_FUNCTION(kCholeskyOld, "cholesky(Tensor self, bool upper=False) -> Tensor",
                 "The triangular factor of a positive-definite matrix.", cholesky)
HAMMOCK_FUNCTION(kQrOld, "qr(Tensor self, bool some=True) -> (Tensor, Tensor)",
                 "linalg_qr, reduced or complete.", qr)
HAMMOCK_FUNCTION(kEigvalsh, "linalg_eigvalsh(Tensor self, str UPLO=\"L\") -> Tensor",
                 "Ascending eigenvalues of a symmetric matrix.", linalg_eigvalsh)
HAMMOCK_FUNCTION(kEigvals, "linalg_eigvals(Tensor self) -> Tensor",
                 "Eigenvalues of a square matrix, complex.", linalg_eigvals)
HAMMOCK_FUNCTION(kSymeig,
                 "symeig(Tensor self, bool eigenvectors=False, bool upper=True) -> (Tensor, "
                 "Tensor)",
                 "Eigenvalues, and eigenvectors where asked, of a symmetric matrix.", symeig)
HAMMOCK_FUNCTION(kSvdvals, "linalg_svdvals(Tensor A) -> Tensor", "Descending singular values.",
                 linalg_svdvals)
HAMMOCK_FUNCTION(kSvdOld,
                 "svd(Tensor self, bool some=True, bool compute_uv=True) -> (Tensor, Tensor, "
                 "Tensor)",
                 "U, S and V; reduced where `some`.", svd)
constinit const OpDef kLuFactor = {
    .schema = "linalg_lu_factor(Tensor A, *, bool pivot=True) -> (Tensor, Tensor)",
    .doc = "L and U in one matrix, and the exchanges of rows, counted from 1.",
    .call = CallLuFactor,
};
constinit const OpDef kLuOld = {
    .schema = "lu(Tensor A, bool pivot=True) -> (Tensor, Tensor)",
    .doc = "As linalg_lu_factor.",
    .call = CallLuFactor,
};

}  // namespace

std::span<const OpDef* const> ops::FactorOps() {
  static constexpr const OpDef* kOps[] = {&kCholeskyOld, &kQrOld,  &kEigvalsh, &kEigvals, &kSymeig,
                                          &kSvdvals,     &kSvdOld, &kLuFactor, &kLuOld};
  return kOps;
}

}  // namespace hammock
