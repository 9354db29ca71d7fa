#pragma once

#include "hammock/ir/graph.h"

namespace hammock {

/// Moves every `all_gather` of several ranks to just before the collective or the first use of the
/// gather before it: what it gathers takes `size` times the memory, so it is made when it is
/// needed, one gather ahead. Parameters that ranks share out would all be gathered at the beginning
/// otherwise, since they depend on nothing. Collectives keep their order.
Graph DelayGathers(Graph graph);

}  // namespace hammock
