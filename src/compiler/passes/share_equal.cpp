#include "compiler/passes/share_equal.h"

#include "compiler/passes/graph_editor.h"
#include "compiler/passes/node_table.h"

namespace hammock {

Graph ShareEqual(Graph graph) {
  NodeTable known(graph.size());
  GraphEditor editor(std::move(graph));
  for (NodeId id : editor.source().ids()) {
    GraphNode node = editor.Take(id);
    if (CanBeShared(node)) {
      NodeId equal = known.FindOrAdd(editor.graph(), node);
      if (editor.graph().Contains(equal)) {
        editor.ReplaceBy(id, equal);
        continue;
      }
    }
    editor.Keep(id, std::move(node));
  }
  return editor.Finish();
}

}  // namespace hammock
