#pragma once

#include "hammock/ir/graph.h"

namespace hammock::cuda {

/// Scatters whole rows where an index is the same for all elements of one, as in gradients of
/// embeddings: the index becomes a vector, one for each row of the source. What is scattered into
/// zeros loses that operand.
Graph ScatterRows(Graph graph);

}  // namespace hammock::cuda
