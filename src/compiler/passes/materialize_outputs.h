#pragma once

#include "hammock/ir/graph.h"

namespace hammock {

/// Gives a result that is a parameter, a constant or another result too a node of its own: a
/// segment must produce each of them.
Graph MaterializeOutputs(Graph graph);

}  // namespace hammock
