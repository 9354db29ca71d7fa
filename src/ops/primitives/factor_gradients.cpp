// Gradients of the matrix factors. A factor that reads one triangle of a symmetric matrix gets a
// symmetric gradient, as in PyTorch.

#include "base/throw.h"
#include "hammock/ops/elementwise.h"
#include "hammock/ops/linalg.h"
#include "hammock/ops/matmul.h"
#include "ir/primitives.h"
#include "ops/kit/compose.h"
#include "ops/kit/index_steps.h"
#include "ops/primitives/matrix_steps.h"

namespace hammock::ops {
namespace {

using Tensors = std::vector<Tensor>;

Tensor T(const Tensor& x) { return MatrixTransposed(x); }
Tensor H(const Tensor& x) { return MatrixAdjoint(x); }
Tensor StrictLower(const Tensor& x) { return x - UpperPart(x); }
Tensor Lower(const Tensor& x) { return T(UpperPart(T(x))); }
Tensor StrictUpper(const Tensor& x) { return x - Lower(x); }

/// x @ r^-H for an upper triangular r.
Tensor TimesInverseAdjoint(const Tensor& x, const Tensor& r) {
  return H(SolveTriangular(r, H(x), true, false, false));
}

/// values[j] - values[i] at (i, j), and 1 on the diagonal.
Tensor Gaps(const Tensor& values) {
  Dims row = values.sizes(), column = values.sizes();
  column.push_back(1);
  row.push_back(row.back());
  row[row.size() - 2] = 1;
  return Reshaped(values, row) - Reshaped(values, column) + Identity(values.size(-1), values);
}

/// A matrix with this diagonal.
Tensor Diagonal(const Tensor& values) {
  Dims row = values.sizes();
  row.push_back(row.back());
  row[row.size() - 2] = 1;
  return Reshaped(values, row) * Identity(values.size(-1), values);
}

Tensor Rowwise(const Tensor& values) {
  Dims row = values.sizes();
  row.push_back(row.back());
  row[row.size() - 2] = 1;
  return Reshaped(values, row);
}

}  // namespace

Tensors SolveTriangularVjp(const VjpCall& c) {
  bool upper = c.attrs[0].boolean(), transpose = c.attrs[1].boolean(), unit = c.attrs[2].boolean();
  Tensor to_b = SolveTriangular(conj(c.in[0]), c.grad(), upper, !transpose, unit);
  Tensor x = conj(c.out[0]);
  Tensor to_a = transpose ? -matmul(x, T(to_b)) : -matmul(to_b, T(x));
  if (unit) return {upper ? StrictUpper(to_a) : StrictLower(to_a), to_b};
  return {upper ? UpperPart(to_a) : Lower(to_a), to_b};
}

Tensors CholeskyVjp(const VjpCall& c) {
  bool upper = c.attrs[0].boolean();
  Tensor l = upper ? H(c.out[0]) : c.out[0], g = upper ? H(c.grad()) : c.grad();
  Tensor m = matmul(H(l), g);
  Tensor half = (Lower(m) + StrictLower(m)) * 0.5;  // the diagonal counts once
  Tensor left = SolveTriangular(conj(l), half, false, true, false);
  Tensor both = SolveTriangular(conj(l), H(left), false, true, false);
  return {(both + H(both)) * 0.5};
}

Tensors LuVjp(const VjpCall& c) {
  const Tensor &lu = c.out[0], &rows = c.out[2], &g = c.grads[0];
  if (lu.size(-1) != lu.size(-2)) {
    Throw<NotSupported>(ErrorCode::kNotSupported,
                        "lu_decompose: the gradient needs square matrices, got {}",
                        lu.shape().to_string());
  }
  Tensor m = StrictLower(matmul(H(UnitLowerPart(lu)), StrictLower(g))) +
             UpperPart(matmul(UpperPart(g), H(UpperPart(lu))));
  Tensor left = SolveTriangular(conj(lu), m, false, true, true);
  Tensor permuted = H(SolveTriangular(lu, H(left), true, false, false));
  Dims column = rows.sizes();
  column.push_back(1);
  Tensor index = Broadcasted(Reshaped(rows, column), lu.sizes());
  Tensor blank = Filled(lu.sizes(), 0.0, lu.dtype(), lu);
  return {Scattered(blank, index, permuted, lu.dim() - 2, "none")};
}

Tensors QrVjp(const VjpCall& c) {
  const Tensor &q = c.out[0], &r = c.out[1];
  if (r.size(-1) != r.size(-2)) {
    Throw<NotSupported>(ErrorCode::kNotSupported,
                        "linalg_qr: the gradient needs a square R: mode reduced and no more "
                        "columns than rows, got R of {}",
                        r.shape().to_string());
  }
  Tensor m = matmul(r, H(c.grads[1])) - matmul(H(c.grads[0]), q);
  Tensor symmetric = Lower(m) + H(StrictLower(m));
  if (IsComplex(m.dtype())) symmetric = (symmetric + H(symmetric)) * 0.5;  // a real diagonal
  return {TimesInverseAdjoint(c.grads[0] + matmul(q, symmetric), r)};
}

Tensors EighVjp(const VjpCall& c) {
  const Tensor &values = c.out[0], &vectors = c.out[1];
  Tensor rotated = matmul(H(vectors), c.grads[1]);
  Tensor off = StrictLower(rotated) + StrictUpper(rotated);
  Tensor inner = off / Gaps(values) + Diagonal(c.grads[0]);
  return {matmul(matmul(vectors, inner), H(vectors))};
}

/// Eigenvectors have length 1, and any phase: a result must not depend on that.
Tensors EigVjp(const VjpCall& c) {
  const Tensor &values = c.out[0], &vectors = c.out[1];
  Tensor adjoint = H(vectors);
  Tensor rotated = matmul(adjoint, c.grads[1]);
  Tensor along = Casted(real(DiagonalOf(rotated)), values.dtype());
  Tensor turned = (rotated - matmul(adjoint, vectors) * Rowwise(along)) / Gaps(conj(values));
  Tensor off = StrictLower(turned) + StrictUpper(turned);
  Tensor result = linalg_solve(adjoint, matmul(off + Diagonal(c.grads[0]), adjoint));
  return {IsComplex(c.in[0].dtype()) ? result : real(result)};
}

Tensors SvdVjp(const VjpCall& c) {
  const Tensor& s = c.out[1];
  int64_t rows = c.in[0].size(-2), columns = c.in[0].size(-1), k = s.size(-1);
  int rank = c.in[0].dim();
  // Vectors beyond the singular values have no gradient.
  auto columns_of = [&](const Tensor& x) { return Sliced(x, rank - 1, 0, k); };
  auto rows_of = [&](const Tensor& x) { return Sliced(x, rank - 2, 0, k); };
  Tensor u = columns_of(c.out[0]), gu = columns_of(c.grads[0]);
  Tensor v = H(rows_of(c.out[2])), gv = H(rows_of(c.grads[2]));
  Tensor squares = s * s;
  Tensor gaps = Gaps(squares);
  auto skew = [&](const Tensor& x, const Tensor& g) {
    Tensor m = matmul(H(x), g);
    return (m - H(m)) / gaps;
  };
  Tensor turned = skew(u, gu);
  Tensor inner = turned * Rowwise(s) + T(T(skew(v, gv)) * Rowwise(s)) + Diagonal(c.grads[1]);
  if (IsComplex(u.dtype())) {  // both sides may turn together
    inner = inner + turned * Identity(k, s) / (Rowwise(s) * 2.0);
  }
  Tensor result = matmul(matmul(u, inner), H(v));
  if (rows > k) {
    Tensor scaled = gu / Rowwise(s);
    result = result + matmul(scaled - matmul(u, matmul(H(u), scaled)), H(v));
  }
  if (columns > k) {
    Tensor scaled = gv / Rowwise(s);
    result = result + matmul(u, H(scaled - matmul(v, matmul(H(v), scaled))));
  }
  return {result};
}

}  // namespace hammock::ops
