#include "compiler/passes/remove_dead.h"

#include "compiler/effects.h"
#include "compiler/passes/graph_editor.h"

namespace hammock {

Graph RemoveDead(Graph graph) {
  const std::vector<bool> needed = NeededNodes(graph);
  GraphEditor editor(std::move(graph));
  for (NodeId id = 0; id < editor.source().size(); ++id) {
    if (needed[static_cast<size_t>(id)]) editor.Keep(id, editor.Take(id));
  }
  return editor.Finish();
}

}  // namespace hammock
