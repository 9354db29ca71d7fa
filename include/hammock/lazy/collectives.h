#pragma once
/// Collectives for backends: nodes between the ranks of a group, on host memory. A backend whose
/// device cannot exchange data by itself brings the operand to the host and the result back:
///
///   if (IsCollective(*node.op)) RunCollective(run, node, type, in, out);

#include <functional>

#include "hammock/export.h"
#include "hammock/ir/graph.h"
#include "hammock/lazy/run_context.h"

namespace hammock {

HAMMOCK_API bool IsCollective(const OpDef& op);

/// Runs the node of a collective on row-major elements in host memory, on any thread, before the
/// run that `run` describes has ended. `in` has the type `type`. Collectives of one run follow each
/// other in the order of its graph.
HAMMOCK_API void RunCollective(const lazy::RunContext& run, const GraphNode& node,
                               const Shape& type, const void* in, void* out);

/// For a copy of this library inside of a plug-in, whose program has the ranks: `run` is called
/// instead of all that RunCollective does.
using CollectiveFn =
    std::function<void(const GraphNode& node, const Shape& type, const void* in, void* out)>;
HAMMOCK_API void SetCollectives(CollectiveFn run);

}  // namespace hammock
