#pragma once
/// The cost of nodes, by the `flops` and `bytes` of their records.

#include <cstdint>

#include "hammock/ir/graph.h"

namespace hammock::compiler {

int64_t FlopsOf(const Graph& graph, NodeId id);
int64_t BytesOf(const Graph& graph, NodeId id);

}  // namespace hammock::compiler
