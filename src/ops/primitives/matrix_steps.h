#pragma once
/// Parts that the files of linear algebra share. The caller has opened a LocationScope.

#include <vector>

#include "hammock/ir/op_def.h"
#include "hammock/tensor.h"

namespace hammock::ops {

/// Refuses fewer than two dims.
void NeedMatrix(const char* op, const Tensor& x);
/// As above, and what is not square.
void NeedSquare(const char* op, const Tensor& x);
/// As NeedMatrix; the dtype must be f32, f64, c64 or c128.
void NeedFactorable(const char* op, const Tensor& x);

/// The sizes before the last two.
Dims BatchOf(const Tensor& x);
Dims WithMatrix(const Dims& batch, int64_t rows, int64_t columns);
/// The last two dims exchanged.
Tensor MatrixTransposed(const Tensor& x);
/// As MatrixTransposed, and conjugated.
Tensor MatrixAdjoint(const Tensor& x);
/// x, repeated to have these batch dims.
Tensor Batched(const Tensor& x, const Dims& batch);
/// The diagonals: [..., min(rows, columns)].
Tensor DiagonalOf(const Tensor& x);
/// One matrix with ones on its diagonal, in the dtype and on the device of `like`.
Tensor Identity(int64_t n, const Tensor& like);
/// Keeps one triangle, `offset` diagonals above the main one included or not.
Tensor UpperPart(const Tensor& x);
/// Below the main diagonal, with ones on it: the L of a matrix that holds L and U.
Tensor UnitLowerPart(const Tensor& x);

struct LuFactors {
  Tensor factors, pivots, rows;
};
/// `op` is who refuses singular matrices; empty: nobody.
LuFactors LuOf(const Tensor& x, const char* op);
/// +1 or -1 for each matrix, of the dtype of `factors`.
Tensor Parity(const LuFactors& lu);
Tensor SolveTriangular(const Tensor& a, const Tensor& b, bool upper, bool transpose, bool unit);

// ---- factor_gradients.cpp
std::vector<Tensor> SolveTriangularVjp(const VjpCall& c);
std::vector<Tensor> CholeskyVjp(const VjpCall& c);
std::vector<Tensor> LuVjp(const VjpCall& c);
std::vector<Tensor> QrVjp(const VjpCall& c);
std::vector<Tensor> EighVjp(const VjpCall& c);
std::vector<Tensor> EigVjp(const VjpCall& c);
std::vector<Tensor> SvdVjp(const VjpCall& c);

}  // namespace hammock::ops
