// Products and solutions with more dims than matrices have, and factors applied.

#include "hammock/ops/tensor_algebra.h"

#include "base/throw.h"
#include "hammock/ops/create.h"
#include "hammock/ops/elementwise.h"
#include "hammock/ops/linalg.h"
#include "hammock/ops/matmul.h"
#include "hammock/ops/reduce.h"
#include "hammock/ops/shape.h"
#include "ops/primitives/elementwise_kit.h"
#include "ops/primitives/families.h"

namespace hammock {

using namespace ops;  // NOLINT: the op writer's kit

namespace {

int64_t CountBetween(const Tensor& x, int first, int last) {
  int64_t count = 1;
  for (int dim = first; dim < last; ++dim) count *= x.size(dim);
  return count;
}

/// The sizes of dims [first, last).
Dims SizesBetween(const Tensor& x, int first, int last) {
  Dims sizes;
  for (int dim = first; dim < last; ++dim) sizes.push_back(x.size(dim));
  return sizes;
}

/// 1, x, x ** 2 and so on: `count` of them.
std::vector<Tensor> Powers(const char* op, const Tensor& x, int64_t count) {
  constexpr int64_t kMost = 32768;  // each is an op of the graph
  if (count > kMost) Throw(ErrorCode::kValue, "{}: N must be at most {}, is {}", op, kMost, count);
  std::vector<Tensor> powers = {ones_like(x)};
  for (int64_t i = 1; i < count; ++i) powers.push_back(mul(powers.back(), x));
  return powers;
}

/// conj of the transposed matrices.
Tensor Adjoint(const Tensor& x) { return conj(transpose(x, -2, -1)); }

/// `x` with the batch dims of `like`, which are those before its last two.
Tensor WithBatchOf(const Tensor& x, const Tensor& like) {
  Dims sizes = like.sizes();
  sizes[like.dim() - 2] = x.size(-2);
  sizes[like.dim() - 1] = x.size(-1);
  return expand(x, sizes);
}

}  // namespace

Tensor linalg_vecdot(const Tensor& x, const Tensor& y, int64_t dim, Location at) {
  LocationScope scope(at);
  if (!IsFloat(x.dtype()) && !x.is_complex()) NeedFloat("linalg_vecdot", x);
  return sum(mul(conj(x), y), {dim});
}

Tensor linalg_multi_dot(const std::vector<Tensor>& tensors, Location at) {
  LocationScope scope(at);
  if (tensors.size() < 2) {
    Throw(ErrorCode::kValue, "linalg_multi_dot: needs at least 2 tensors, got {}", tensors.size());
  }
  std::vector<Tensor> matrices = tensors;
  bool row = matrices.front().dim() == 1, column = matrices.back().dim() == 1;
  if (row) matrices.front() = unsqueeze(matrices.front(), 0);
  if (column) matrices.back() = unsqueeze(matrices.back(), 1);
  for (const Tensor& matrix : matrices) {
    if (matrix.dim() == 2) continue;
    Throw(ErrorCode::kShapeMismatch,
          "linalg_multi_dot: tensors are matrices, the first and the last perhaps vectors, got {}",
          matrix.shape().to_string());
  }
  Tensor result = chain_matmul(matrices);
  if (column) result = squeeze(result, 1);
  return row ? squeeze(result, 0) : result;
}

Tensor linalg_tensorinv(const Tensor& A, int64_t ind, Location at) {
  LocationScope scope(at);
  if (ind <= 0 || ind > A.dim()) {
    Throw(ErrorCode::kValue, "linalg_tensorinv: ind {} must be in 1 to {} for {}", ind, A.dim(),
          A.shape().to_string());
  }
  int split = static_cast<int>(ind);
  int64_t rows = CountBetween(A, 0, split), columns = CountBetween(A, split, A.dim());
  if (rows != columns) {
    Throw(ErrorCode::kShapeMismatch,
          "linalg_tensorinv: the first {} dims of {} have {} elements, the others {}", ind,
          A.shape().to_string(), rows, columns);
  }
  Dims sizes = SizesBetween(A, split, A.dim());
  for (int dim = 0; dim < split; ++dim) sizes.push_back(A.size(dim));
  return reshape(linalg_inv(reshape(A, {rows, columns})), sizes);
}

Tensor linalg_tensorsolve(const Tensor& A, const Tensor& B, const std::optional<Dims>& dims,
                          Location at) {
  LocationScope scope(at);
  Tensor moved = A;
  if (dims) {
    Dims ends;
    for (int i = 0; i < dims->size(); ++i) ends.push_back(A.dim() - dims->size() + i);
    moved = movedim(A, *dims, ends);
  }
  int64_t rows = B.numel();
  Dims sizes = SizesBetween(moved, std::min(B.dim(), moved.dim()), moved.dim());
  int64_t columns = 1;
  for (int64_t size : sizes) columns *= size;
  if (rows != columns || moved.numel() != rows * columns) {
    Throw(ErrorCode::kShapeMismatch,
          "linalg_tensorsolve: {} is no square map from {} elements to those of {}",
          A.shape().to_string(), columns, B.shape().to_string());
  }
  return reshape(linalg_solve(reshape(moved, {rows, columns}), flatten(B)), sizes);
}

Tensor linalg_vander(const Tensor& x, std::optional<int64_t> N, Location at) {
  LocationScope scope(at);
  NeedRank("linalg_vander", x, 1);
  int64_t count = N.value_or(x.size(-1));
  if (count <= 1) Throw(ErrorCode::kValue, "linalg_vander: N {} must be greater than 1", count);
  return stack(Powers("linalg_vander", x, count), -1);
}

Tensor vander(const Tensor& x, std::optional<int64_t> N, bool increasing, Location at) {
  LocationScope scope(at);
  if (x.dim() != 1) {
    Throw(ErrorCode::kShapeMismatch, "vander: needs a vector, got {}", x.shape().to_string());
  }
  int64_t count = N.value_or(x.size(0));
  if (count < 0) Throw(ErrorCode::kValue, "vander: N {} must not be negative", count);
  DType type = x.dtype() == DType::kBool ? DType::kI64 : x.dtype();
  if (IsIntegral(x.dtype())) type = DType::kI64;
  Tensor base = to(x, type);
  if (count == 0) return zeros({x.size(0), 0}, type, x.device());
  Tensor result = stack(Powers("vander", base, count), 1);
  return increasing ? result : flip(result, {1});
}

Tensor linalg_lu_solve(const Tensor& LU, const Tensor& pivots, const Tensor& B, bool left,
                       bool adjoint, Location at) {
  LocationScope scope(at);
  NeedRank("linalg_lu_solve", LU, 2);
  NeedRank("linalg_lu_solve", B, 2);
  if (LU.size(-2) != LU.size(-1) || B.size(left ? -2 : -1) != LU.size(-1)) {
    Throw(ErrorCode::kShapeMismatch, "linalg_lu_solve: factors {} of a square matrix and B {}",
          LU.shape().to_string(), B.shape().to_string());
  }
  if (!left) {  // X A == B where A^H X^H == B^H
    return Adjoint(linalg_lu_solve(LU, pivots, Adjoint(B), true, !adjoint));
  }
  auto [P, L, U] = lu_unpack(LU, pivots);
  Tensor batch = matmul(P, B);  // for its batch dims alone, where both broadcast
  P = WithBatchOf(P, batch), L = WithBatchOf(L, batch), U = WithBatchOf(U, batch);
  Tensor b = WithBatchOf(B, batch);
  if (!adjoint) {
    Tensor inner = linalg_solve_triangular(L, matmul(transpose(P, -2, -1), b), false, true, true);
    return linalg_solve_triangular(U, inner, true);
  }
  Tensor inner = linalg_solve_triangular(Adjoint(U), b, false);
  return matmul(P, linalg_solve_triangular(Adjoint(L), inner, true, true, true));
}

Tensor lu_solve(const Tensor& self, const Tensor& LU_data, const Tensor& LU_pivots, Location at) {
  return linalg_lu_solve(LU_data, LU_pivots, self, true, false, at);
}

Tensor linalg_householder_product(const Tensor& input, const Tensor& tau, Location at) {
  LocationScope scope(at);
  NeedRank("linalg_householder_product", input, 2);
  const int64_t rows = input.size(-2), columns = input.size(-1);
  const int64_t count = tau.dim() == 0 ? 0 : tau.size(-1);
  if (rows < columns || count > columns || tau.dim() != input.dim() - 1) {
    Throw(ErrorCode::kShapeMismatch,
          "linalg_householder_product: needs (.., m, n) and (.., k) with m >= n >= k, got {} and "
          "{}",
          input.shape().to_string(), tau.shape().to_string());
  }
  Tensor vectors = tril(input, -1);
  Tensor result = expand(eye(rows, columns, input.dtype(), input.device()), input.sizes());
  for (int64_t i = count - 1; i >= 0; --i) {
    Tensor unit = reshape(narrow(eye(rows, input.dtype(), input.device()), 1, i, 1), {rows, 1});
    Tensor v = add(narrow(vectors, -1, i, 1), unit);
    Tensor factor = unsqueeze(narrow(tau, -1, i, 1), -1);
    result = sub(result, mul(factor, matmul(v, matmul(Adjoint(v), result))));
  }
  return result;
}

Tensor orgqr(const Tensor& self, const Tensor& tau, Location at) {
  return linalg_householder_product(self, tau, at);
}

namespace {

void NeedSquare(const char* op, const Tensor& A) {
  NeedRank(op, A, 2);
  if (A.size(-2) == A.size(-1)) return;
  Throw(ErrorCode::kShapeMismatch, "{}: this norm needs square matrices, got {}", op,
        A.shape().to_string());
}

}  // namespace

Tensor linalg_cond(const Tensor& A, const std::optional<Scalar>& p, Location at) {
  LocationScope scope(at);
  NeedRank("linalg_cond", A, 2);
  double order = p ? p->ToDouble() : 2;
  if (order == 2 || order == -2) {
    Tensor s = linalg_svdvals(A);
    Tensor largest = select(s, -1, 0), smallest = select(s, -1, s.size(-1) - 1);
    return order == 2 ? div(largest, smallest) : div(smallest, largest);
  }
  NeedSquare("linalg_cond", A);
  return mul(linalg_matrix_norm(A, *p), linalg_matrix_norm(linalg_inv(A), *p));
}

Tensor linalg_cond(const Tensor& A, const std::string& p, Location at) {
  LocationScope scope(at);
  NeedSquare("linalg_cond", A);
  return mul(linalg_matrix_norm(A, p), linalg_matrix_norm(linalg_inv(A), p));
}

// ---- Records

namespace {

using CondFn = Tensor (*)(const Tensor&, const std::optional<Scalar>&, Location);
using NamedCondFn = Tensor (*)(const Tensor&, const std::string&, Location);

constinit const OpDef kFunctions[] = {
    {.schema = "linalg_vecdot(Tensor x, Tensor y, *, int dim=-1) -> Tensor",
     .doc = "The sum of conj(x) * y along a dim.",
     .call = Box<linalg_vecdot>},
    {.schema = "linalg_multi_dot(Tensor[] tensors) -> Tensor",
     .doc = "The product of matrices in the cheapest order.",
     .call = Box<linalg_multi_dot>},
    {.schema = "linalg_tensorinv(Tensor self, int ind=2) -> Tensor",
     .doc = "The inverse of a map between tensors.",
     .call = Box<linalg_tensorinv>},
    {.schema = "linalg_tensorsolve(Tensor self, Tensor other, int[]? dims=None) -> Tensor",
     .doc = "X with tensordot(self, X) equal to `other`.",
     .call = Box<linalg_tensorsolve>},
    {.schema = "linalg_vander(Tensor x, *, int? N=None) -> Tensor",
     .doc = "The first N powers of each element, at most 32768, along a new last dim.",
     .call = Box<linalg_vander>},
    {.schema = "vander(Tensor x, int? N=None, bool increasing=False) -> Tensor",
     .doc = "The first N powers of each element of a vector, at most 32768.",
     .call = Box<vander>},
    {.schema = "linalg_lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool "
               "adjoint=False) -> Tensor",
     .doc = "A linear system, given the factors of its matrix.",
     .call = Box<linalg_lu_solve>},
    {.schema = "lu_solve(Tensor self, Tensor LU_data, Tensor LU_pivots) -> Tensor",
     .doc = "A linear system, given the factors of its matrix.",
     .call = Box<lu_solve>},
    {.schema = "linalg_cond(Tensor self, Scalar? p=None) -> Tensor",
     .doc = "The condition number of matrices.",
     .call = Box<static_cast<CondFn>(linalg_cond)>},
    {.schema = "linalg_cond.p_str(Tensor self, str p) -> Tensor",
     .doc = "The condition number of matrices, by a named norm.",
     .call = Box<static_cast<NamedCondFn>(linalg_cond)>},
    {.schema = "linalg_householder_product(Tensor input, Tensor tau) -> Tensor",
     .doc = "The first columns of a product of Householder reflections.",
     .call = Box<linalg_householder_product>},
    {.schema = "orgqr(Tensor self, Tensor tau) -> Tensor",
     .doc = "Same as linalg_householder_product.",
     .call = Box<orgqr>},
};

}  // namespace

std::span<const OpDef* const> ops::TensorAlgebraOps() {
  static const auto list = Listed({}, kFunctions);
  return list;
}

}  // namespace hammock
