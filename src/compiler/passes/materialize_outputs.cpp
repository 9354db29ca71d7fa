#include "compiler/passes/materialize_outputs.h"

#include <set>
#include <utility>

#include "compiler/passes/expand_storage.h"
#include "compiler/passes/split_complex.h"
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
    if (const Shape type = graph.TypeOf(output); IsComplex(type.dtype())) {
      const LocationId location = source.location;
      const NodeId origin = source.origin;
      std::vector<GraphValue> parts;
      for (int part : {0, 1}) {
        parts.push_back(PartInMemory(graph, output, part, location, origin));
      }
      output = {graph.Append({.op = &ops::kComplex,
                              .inputs = std::move(parts),
                              .attrs = {},
                              .types = {type},
                              .location = location,
                              .origin = origin}),
                0};
      continue;
    }
    if (IsStorage(graph.TypeOf(output).dtype())) {
      output = CopyOfBytes(graph, output, source.location, source.origin);
      continue;
    }
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
