#include "compiler/passes/remove_dead.h"

#include "compiler/facts/effects.h"
#include "compiler/passes/graph_editor.h"

namespace hammock {

Graph RemoveDead(Graph graph) {
  const NodeMap<bool> needed = NeededNodes(graph);
  GraphEditor editor(std::move(graph));
  for (NodeId id : editor.source().ids()) {
    if (needed[id]) editor.Keep(id, editor.Take(id));
  }
  return editor.Finish();
}

}  // namespace hammock
