#pragma once

#include "hammock/ir/graph.h"

namespace hammock {

/// What the option `wide_sums` asks for: products and convolutions of f32 are made in f64, and
/// rounded once.
Graph WidenSums(Graph graph);

}  // namespace hammock
