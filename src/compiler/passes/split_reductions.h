#pragma once
/// Makes every reduction one over a single dim of at most 65536 elements, which is what kernels do:
/// reduced dims that are neighbours become one, the others are reduced one after another, innermost
/// first; a longer dim is reduced in blocks, then over the blocks; what has no elements is a
/// constant. Sums and products of 16-bit
/// floats are made in f32 and rounded once. What comes out depends on sizes and dims alone.

#include "hammock/ir/graph.h"

namespace hammock {

Graph SplitReductions(Graph graph);

}  // namespace hammock
