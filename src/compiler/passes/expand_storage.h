#pragma once

#include <functional>

#include "compiler/passes/graph_editor.h"
#include "hammock/ir/graph.h"
#include "hammock/ir/storage_types.h"

namespace hammock {

/// Storage types (f8, i4) as integers between memory and their uses: casts become ops on bits, and
/// elements are moved as integers. Afterwards only bitcasts, control flow, barriers, collectives
/// and the composites that `keep` keeps see values of storage types, in memory; no kernel does. See
/// docs/design/storage_types.md.
Graph ExpandStorage(Graph graph, const std::function<bool(const Graph&, NodeId)>& keep = nullptr);

bool HasStorage(const Graph& graph, const GraphNode& node);
/// Whether a composite may be run whole on storage types.
bool KnowsStorage(const OpDef& op);

/// A copy of a value of a storage type, as bytes.
GraphValue CopyOfBytes(GraphBuilder& out, GraphValue value);

}  // namespace hammock
