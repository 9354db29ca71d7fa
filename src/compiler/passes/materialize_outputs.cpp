#include "compiler/passes/materialize_outputs.h"

#include <set>

#include "ir/primitives.h"

namespace hammock {

Graph MaterializeOutputs(Graph graph) {
  std::vector<GraphValue> outputs = graph.outputs();
  std::set<GraphValue> seen;
  for (GraphValue& output : outputs) {
    const OpDef* op = graph[output.node].op;
    bool is_own = op != &ops::kInput && op != &ops::kConstant;
    if (is_own && seen.insert(output).second) continue;
    const GraphNode& source = graph[output.node];
    GraphNode copy{.op = &ops::kReshape,
                   .inputs = {output},
                   .attrs = {Attr(graph.TypeOf(output).sizes())},
                   .types = {graph.TypeOf(output)},
                   .location = source.location,
                   .origin = source.origin};
    output = {graph.Append(std::move(copy)), 0};
  }
  graph.SetOutputs(std::move(outputs));
  return graph;
}

}  // namespace hammock
