#pragma once

#include "hammock/ir/graph.h"

namespace hammock {

/// Writes promotion and broadcasting of elementwise ops as casts and broadcasts, so that every
/// operand of an elementwise node has the compute dtype and the result's sizes, and dims are those
/// that the operand has. Removes nodes that nothing uses.
Graph MakeExplicit(Graph graph);

}  // namespace hammock
