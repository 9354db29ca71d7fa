#pragma once

#include <functional>

#include "compiler/passes/graph_editor.h"
#include "hammock/ir/graph.h"

namespace hammock {

/// Complex ops as ops on the parts of their operands (OpDef::complex), where an op has such a form:
/// a complex value is two real ones between its uses. In memory its parts lie side by side: `real`
/// and `imag` of a value that comes from memory become every second element of its bits, and a
/// value that has to be there is one `complex`. Afterwards only that op, bitcasts and ops that take
/// complex numbers as they are have complex operands or results. See docs/design/complex.md.
Graph SplitComplex(Graph graph, const std::function<bool(const Graph&, NodeId)>& keep = nullptr);

/// A part of a complex value that is in memory: 0 is the real one.
GraphValue PartInMemory(GraphBuilder& out, GraphValue value, int part);

bool HasComplex(const Graph& graph, const GraphNode& node);

}  // namespace hammock
