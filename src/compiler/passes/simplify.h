#pragma once

#include "hammock/ir/graph.h"

namespace hammock {

/// Applies identities that change no bit of any result: a NaN stays a NaN, -0 stays -0. The table
/// of rules is at the end of simplify_shapes.cpp and of simplify_numbers.cpp. Leaves what nothing
/// uses any more to RemoveDead.
Graph Simplify(Graph graph);

}  // namespace hammock
