#pragma once

#include "hammock/ir/graph.h"

namespace hammock {

/// Several `all_reduce`, `all_gather` or `reduce_scatter` that follow each other, of one group,
/// dtype and reduction, become one of up to `distributed.bucket_bytes`, if none needs the result of
/// another; a `reduce_scatter` whose shards are gathered by the next collective, and used by
/// nothing else, becomes an all-reduce. See Note [Merged collectives] in
/// ops/primitives/collectives.h.
Graph MergeCollectives(Graph graph);

}  // namespace hammock
