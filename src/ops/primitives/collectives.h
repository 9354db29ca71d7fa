#pragma once
/// The primitives between the ranks of {group}, which has {size} ranks. Parts are along dim 0.

#include <span>
#include <string>

#include "hammock/distributed/engine.h"
#include "hammock/ir/graph.h"
#include "hammock/ir/op_def.h"
#include "hammock/tensor.h"

namespace hammock::ops {

extern const OpDef kAllReduce;            ///< all_reduce(self) {reduction: sum|mean|min|max|prod}
extern const OpDef kAllGather;            ///< all_gather(self): dim 0 is `size` times as long
extern const OpDef kReduceScatter;        ///< reduce_scatter(self) {reduction}: this rank's part
extern const OpDef kCollectiveBroadcast;  ///< collective_broadcast(self) {root}
extern const OpDef kAllToAll;             ///< all_to_all(self): part i goes to rank i
extern const OpDef kCollectivePermute;    ///< collective_permute(self) {pairs: from, to, ...}:
                                          ///< zeros on ranks that get nothing

/// Note [Merged collectives]: collectives that ranks recorded one after another, as one.
/// _merged_collective(self) {kind, splits, reduction}, where `kind` is "all_reduce", "all_gather"
/// or "reduce_scatter" of several values that lie side by side along the last dim, `splits`
/// elements of each (of a rank's shard of it), or "reduce_scatter_all_gather" of one value. Only
/// compiled graphs have it (compiler/passes/merge_collectives.h). Which collectives can be merged
/// depends on the rest of the graph, in which ranks may differ: where the ranks of a group have not
/// merged alike, each merged collective sends its messages one by one, as ranks do that could not
/// merge them.
extern const OpDef kMergedCollective;

/// Of an attribute `reduction`.
distributed::Reduction ReductionOf(const std::string& name);

/// Notes the node that has these results (trace/noted_collectives.h), if it is a collective or has
/// some in a body.
void NoteCollectives(const OpDef& op, std::span<const Attr> attrs, std::span<const Tensor> results);

}  // namespace hammock::ops

namespace hammock {

/// The first collective of a graph, or of a body in it; null if there is none.
const GraphNode* FindCollective(const Graph& graph);
inline bool HasCollectives(const Graph& graph) { return FindCollective(graph) != nullptr; }

}  // namespace hammock

namespace hammock::distributed {

/// `distributed.bucket_bytes`.
int64_t BucketBytes();

}  // namespace hammock::distributed
