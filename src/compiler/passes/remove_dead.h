#pragma once

#include "hammock/ir/graph.h"

namespace hammock {

/// Removes nodes that no result and no ordered effect needs; inputs stay. Random nodes fix their
/// state by an operand, so those that nothing reads go like others.
Graph RemoveDead(Graph graph);

}  // namespace hammock
