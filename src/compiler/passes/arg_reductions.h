#pragma once

#include "hammock/ir/graph.h"

namespace hammock {

/// arg_max and arg_min become two reductions, which are loops of one kernel, often together with
/// what computes the elements: the extremum, and the lowest index of an element that is equal to
/// it, or of a NaN.
Graph ArgReductions(Graph graph);

}  // namespace hammock
