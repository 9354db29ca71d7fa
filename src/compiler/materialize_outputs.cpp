#include "compiler/materialize_outputs.h"

#include <set>

#include "ops/primitives.h"

namespace hammock {

Graph MaterializeOutputs(Graph graph) {
  std::vector<GraphValue> outputs = graph.outputs();
  std::set<GraphValue> seen;
  for (GraphValue& output : outputs) {
    const OpDef* op = graph[output.node].op;
    bool is_own = op != &ops::kInput && op != &ops::kConstant;
    if (is_own && seen.insert(output).second) continue;
    GraphNode copy;
    copy.op = &ops::kReshape;
    copy.inputs = {output};
    copy.types = {graph.TypeOf(output)};
    copy.attrs = {Attr(copy.types[0].sizes())};
    copy.location = graph[output.node].location;
    copy.origin = graph[output.node].origin;
    output = {graph.Append(std::move(copy)), 0};
  }
  graph.SetOutputs(std::move(outputs));
  return graph;
}

}  // namespace hammock
