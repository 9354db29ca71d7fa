#include "compiler/passes/materialize_outputs.h"

#include <set>
#include <utility>

#include "compiler/passes/expand_storage.h"
#include "compiler/passes/split_complex.h"
#include "ir/primitives.h"

namespace hammock {

namespace {

GraphValue CopyOf(GraphBuilder& out, GraphValue value) {
  const Shape type = out.TypeOf(value);
  if (IsStorage(type.dtype())) return CopyOfBytes(out, value);
  if (!IsComplex(type.dtype())) return out.Add(ops::kReshape, {value}, {Attr(type.sizes())}, type);
  const GraphValue real = PartInMemory(out, value, 0), imag = PartInMemory(out, value, 1);
  return out.Add(ops::kComplex, {real, imag}, {}, type);
}

}  // namespace

Graph MaterializeOutputs(Graph graph) {
  GraphBuilder out(std::move(graph));
  std::vector<GraphValue> outputs = out.graph().outputs();
  std::set<GraphValue> seen;
  for (GraphValue& output : outputs) {
    const GraphNode& source = out.graph()[output.node];
    const bool is_own = source.op != &ops::kInput && source.op != &ops::kConstant;
    if (is_own && seen.insert(output).second) continue;
    out.For(source);
    output = CopyOf(out, output);
  }
  out.graph().SetOutputs(std::move(outputs));
  return out.Finish();
}

}  // namespace hammock
