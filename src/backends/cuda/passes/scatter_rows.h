#pragma once

#include "hammock/ir/graph.h"

namespace hammock::cuda {

/// A scatter whose index is the same for all elements of a row, as in gradients of embeddings,
/// becomes a scatter of rows: the index is a vector with an element for each row of the source. A
/// scatter into zeros loses that operand.
Graph ScatterRows(Graph graph);

}  // namespace hammock::cuda
