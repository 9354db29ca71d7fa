#pragma once

#include "hammock/ir/graph.h"

namespace hammock {

/// The pass of the option `wide_sums`: matmuls and convolutions of f32 are computed in f64, and
/// rounded once.
Graph WidenSums(Graph graph);

}  // namespace hammock
