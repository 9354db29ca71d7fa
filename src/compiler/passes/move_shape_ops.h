#pragma once

#include "hammock/ir/graph.h"

namespace hammock {

/// Moves reshapes and permutes from the operands of elementwise ops to their results, where an
/// operand is itself the result of an elementwise op: chains of them become adjacent. A reshape of
/// anything else stays where it is, next to its source.
Graph MoveShapeOps(Graph graph);

}  // namespace hammock
