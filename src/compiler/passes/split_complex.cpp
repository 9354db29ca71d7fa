#include "compiler/passes/split_complex.h"

#include <algorithm>

#include "compiler/passes/expand.h"
#include "compiler/passes/graph_editor.h"
#include "compiler/passes/make_explicit.h"
#include "ir/primitives.h"

namespace hammock {

bool HasComplex(const Graph& graph, const GraphNode& node) {
  auto is_complex = [](const Shape& type) { return IsComplex(type.dtype()); };
  return std::ranges::any_of(node.types, is_complex) ||
         std::ranges::any_of(node.inputs, [&](GraphValue input) {
           return input.node && is_complex(graph.TypeOf(input));
         });
}

GraphValue PartInMemory(Graph& graph, GraphValue value, int part, LocationId location,
                        NodeId origin) {
  const Shape type = graph.TypeOf(value);
  const Shape real = type.With(RealOf(type.dtype()));
  auto add = [&](const OpDef& op, std::vector<Attr> attrs, const Shape& result) {
    value = {graph.Append({.op = &op,
                           .inputs = {value},
                           .attrs = std::move(attrs),
                           .types = {result},
                           .location = location,
                           .origin = origin}),
             0};
  };
  // The pairs are a new last dim; where there can be none they follow each other.
  const bool flat = type.rank() == kMaxRank;
  Dims single = type.sizes();
  if (flat) {
    single = {type.numel()};
  } else {
    single.push_back(1);
  }
  const int last = single.size() - 1;
  Dims pairs = single;
  pairs[last] *= 2;
  add(ops::kReshape, {Attr(single)}, type.With(single));
  add(ops::kBitcast, {Attr(real.dtype())}, real.With(pairs));
  add(ops::kSlice, {Attr(last), Attr(part), Attr(single[last]), Attr(2)}, real.With(single));
  add(ops::kReshape, {Attr(real.sizes())}, real);
  return value;
}

namespace {

/// real(complex(a, b)) -> a, imag(complex(a, b)) -> b; of other values the elements in memory.
Graph JoinParts(Graph graph) {
  return EditGraph(
      std::move(graph), [](GraphEditor& editor, NodeId, const GraphNode& node) -> Replacement {
        if (node.op != &ops::kReal && node.op != &ops::kImag) return std::nullopt;
        const int part = node.op == &ops::kImag;
        const GraphNode& whole = editor.graph()[node.inputs[0].node];
        if (whole.op == &ops::kComplex) return {{whole.inputs[part]}};
        return {{PartInMemory(editor.graph(), node.inputs[0], part, node.location, node.origin)}};
      });
}

}  // namespace

Graph SplitComplex(Graph graph, const std::function<bool(const Graph&, NodeId)>& keep) {
  bool any = false;
  for (const GraphNode& node : graph.nodes()) any = any || HasComplex(graph, node);
  if (!any) return graph;
  graph = EditGraph(std::move(graph),
                    [](GraphEditor& editor, NodeId, const GraphNode& node) -> Replacement {
                      if (!node.op->complex || !HasComplex(editor.graph(), node)) {
                        return std::nullopt;
                      }
                      return ExpandNode(node, node.op->complex, editor.graph());
                    });
  graph = MakeExplicit(ExpandComposites(std::move(graph), keep));
  return MakeExplicit(JoinParts(std::move(graph)));
}

}  // namespace hammock
