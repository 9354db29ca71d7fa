#pragma once
/// ExpandShortAttention: the expansion of attention that is small. Capability queries keep
/// attention whole whatever its sizes, because sizes are concrete only in the passes of the
/// backend: one graph may be compiled for many of them.

#include "hammock/ir/graph.h"

namespace hammock::cpu {

/// Attention over few keys becomes primitives. The choice depends on the shapes of the node alone,
/// and so do the bits of its result.
Graph ExpandShortAttention(Graph graph);

}  // namespace hammock::cpu
