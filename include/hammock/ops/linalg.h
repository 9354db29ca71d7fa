#pragma once
/// Linear algebra on matrices in the last two dims; the dims before them are a batch. f32 and f64.
///
/// Whether a matrix is singular is known only when it is used: reading the result then raises.

#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "hammock/export.h"
#include "hammock/ops/view.h"
#include "hammock/tensor.h"

namespace hammock {

// ---- Factors

/// L with L @ L.mT == self, or its transpose; only that triangle of `self` is read.
HAMMOCK_API Tensor cholesky(const Tensor& self, bool upper = false, HAMMOCK_AT);
HAMMOCK_API Tensor linalg_cholesky(const Tensor& self, bool upper = false, HAMMOCK_AT);
/// (L and U in one matrix, pivots counted from 1 as in LAPACK).
HAMMOCK_API std::tuple<Tensor, Tensor> linalg_lu_factor(const Tensor& A, HAMMOCK_AT);
/// (P, L, U) with P @ L @ U == A.
HAMMOCK_API std::tuple<Tensor, Tensor, Tensor> linalg_lu(const Tensor& A, HAMMOCK_AT);
HAMMOCK_API std::tuple<Tensor, Tensor, Tensor> lu_unpack(const Tensor& LU_data,
                                                         const Tensor& LU_pivots, HAMMOCK_AT);
/// (Q, R); `mode` is reduced, complete or r (then Q is empty).
HAMMOCK_API std::tuple<Tensor, Tensor> linalg_qr(const Tensor& A,
                                                 const std::string& mode = "reduced", HAMMOCK_AT);
HAMMOCK_API std::tuple<Tensor, Tensor> qr(const Tensor& self, bool some = true, HAMMOCK_AT);
/// (eigenvalues in ascending order, eigenvectors as columns) of the symmetric matrix of which
/// `UPLO` names the triangle that is read.
HAMMOCK_API std::tuple<Tensor, Tensor> linalg_eigh(const Tensor& self,
                                                   const std::string& UPLO = "L", HAMMOCK_AT);
HAMMOCK_API Tensor linalg_eigvalsh(const Tensor& self, const std::string& UPLO = "L", HAMMOCK_AT);
/// (eigenvalues, eigenvectors as columns) of any square matrix, both complex, in no order.
HAMMOCK_API std::tuple<Tensor, Tensor> linalg_eig(const Tensor& self, HAMMOCK_AT);
HAMMOCK_API Tensor linalg_eigvals(const Tensor& self, HAMMOCK_AT);
HAMMOCK_API std::tuple<Tensor, Tensor> symeig(const Tensor& self, bool eigenvectors = false,
                                              bool upper = true, HAMMOCK_AT);
/// (U, S, Vh) with U @ diag(S) @ Vh == A and S descending.
HAMMOCK_API std::tuple<Tensor, Tensor, Tensor> linalg_svd(const Tensor& A,
                                                          bool full_matrices = true, HAMMOCK_AT);
HAMMOCK_API Tensor linalg_svdvals(const Tensor& A, HAMMOCK_AT);
/// (U, S, V), as PyTorch's older function has it.
HAMMOCK_API std::tuple<Tensor, Tensor, Tensor> svd(const Tensor& self, bool some = true,
                                                   bool compute_uv = true, HAMMOCK_AT);

// ---- Solving

/// X with A @ X == B, or X @ A == B where not `left`. B may be a vector or a batch of them.
HAMMOCK_API Tensor linalg_solve(const Tensor& A, const Tensor& B, bool left = true, HAMMOCK_AT);
HAMMOCK_API Tensor linalg_solve_triangular(const Tensor& self, const Tensor& B, bool upper,
                                           bool left = true, bool unitriangular = false,
                                           HAMMOCK_AT);
/// (X with A @ X == self, A).
HAMMOCK_API std::tuple<Tensor, Tensor> triangular_solve(const Tensor& self, const Tensor& A,
                                                        bool upper = true, bool transpose = false,
                                                        bool unitriangular = false, HAMMOCK_AT);
/// X with A @ X == self, where `factor` is the Cholesky factor of A.
HAMMOCK_API Tensor cholesky_solve(const Tensor& self, const Tensor& factor, bool upper = false,
                                  HAMMOCK_AT);
HAMMOCK_API Tensor cholesky_inverse(const Tensor& self, bool upper = false, HAMMOCK_AT);
HAMMOCK_API Tensor linalg_inv(const Tensor& A, HAMMOCK_AT);
HAMMOCK_API Tensor inverse(const Tensor& self, HAMMOCK_AT);
/// The Moore-Penrose inverse; singular values up to max(atol, rtol * largest) count as zero.
HAMMOCK_API Tensor linalg_pinv(const Tensor& self, std::optional<double> atol = std::nullopt,
                               std::optional<double> rtol = std::nullopt, bool hermitian = false,
                               HAMMOCK_AT);
HAMMOCK_API Tensor pinverse(const Tensor& self, double rcond = 1e-15, HAMMOCK_AT);
/// (solution, residuals, rank, singular values) of the least-squares problem A @ X = B. `driver` is
/// gelsy (the default), gels, gelsd or gelss; only the last two give singular values.
HAMMOCK_API std::tuple<Tensor, Tensor, Tensor, Tensor> linalg_lstsq(
    const Tensor& self, const Tensor& B, std::optional<double> rcond = std::nullopt,
    const std::optional<std::string>& driver = std::nullopt, HAMMOCK_AT);

// ---- With `info` instead of an error, or before it, with `check_errors`: i32, 0 or the position,
// counted from 1, of the first pivot that is 0. Results of such a matrix are NaN, LU is as it is.

HAMMOCK_API std::tuple<Tensor, Tensor, Tensor> linalg_lu_factor_ex(const Tensor& A,
                                                                   bool check_errors = false,
                                                                   HAMMOCK_AT);
HAMMOCK_API std::tuple<Tensor, Tensor> linalg_solve_ex(const Tensor& A, const Tensor& B,
                                                       bool left = true, bool check_errors = false,
                                                       HAMMOCK_AT);
HAMMOCK_API std::tuple<Tensor, Tensor> linalg_inv_ex(const Tensor& A, bool check_errors = false,
                                                     HAMMOCK_AT);

// ---- Numbers of a matrix

HAMMOCK_API Tensor linalg_det(const Tensor& A, HAMMOCK_AT);
HAMMOCK_API Tensor det(const Tensor& self, HAMMOCK_AT);
/// (sign, logarithm of the absolute value) of the determinant.
HAMMOCK_API std::tuple<Tensor, Tensor> linalg_slogdet(const Tensor& A, HAMMOCK_AT);
HAMMOCK_API std::tuple<Tensor, Tensor> slogdet(const Tensor& self, HAMMOCK_AT);
/// NaN where the determinant is negative.
HAMMOCK_API Tensor logdet(const Tensor& self, HAMMOCK_AT);
HAMMOCK_API Tensor linalg_matrix_rank(const Tensor& self, std::optional<double> atol = std::nullopt,
                                      std::optional<double> rtol = std::nullopt,
                                      bool hermitian = false, HAMMOCK_AT);
HAMMOCK_API Tensor linalg_vector_norm(const Tensor& self, const Scalar& ord = 2,
                                      const Dims& dim = {}, bool keepdim = false,
                                      std::optional<DType> dtype = std::nullopt, HAMMOCK_AT);
/// `ord` is 1, -1, 2, -2, an infinity, "fro" or "nuc".
HAMMOCK_API Tensor linalg_matrix_norm(const Tensor& self, const Scalar& ord,
                                      const Dims& dim = {-2, -1}, bool keepdim = false,
                                      std::optional<DType> dtype = std::nullopt, HAMMOCK_AT);
HAMMOCK_API Tensor linalg_matrix_norm(const Tensor& self, const std::string& ord = "fro",
                                      const Dims& dim = {-2, -1}, bool keepdim = false,
                                      std::optional<DType> dtype = std::nullopt, HAMMOCK_AT);
HAMMOCK_API Tensor frobenius_norm(const Tensor& self, const Dims& dim = {}, bool keepdim = false,
                                  HAMMOCK_AT);
/// The sum of the singular values of the matrices in the two dims `dim`.
HAMMOCK_API Tensor nuclear_norm(const Tensor& self, const Dims& dim = {-2, -1},
                                bool keepdim = false, HAMMOCK_AT);

// ---- Functions of a matrix

HAMMOCK_API Tensor matrix_power(const Tensor& self, int64_t n, HAMMOCK_AT);
HAMMOCK_API Tensor matrix_exp(const Tensor& self, HAMMOCK_AT);

}  // namespace hammock
