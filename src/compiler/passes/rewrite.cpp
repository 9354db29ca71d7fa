#include "compiler/passes/rewrite.h"

#include <utility>

#include "base/throw.h"
#include "ir/primitives.h"

namespace hammock {

namespace {

/// Rules make things smaller, so this is never reached; a mistake in one must not be a hang.
constexpr int kMaxDepth = 64;

}  // namespace

Graph Rewriter::Run(Graph graph) {
  GraphEditor editor(std::move(graph));
  editor_ = &editor;
  may_raise_.clear();
  for (NodeId id : editor.source().ids()) {
    GraphNode node = editor.Take(id);
    if (std::optional<GraphValue> instead = Try(node)) {
      editor.Replace(id, *instead);
    } else {
      editor.ReplaceBy(id, Append(std::move(node)).node);
    }
  }
  return editor.Finish();
}

GraphValue Rewriter::Make(const OpDef& op, SharedList<GraphValue> inputs, SharedList<Attr> attrs,
                          const Shape& type) {
  GraphNode node = editor_->NodeOf(op, std::move(inputs), std::move(attrs), type);
  if (std::optional<GraphValue> instead = Try(node)) return *instead;
  return Append(std::move(node));
}

GraphValue Rewriter::Append(GraphNode node) {
  bool may_raise = node.op->can_fail;
  for (GraphValue input : node.inputs) may_raise |= input.node && MayRaise(input);
  may_raise_.push_back(may_raise);
  return editor_->Append(std::move(node));
}

GraphValue Rewriter::MakeSized(const OpDef& op, GraphValue input, const Dims& sizes) {
  Shape type = TypeOf(input).With(sizes);
  return Make(op, {input}, {Attr(sizes)}, type);
}

GraphValue Rewriter::Fill(GraphValue element, const Dims& sizes) {
  if (TypeOf(element).sizes() == sizes) return element;
  if (TypeOf(element).With(sizes).numel() == 1) return MakeSized(ops::kReshape, element, sizes);
  if (TypeOf(element).rank() > sizes.size()) element = MakeSized(ops::kReshape, element, {});
  return MakeSized(ops::kBroadcast, element, sizes);
}

std::optional<GraphValue> Rewriter::Try(const GraphNode& node) {
  if (node.types.size() != 1 || depth_ >= kMaxDepth) return std::nullopt;
  size_t op = node.op->info().id;
  if (op >= by_op_.size()) {
    by_op_.resize(op + 1);
    known_op_.resize(op + 1);
  }
  if (!known_op_[op]) {
    known_op_[op] = true;
    for (const RuleFor& rule : rules_) {
      if (rule.op == node.op || (!rule.op && IsElementwisePrimitive(*node.op))) {
        by_op_[op].push_back(rule.rule);
      }
    }
  }
  std::optional<GraphValue> result;
  ++depth_;
  for (size_t i = 0; i < by_op_[op].size() && !result; ++i) {
    result = by_op_[op][i](*this, node);
    if (result && TypeOf(*result) != node.types[0]) result.reset();
  }
  --depth_;
  return result;
}

bool IsElementwisePrimitive(const OpDef& op) {
  return (op.IsElementwise() && op.IsPrimitive()) || &op == &ops::kCast;
}

bool IsExplicit(const Rewriter& rewriter, const GraphNode& node) {
  for (GraphValue input : node.inputs) {
    if (rewriter.TypeOf(input).sizes() != node.type().sizes()) return false;
  }
  return !node.inputs.empty();
}

}  // namespace hammock
