#pragma once
/// Products and solutions with more dims than matrices have, and factors applied. Matrices are in
/// linalg.h.

#include <optional>
#include <string>
#include <vector>

#include "hammock/export.h"
#include "hammock/ops/view.h"
#include "hammock/tensor.h"

namespace hammock {

/// The sum of conj(x) * y along `dim`.
HAMMOCK_API Tensor linalg_vecdot(const Tensor& x, const Tensor& y, int64_t dim = -1, HAMMOCK_AT);
/// The product of matrices in the order that costs least; the first and the last may be vectors.
HAMMOCK_API Tensor linalg_multi_dot(const std::vector<Tensor>& tensors, HAMMOCK_AT);
/// The inverse of A as a map from its last dims to its first `ind` ones.
HAMMOCK_API Tensor linalg_tensorinv(const Tensor& A, int64_t ind = 2, HAMMOCK_AT);
/// X with tensordot(A, X, X.dim()) == B; `dims` of A are moved to its end first.
HAMMOCK_API Tensor linalg_tensorsolve(const Tensor& A, const Tensor& B,
                                      const std::optional<Dims>& dims = std::nullopt, HAMMOCK_AT);
/// Powers 0 to N - 1 of each element, along a new last dim; N is the last size if absent, and at
/// most 32768.
HAMMOCK_API Tensor linalg_vander(const Tensor& x, std::optional<int64_t> N = std::nullopt,
                                 HAMMOCK_AT);
/// Of a vector; powers decrease unless `increasing`.
HAMMOCK_API Tensor vander(const Tensor& x, std::optional<int64_t> N = std::nullopt,
                          bool increasing = false, HAMMOCK_AT);
/// X with A X == B, X A == B (not `left`), or A^H in A's place, where A has these factors.
HAMMOCK_API Tensor linalg_lu_solve(const Tensor& LU, const Tensor& pivots, const Tensor& B,
                                   bool left = true, bool adjoint = false, HAMMOCK_AT);
HAMMOCK_API Tensor lu_solve(const Tensor& self, const Tensor& LU_data, const Tensor& LU_pivots,
                            HAMMOCK_AT);
/// The first columns of the product of Householder reflections, as geqrf of LAPACK gives them.
HAMMOCK_API Tensor linalg_householder_product(const Tensor& input, const Tensor& tau, HAMMOCK_AT);
HAMMOCK_API Tensor orgqr(const Tensor& self, const Tensor& tau, HAMMOCK_AT);

/// How much errors grow in solving with A: norm(A) * norm(inverse of A), by default of the largest
/// and the smallest singular value. `p` is a number or "fro" or "nuc", as in linalg_matrix_norm.
HAMMOCK_API Tensor linalg_cond(const Tensor& A, const std::optional<Scalar>& p = std::nullopt,
                               HAMMOCK_AT);
HAMMOCK_API Tensor linalg_cond(const Tensor& A, const std::string& p, HAMMOCK_AT);

}  // namespace hammock
