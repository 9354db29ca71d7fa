#include "compiler/passes/arg_reductions.h"

#include <algorithm>
#include <limits>

#include "compiler/passes/graph_editor.h"
#include "ir/primitives.h"

namespace hammock {
namespace {

bool IsArgReduction(const GraphNode& node) {
  return node.op == &ops::kArgMax || node.op == &ops::kArgMin;
}

GraphValue Expand(GraphBuilder& out, const GraphNode& node) {
  const Dims& results = node.type().sizes();
  if (node.type().numel() == 0) {
    return out.Broadcast(out.Constant(Scalar(int64_t{0}), node.type().dtype()), results);
  }
  const OpDef& extremum = node.op == &ops::kArgMax ? ops::kReduceMax : ops::kReduceMin;
  GraphValue x = node.inputs[0];
  if (out.TypeOf(x).dtype() == DType::kBool) x = out.Cast(x, DType::kU8);
  if (out.TypeOf(x).rank() == 0) x = out.Reshape(x, {1});
  const Dims sizes = out.SizesOf(x);
  const int dim = static_cast<int>(node.attrs[0].integer());
  const int64_t extent = sizes[dim];
  const DType index = extent <= std::numeric_limits<int32_t>::max() ? DType::kI32 : DType::kI64;
  GraphValue best = out.Add(extremum, {x}, {Attr(Dims{dim}), Attr(true)});
  GraphValue found = out.Add(ops::kEq, {x, out.Broadcast(best, sizes)});
  if (IsFloat(out.TypeOf(x).dtype())) {
    // The extremum is a NaN if an element is one, and equal to none.
    found = out.Add(ops::kLogicalOr, {found, out.Add(ops::kNe, {x, x})});
  }
  Dims along(std::vector<int64_t>(static_cast<size_t>(sizes.size()), 1));
  along[dim] = extent;
  GraphValue place = out.Add(ops::kIota, {}, {Attr(extent), Attr(index)});
  place = out.Broadcast(out.Reshape(place, along), sizes);
  GraphValue beyond = out.Broadcast(out.Constant(Scalar(extent), index), sizes);
  GraphValue first = out.Add(ops::kReduceMin, {out.Add(ops::kWhere, {found, place, beyond})},
                             {Attr(Dims{dim}), Attr(false)});
  return out.Reshape(out.Cast(first, node.type().dtype()), results);
}

}  // namespace

Graph ArgReductions(Graph graph) {
  if (std::ranges::none_of(graph.nodes(), IsArgReduction)) return graph;
  return EditGraph(std::move(graph),
                   [](GraphEditor& editor, NodeId, const GraphNode& node) -> Replacement {
                     if (!IsArgReduction(node)) return std::nullopt;
                     return {{Expand(editor, node)}};
                   });
}

}  // namespace hammock
