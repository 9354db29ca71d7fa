// Solving linear equations, inverses and least squares, made of factors.

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/throw.h"
#include "hammock/ops/create.h"
#include "hammock/ops/elementwise.h"
#include "hammock/ops/index.h"
#include "hammock/ops/linalg.h"
#include "hammock/ops/matmul.h"
#include "hammock/ops/reduce.h"
#include "ir/primitives.h"
#include "ops/kit/compose.h"
#include "ops/kit/index_steps.h"
#include "ops/kit/record.h"
#include "ops/primitives/families.h"
#include "ops/primitives/matrix_steps.h"
#include "ops/primitives/require.h"

namespace hammock {

using namespace ops;  // NOLINT: the writer's kit of this folder

namespace {

extern const OpDef kSolve, kInv;

/// The rows of each matrix in the order that `rows` [..., n] gives.
Tensor Reordered(const Tensor& x, const Tensor& rows) {
  Dims sizes = rows.sizes();
  sizes.push_back(1);
  Tensor index = Broadcasted(Reshaped(rows, sizes), x.sizes());
  return Apply(kGather, Location(), {x, index}, {x.dim() - 2});
}

Tensor SolvedBy(const LuFactors& lu, const Tensor& b) {
  Tensor y = SolveTriangular(lu.factors, Reordered(b, lu.rows), false, false, true);
  return SolveTriangular(lu.factors, y, true, false, false);
}

/// A is square and B has its rows and batch.
std::vector<Tensor> ExpandSolve(const ExpandCall& c) {
  return {SolvedBy(LuOf(c.in[0], "linalg_solve"), c.in[1])};
}

void InferSolve(const InferCall& c) {
  RequireSameDType(c, *c.in[0], *c.in[1]);
  c.out.push_back(*c.in[1]);
}

std::vector<Tensor> ExpandInv(const ExpandCall& c) {
  const Tensor& a = c.in[0];
  Tensor identity = Batched(Identity(a.size(-1), a), BatchOf(a));
  return {SolvedBy(LuOf(a, "linalg_inv"), identity)};
}

void InferInv(const InferCall& c) { c.out.push_back(*c.in[0]); }

void NeedSameDType(const char* op, const Tensor& a, const Tensor& b) {
  if (a.dtype() == b.dtype()) return;
  Throw<TypeError>(ErrorCode::kDTypeMismatch, "{}: dtypes differ: {} and {}; cast one of them", op,
                   a.shape().to_string(), b.shape().to_string());
}

struct Equations {
  Tensor a, b;  // of one batch
};

/// A @ X == B with broadcast batches; B's rows are checked.
Equations Matched(const char* op, const Tensor& a, const Tensor& b) {
  NeedFactorable(op, a);
  NeedSquare(op, a);
  NeedMatrix(op, b);
  NeedSameDType(op, a, b);
  if (b.size(-2) != a.size(-1)) {
    Throw(ErrorCode::kShapeMismatch, "{}: {} @ X == {} needs {} rows, got {}", op,
          a.shape().to_string(), b.shape().to_string(), a.size(-1), b.size(-2));
  }
  Dims batch = BroadcastSizes(op, BatchOf(a), BatchOf(b));
  return {Batched(a, batch), Batched(b, batch)};
}

/// PyTorch's rule: B is a batch of vectors if its sizes are those of A without the last.
bool IsVectors(const Tensor& a, const Tensor& b) {
  Dims sizes = a.sizes();
  sizes.resize(a.dim() - 1);
  return b.dim() == 1 || b.sizes() == sizes;
}

Tensor AsColumns(const Tensor& x) {
  Dims sizes = x.sizes();
  sizes.push_back(1);
  return Reshaped(x, sizes);
}

Tensor WithoutLast(const Tensor& x) {
  Dims sizes = x.sizes();
  sizes.resize(x.dim() - 1);
  return Reshaped(x, sizes);
}

/// Singular values up to this count as zero: [..., 1].
Tensor Threshold(const Tensor& a, const Tensor& s, std::optional<double> atol,
                 std::optional<double> rtol) {
  double longer = static_cast<double>(std::max(a.size(-1), a.size(-2)));
  // A tolerance that is given stands alone.
  double relative = rtol.value_or(atol.value_or(0) > 0 ? 0 : InfoOf(a.dtype()).epsilon * longer);
  Tensor largest = amax(s, Dims{-1}, true);
  return maximum(largest * ConstantLike(relative, s), ConstantLike(atol.value_or(0), s));
}

/// 1 / s where s is above the threshold, else 0; the derivative is finite too.
Tensor SafeReciprocal(const Tensor& s, const Tensor& good) {
  return where(good, reciprocal(where(good, s, ConstantLike(1, s))), ConstantLike(0, s));
}

/// The position, counted from 1, of the first zero on the diagonal of each U; 0 for none.
Tensor FirstZeroPivot(const Tensor& factors) {
  Tensor pivots = DiagonalOf(factors.detach());
  const int64_t count = pivots.size(-1), none = count + 1;
  if (count == 0) return Filled(BatchOf(factors), 0, DType::kI32, factors);
  Tensor position = Counting(count, pivots) + 1;
  Tensor first = amin(where(eq(pivots, 0), position, none), Dims{-1});
  return Casted(where(eq(first, none), 0, first), DType::kI32);
}

Tensor WithoutFailure(const Tensor& info, const char* op) {
  return Required(info, eq(info, 0), op, "a matrix is singular");
}

/// Matrices that can be solved with: the identity where one is singular.
struct Regular {
  Tensor info, matrix;

