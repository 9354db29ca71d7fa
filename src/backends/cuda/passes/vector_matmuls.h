#pragma once

#include "hammock/ir/graph.h"

namespace hammock::cuda {

/// A matmul of floats with a vector, one row or one column, becomes products and their sum: each
/// element of the matrix is used once, so the speed of memory is the limit, and loops are fused
/// with what comes before and after. Sums are in f32 at least and rounded once.
Graph VectorMatMuls(Graph graph);

}  // namespace hammock::cuda
