#pragma once

#include <memory>

#include "hammock/ir/graph.h"

namespace hammock {

/// Replaces the graphs among the attributes of `graph`'s nodes, bodies of loops and branches, by
/// what `pass` makes of them.
template <class Pass>
void MapBodies(Graph& graph, const Pass& pass) {
  for (NodeId id = 0; id < graph.size(); ++id) {
    for (Attr& attr : graph.mutable_node(id).attrs) {
      if (attr.kind() == Attr::Kind::kGraph)
        attr = std::make_shared<const Graph>(pass(attr.graph()));
    }
  }
}

}  // namespace hammock
