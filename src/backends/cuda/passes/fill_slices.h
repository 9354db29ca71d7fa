#pragma once

#include "hammock/ir/graph.h"

namespace hammock::cuda {

/// update_slice of a repeated number at one place of a short dim, as the gradient of a select is,
/// becomes where(place == start, source, number): a part of the kernel that uses it, where
/// update_slice would write everything each time. No bit changes by that.
Graph FillSlices(Graph graph);

}  // namespace hammock::cuda
