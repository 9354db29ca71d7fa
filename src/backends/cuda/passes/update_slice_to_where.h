#pragma once

#include "hammock/ir/graph.h"

namespace hammock::cuda {

/// update_slice into a repeated number, at one index of a short dim, as in the gradient of a
/// select, becomes where(iota == start, source, number). That is a part of the kernel that reads
/// it, while update_slice would write the whole tensor each time. No bit changes.
Graph UpdateSliceToWhere(Graph graph);

}  // namespace hammock::cuda