  Regular(const Tensor& a, bool check_errors, const char* op) {
    NeedFactorable(op, a);
    info = FirstZeroPivot(LuOf(a.detach(), "").factors);
    if (check_errors) info = WithoutFailure(info, op);
    matrix = where(Solvable(2), a, Identity(a.size(-1), a));
  }
  /// With dims of size 1 behind the batch.
  Tensor Solvable(int dims) const {
    Dims sizes = info.sizes();
    for (int i = 0; i < dims; ++i) sizes.push_back(1);
    return eq(Reshaped(info, sizes), 0);
  }
  Tensor OrNaN(const Tensor& x, int dims) const {
    return where(Solvable(dims), x, ConstantLike(std::numeric_limits<double>::quiet_NaN(), x));
  }
};

Tensor Rowwise(const Tensor& x) {  // [..., k] to [..., 1, k]
  Dims sizes = x.sizes();
  sizes.push_back(sizes.back());
  sizes[sizes.size() - 2] = 1;
  return Reshaped(x, sizes);
}

}  // namespace

Tensor linalg_solve(const Tensor& A, const Tensor& B, bool left, Location at) {
  LocationScope scope(at);
  NeedSquare("linalg_solve", A);
  bool vectors = left && IsVectors(A, B);
  Tensor b = vectors ? AsColumns(B) : B;
  if (!left) NeedMatrix("linalg_solve", b);
  auto [a, right] =
      Matched("linalg_solve", left ? A : MatrixTransposed(A), left ? b : MatrixTransposed(b));
  Tensor x = Apply(kSolve, at, {a, right}, {true});
  if (vectors) return WithoutLast(x);
  return left ? x : MatrixTransposed(x);
}

Tensor linalg_inv(const Tensor& A, Location at) {
  LocationScope scope(at);
  NeedFactorable("linalg_inv", A);
  NeedSquare("linalg_inv", A);
  return Apply(kInv, at, {A});
}

std::tuple<Tensor, Tensor, Tensor> linalg_lu_factor_ex(const Tensor& A, bool check_errors,
                                                       Location at) {
  LocationScope scope(at);
  auto [factors, pivots] = linalg_lu_factor(A);
  Tensor info = FirstZeroPivot(factors);
  if (check_errors) info = WithoutFailure(info, "linalg_lu_factor_ex");
  return {factors, pivots, info};
}

std::tuple<Tensor, Tensor> linalg_solve_ex(const Tensor& A, const Tensor& B, bool left,
                                           bool check_errors, Location at) {
  LocationScope scope(at);
  NeedSquare("linalg_solve_ex", A);
  Regular regular(A, check_errors, "linalg_solve_ex");
  Tensor x = linalg_solve(regular.matrix, B, left);
  return {regular.OrNaN(x, left && IsVectors(A, B) ? 1 : 2), regular.info};
}

std::tuple<Tensor, Tensor> linalg_inv_ex(const Tensor& A, bool check_errors, Location at) {
  LocationScope scope(at);
  NeedSquare("linalg_inv_ex", A);
  Regular regular(A, check_errors, "linalg_inv_ex");
  return {regular.OrNaN(linalg_inv(regular.matrix), 2), regular.info};
}

Tensor inverse(const Tensor& self, Location at) { return linalg_inv(self, at); }

Tensor linalg_solve_triangular(const Tensor& self, const Tensor& B, bool upper, bool left,
                               bool unitriangular, Location at) {
  LocationScope scope(at);
  const char* op = "linalg_solve_triangular";
  if (left) {
    auto [a, b] = Matched(op, self, B);
    return SolveTriangular(a, b, upper, false, unitriangular);
  }
  NeedMatrix(op, self);
  NeedMatrix(op, B);
  // X @ A == B is A.T @ X.T == B.T; the node transposes A itself.
  auto [at_rows, bt] = Matched(op, MatrixTransposed(self), MatrixTransposed(B));
  return MatrixTransposed(SolveTriangular(at_rows, bt, !upper, false, unitriangular));
}

std::tuple<Tensor, Tensor> triangular_solve(const Tensor& self, const Tensor& A, bool upper,
                                            bool transpose, bool unitriangular, Location at) {
  LocationScope scope(at);
  auto [a, b] = Matched("triangular_solve", A, self);
  return {SolveTriangular(a, b, upper, transpose, unitriangular), clone(a)};
}

Tensor cholesky_solve(const Tensor& self, const Tensor& factor, bool upper, Location at) {
  LocationScope scope(at);
  auto [a, b] = Matched("cholesky_solve", factor, self);
  // L @ L.H @ X == B, or U.H @ U @ X == B.
  Tensor y = SolveTriangular(upper ? conj(a) : a, b, upper, upper, false);
  return SolveTriangular(upper ? a : conj(a), y, upper, !upper, false);
}

Tensor cholesky_inverse(const Tensor& self, bool upper, Location at) {
  LocationScope scope(at);
  NeedFactorable("cholesky_inverse", self);
  NeedSquare("cholesky_inverse", self);
  return cholesky_solve(Identity(self.size(-1), self), self, upper, at);
}

std::tuple<Tensor, Tensor, Tensor> lu_unpack(const Tensor& LU_data, const Tensor& LU_pivots,
                                             Location at) {
  LocationScope scope(at);
  NeedFactorable("lu_unpack", LU_data);
  int64_t rows = LU_data.size(-2), columns = LU_data.size(-1), count = std::min(rows, columns);
  Dims pivot_sizes = BatchOf(LU_data);
  pivot_sizes.push_back(count);
  if (LU_pivots.dtype() != DType::kI32 || LU_pivots.sizes() != pivot_sizes) {
    Throw(ErrorCode::kShapeMismatch, "lu_unpack: pivots must be i32{}, got {}",
          ToString(pivot_sizes), LU_pivots.shape().to_string());
  }
  int dim = LU_data.dim();
  Tensor l = UnitLowerPart(Sliced(LU_data, dim - 1, 0, count));
  Tensor u = UpperPart(Sliced(LU_data, dim - 2, 0, count));
  // The exchanges one after the other, on the rows of P.T.
  Tensor p = Batched(Identity(rows, LU_data), BatchOf(LU_data));
  Tensor row = CountingAlong(dim - 2, dim, rows, LU_data);
  for (int64_t step = 0; step < count; ++step) {
    Tensor other = Sliced(LU_pivots, dim - 2, step, 1);
    other = Casted(AsColumns(other), DType::kI64) - Constant(1, DType::kI64);
    Tensor here = ConstantLike(step, row);
    Tensor from = where(eq(row, here), other, where(eq(row, other), here, row));
    p = Apply(kGather, Location(), {p, Broadcasted(from, p.sizes())}, {dim - 2});
  }
  return {MatrixTransposed(p), l, u};
}

std::tuple<Tensor, Tensor, Tensor> linalg_lu(const Tensor& A, Location at) {
  LocationScope scope(at);
  NeedFactorable("linalg_lu", A);
  int dim = A.dim();
  int64_t rows = A.size(-2), count = std::min(rows, A.size(-1));
  LuFactors lu = LuOf(A, "");
  Tensor identity = Batched(Identity(rows, A), BatchOf(A));
  return {MatrixTransposed(Reordered(identity, lu.rows)),
          UnitLowerPart(Sliced(lu.factors, dim - 1, 0, count)),
          UpperPart(Sliced(lu.factors, dim - 2, 0, count))};
}

Tensor linalg_pinv(const Tensor& self, std::optional<double> atol, std::optional<double> rtol,
                   bool hermitian, Location at) {
  LocationScope scope(at);
  NeedFactorable("linalg_pinv", self);
  if (hermitian) NeedSquare("linalg_pinv", self);
  int64_t rows = self.size(-2), columns = self.size(-1);
  if (self.numel() == 0) return new_zeros(self, WithMatrix(BatchOf(self), columns, rows));
  if (hermitian) {
    auto [values, vectors] = linalg_eigh(self, "L", at);
    Tensor size = abs(values);
    Tensor inverse = SafeReciprocal(values, gt(size, Threshold(self, size, atol, rtol)));
    return matmul(vectors * Rowwise(inverse), MatrixAdjoint(vectors));
  }
  auto [u, s, vh] = linalg_svd(self, false, at);
  Tensor inverse = SafeReciprocal(s, gt(s, Threshold(self, s, atol, rtol)));
  return matmul(MatrixAdjoint(vh) * Rowwise(inverse), MatrixAdjoint(u));
}

Tensor pinverse(const Tensor& self, double rcond, Location at) {
  return linalg_pinv(self, 0.0, rcond, false, at);
}

Tensor linalg_matrix_rank(const Tensor& self, std::optional<double> atol,
                          std::optional<double> rtol, bool hermitian, Location at) {
  LocationScope scope(at);
  NeedFactorable("linalg_matrix_rank", self);
  if (self.numel() == 0) return Filled(BatchOf(self), int64_t{0}, DType::kI64, self);
  Tensor s = hermitian ? abs(linalg_eigvalsh(self, "L", at)) : linalg_svdvals(self, at);
  return sum(gt(s, Threshold(self, s, atol, rtol)), Dims{-1});
}

std::tuple<Tensor, Tensor, Tensor, Tensor> linalg_lstsq(const Tensor& self, const Tensor& B,
                                                        std::optional<double> rcond,
                                                        const std::optional<std::string>& driver,
                                                        Location at) {
  LocationScope scope(at);
  const char* op = "linalg_lstsq";
  std::string name = driver.value_or("gelsy");
  if (name != "gelsy" && name != "gels" && name != "gelsd" && name != "gelss") {
    Throw(ErrorCode::kValue, "{}: driver must be gels, gelsy, gelsd or gelss, got '{}'", op, name);
  }
  NeedFactorable(op, self);
  NeedSameDType(op, self, B);
  bool vectors = IsVectors(self, B);
  Tensor b = vectors ? AsColumns(B) : B;
  int64_t rows = self.size(-2), columns = self.size(-1);
  if (b.dim() < 2 || b.size(-2) != rows) {
    Throw(ErrorCode::kShapeMismatch, "{}: {} and {} differ in their rows", op,
          self.shape().to_string(), B.shape().to_string());
  }
  Dims batch = BroadcastSizes(op, BatchOf(self), BatchOf(b));
  Tensor a = Batched(self, batch);
  b = Batched(b, batch);
  Tensor none = new_zeros(self, {0});
  Tensor x = matmul(linalg_pinv(a, 0.0, rcond, false, at), b);
  Tensor rank = linalg_matrix_rank(a, 0.0, rcond, false, at);
  bool full_rank =
      name == "gels" || (name != "gelsy" && rows > columns &&
                         ReadCount(op, amin(Reshaped(rank, {rank.numel()}), Dims{0})) == columns);
  Tensor residuals = none;
  if (rows > columns && full_rank) {
    Tensor rest = matmul(a, x) - b;
    Tensor size = abs(rest);
    residuals = sum(size * size, Dims{-2});
  }
  bool gives_values = name == "gelsd" || name == "gelss";
  return {vectors ? WithoutLast(x) : x, residuals,
          name == "gels" ? Filled({0}, int64_t{0}, DType::kI64, self) : rank,
          gives_values ? linalg_svdvals(a, at) : none};
}

// ---- Records

namespace {

Tensor PinvByRcond(const Tensor& self, double rcond, bool hermitian, Location at) {
  return linalg_pinv(self, 0.0, rcond, hermitian, at);
}
Tensor RankByTol(const Tensor& self, double tol, bool hermitian, Location at) {
  return linalg_matrix_rank(self, tol, 0.0, hermitian, at);
}
Any CallLu(std::span<const Any> args) {
  if (!args[1].ToBool()) {
    Throw<NotSupported>(ErrorCode::kNotSupported,
                        "linalg_lu: LU without pivoting is not available");
  }
  return boxing::ToAny(linalg_lu(args[0].ToTensor()));
}
Any CallLuUnpack(std::span<const Any> args) {
  return boxing::ToAny(lu_unpack(args[0].ToTensor(), args[1].ToTensor()));
}

Any CallLuFactorEx(std::span<const Any> args) {
  if (!args[1].ToBool()) {
    Throw<NotSupported>(ErrorCode::kNotSupported,
                        "linalg_lu_factor_ex: LU without pivoting is not available");
  }
  return boxing::ToAny(linalg_lu_factor_ex(args[0].ToTensor(), args[2].ToBool()));
}

constinit const OpDef kSolve = {
    .schema = "linalg_solve(Tensor A, Tensor B, *, bool left=True) -> Tensor",
    .doc = "X with A @ X == B, or X @ A == B.",
    .call = Box<linalg_solve>,
    .infer = InferSolve,
    .expand = ExpandSolve,
    .can_fail = true,
    .samples = {{"f32[2,3,3] f32[2,3,2]", "{left=true}"}},
};
constinit const OpDef kInv = {
    .schema = "linalg_inv(Tensor A) -> Tensor",
    .doc = "The inverse of each matrix.",
    .call = Box<linalg_inv>,
    .infer = InferInv,
    .expand = ExpandInv,
    .can_fail = true,
    .samples = {{"f32[2,3,3]"}},
};
HAMMOCK_FUNCTION(kInverse, "inverse(Tensor self) -> Tensor", "The inverse of each matrix.", inverse)
HAMMOCK_FUNCTION(kTriangular,
                 "linalg_solve_triangular(Tensor self, Tensor B, *, bool upper, bool left=True, "
                 "bool unitriangular=False) -> Tensor",
                 "X with self @ X == B for a triangular matrix.", linalg_solve_triangular)
HAMMOCK_FUNCTION(kTriangularOld,
                 "triangular_solve(Tensor self, Tensor A, bool upper=True, bool transpose=False, "
                 "bool unitriangular=False) -> (Tensor, Tensor)",
                 "X with A @ X == self for a triangular matrix, and A.", triangular_solve)
HAMMOCK_FUNCTION(kCholeskySolve,
                 "cholesky_solve(Tensor self, Tensor input2, bool upper=False) -> Tensor",
                 "X with A @ X == self, from the Cholesky factor of A.", cholesky_solve)
HAMMOCK_FUNCTION(kCholeskyInverse, "cholesky_inverse(Tensor self, bool upper=False) -> Tensor",
                 "The inverse of A, from its Cholesky factor.", cholesky_inverse)
HAMMOCK_FUNCTION(kPinv,
                 "linalg_pinv(Tensor self, *, float? atol=None, float? rtol=None, bool "
                 "hermitian=False) -> Tensor",
                 "The Moore-Penrose inverse.", linalg_pinv)
HAMMOCK_FUNCTION(kPinvRcond,
                 "linalg_pinv.rcond(Tensor self, float rcond, bool hermitian=False) -> Tensor",
                 "The Moore-Penrose inverse.", PinvByRcond)
HAMMOCK_FUNCTION(kPinverse, "pinverse(Tensor self, float rcond=1e-15) -> Tensor",
                 "The Moore-Penrose inverse.", pinverse)
HAMMOCK_FUNCTION(kRank,
                 "linalg_matrix_rank(Tensor self, *, float? atol=None, float? rtol=None, bool "
                 "hermitian=False) -> Tensor",
                 "How many singular values are not zero.", linalg_matrix_rank)
HAMMOCK_FUNCTION(kRankTol,
                 "linalg_matrix_rank.tol(Tensor self, float tol, bool hermitian=False) -> Tensor",
                 "How many singular values are above `tol`.", RankByTol)
HAMMOCK_FUNCTION(kLstsq,
                 "linalg_lstsq(Tensor self, Tensor b, float? rcond=None, *, str? driver=None) -> "
                 "(Tensor, Tensor, Tensor, Tensor)",
                 "Least-squares solution, residuals, rank and singular values.", linalg_lstsq)
HAMMOCK_FUNCTION(kSolveEx,
                 "linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) "
                 "-> (Tensor, Tensor)",
                 "linalg_solve, and where a matrix is singular.", linalg_solve_ex)
HAMMOCK_FUNCTION(kInvEx, "linalg_inv_ex(Tensor A, *, bool check_errors=False) -> (Tensor, Tensor)",
                 "linalg_inv, and where a matrix is singular.", linalg_inv_ex)
constinit const OpDef kLuFactorEx = {
    .schema =
        "linalg_lu_factor_ex(Tensor A, *, bool pivot=True, bool check_errors=False) -> (Tensor, "
        "Tensor, Tensor)",
    .doc = "linalg_lu_factor, and where a matrix is singular.",
    .call = CallLuFactorEx,
};
constinit const OpDef kLuThree = {
    .schema = "linalg_lu(Tensor A, *, bool pivot=True) -> (Tensor, Tensor, Tensor)",
    .doc = "P, L and U with P @ L @ U == A.",
    .call = CallLu,
};
constinit const OpDef kLuUnpack = {
    .schema =
        "lu_unpack(Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool "
        "unpack_pivots=True) -> (Tensor, Tensor, Tensor)",
    .doc = "P, L and U from what linalg_lu_factor gives.",
    .call = CallLuUnpack,
};

}  // namespace

std::span<const OpDef* const> ops::SolveOps() {
  static constexpr const OpDef* kOps[] = {
      &kSolve,           &kInv,     &kInverse,   &kTriangular, &kTriangularOld, &kCholeskySolve,
      &kCholeskyInverse, &kPinv,    &kPinvRcond, &kPinverse,   &kRank,          &kRankTol,
      &kLstsq,           &kLuThree, &kLuUnpack,  &kSolveEx,    &kInvEx,         &kLuFactorEx,
  };
  return kOps;
}

}  // namespace hammock
