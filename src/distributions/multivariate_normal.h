#pragma once
/// Linear algebra of covariances.

#include "hammock/tensor.h"

namespace hammock::distributions {

/// X with lower @ X == columns, for all batches of both.
Tensor SolveLower(const Tensor& lower, const Tensor& columns);
/// Half the logarithm of the determinant of lower @ lower^T.
Tensor LogDiagonal(const Tensor& lower);

}  // namespace hammock::distributions
