#include "compiler/passes/move_shape_ops.h"

#include "compiler/passes/repeated_element.h"
#include "compiler/passes/rewrite.h"
#include "ir/primitives.h"

namespace hammock {

namespace {

/// The operands without their shape op, for `op` of equal attributes and source sizes. A repeated
/// element has any sizes. Nothing unless all are such and one comes from an elementwise op.
std::optional<std::vector<GraphValue>> SourcesOf(Rewriter& r, const GraphNode& node,
                                                 const OpDef& op, std::vector<Attr>* attrs) {
  std::optional<Dims> sizes;
  bool useful = false;
  for (GraphValue input : node.inputs) {
    if (r.OpOf(input) != &op) continue;
    const GraphNode& shape_op = r.Producer(input);
    GraphValue source = shape_op.inputs[0];
    if (RepeatedElement(r.graph(), source)) continue;
    if (!sizes) {
      sizes = r.TypeOf(source).sizes();
      *attrs = shape_op.attrs;
    }
    if (*sizes != r.TypeOf(source).sizes() || *attrs != shape_op.attrs) return std::nullopt;
    useful = useful || IsElementwisePrimitive(*r.OpOf(source));
  }
  if (!useful) return std::nullopt;
  std::vector<GraphValue> sources;
  for (GraphValue input : node.inputs) {
    if (r.OpOf(input) != &op && !RepeatedElement(r.graph(), input)) return std::nullopt;
  }
  for (GraphValue input : node.inputs) {
    std::optional<GraphValue> element = RepeatedElement(r.graph(), input);
    sources.push_back(element ? r.Fill(*element, *sizes) : r.Producer(input).inputs[0]);
  }
  return sources;
}

// add(op(a), op(b)) -> op(add(a, b))           MoveShapeOps.MovesReshapesToTheResult
template <const OpDef& op>
std::optional<GraphValue> MoveToResult(Rewriter& r, const GraphNode& node) {
  if (!IsExplicit(r, node) || node.type().numel() <= 1) return std::nullopt;
  std::vector<Attr> attrs;
  auto sources = SourcesOf(r, node, op, &attrs);
  if (!sources) return std::nullopt;
  Shape type = node.type().With(r.TypeOf(sources->front()).sizes());
  return r.Make(op, {r.Make(*node.op, *sources, node.attrs, type)}, attrs, node.type());
}

constexpr RuleFor kRules[] = {
    {nullptr, MoveToResult<ops::kReshape>},
    {nullptr, MoveToResult<ops::kPermute>},
};

}  // namespace

Graph MoveShapeOps(Graph graph) { return Rewriter(kRules).Run(std::move(graph)); }

}  // namespace hammock
