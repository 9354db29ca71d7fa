#pragma once
/// Composites that this backend takes whole whatever their sizes, and runs as their expansions
/// where they are small. Sizes are concrete only here: one graph may be compiled for many of them.

#include "hammock/ir/graph.h"

namespace hammock::cpu {

/// Attention over few keys becomes primitives. Which way is taken depends on the node's shapes
/// alone, and so do its bits.
Graph ExpandShort(Graph graph);

}  // namespace hammock::cpu
