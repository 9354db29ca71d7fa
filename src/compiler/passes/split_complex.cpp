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

GraphValue PartInMemory(GraphBuilder& out, GraphValue value, int part) {
  const Shape type = out.TypeOf(value);
  const Shape real = type.With(RealOf(type.dtype()));
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
  value =
      out.Add(ops::kBitcast, {out.Reshape(value, single)}, {Attr(real.dtype())}, real.With(pairs));
  return out.Reshape(out.Slice(value, last, part, single[last], /*step=*/2), real.sizes());
}

namespace {

/// real(complex(a, b)) -> a, imag(complex(a, b)) -> b; of other values the elements in memory.
Graph JoinParts(Graph graph) {
  return EditGraph(std::move(graph),
                   [](GraphEditor& editor, NodeId, const GraphNode& node) -> Replacement {
                     if (node.op != &ops::kReal && node.op != &ops::kImag) return std::nullopt;
                     const int part = node.op == &ops::kImag;
                     const GraphNode& whole = editor.graph()[node.inputs[0].node];
                     if (whole.op == &ops::kComplex) return {{whole.inputs[part]}};
                     return {{PartInMemory(editor, node.inputs[0], part)}};
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
