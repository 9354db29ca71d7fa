#pragma once

#include "hammock/ir/graph.h"

namespace hammock::cuda {

/// Copies become selects by index, which are part of the kernel that reads them, while a copy is
/// written as a whole. No bit changes.
/// - update_slice into a repeated number, at one index of a short dim, as in the gradient of a
///   select: where(iota == start, source, number).
/// - concat of two equal parts of which one is computed by loops, as in rotary embeddings: the
/// parts
///   are those of a dim of 2, where(iota == 0, first, second).
Graph CopiesToWhere(Graph graph);

}  // namespace hammock::cuda
