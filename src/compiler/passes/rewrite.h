#pragma once
/// Rewriting by rules that look at a node and at what its operands are.
///
/// A graph is built anew, node by node in its order. Before a node is appended the rules of its op
/// are tried; its operands are already what the rules made of them, so one walk finds everything
/// that depends on operands alone. Nodes that a rule makes go the same way. What nothing uses any
/// more stays behind for RemoveDead.

#include <optional>
#include <span>
#include <vector>

#include "compiler/passes/graph_editor.h"

namespace hammock {

class Rewriter;

/// A replacement of `node`, whose operands are values of the new graph; nothing if the rule does
/// not apply. A value of another type is not used.
using RewriteRule = std::optional<GraphValue> (*)(Rewriter& rewriter, const GraphNode& node);

/// A rule and the op it is for; null for all ops that work element by element.
struct RuleFor {
  const OpDef* op;
  RewriteRule rule;
};

class Rewriter {
 public:
  explicit Rewriter(std::span<const RuleFor> rules) : rules_(rules) {}

  /// The graph as the rules make it.
  Graph Run(Graph graph);

  // For rules. A reference to a node is gone when another is made.
  const Graph& graph() const { return editor_->graph(); }
  const GraphNode& Producer(GraphValue value) const { return graph()[value.node]; }
  const Shape& TypeOf(GraphValue value) const { return editor_->TypeOf(value); }
  const OpDef* OpOf(GraphValue value) const { return editor_->OpOf(value); }
  /// Whether an op that can fail lies on the way to `value`. A rule that drops an operand asks, so
  /// that no error is lost.
  bool MayRaise(GraphValue value) const { return may_raise_[value.node]; }
  /// A new node instead of the one that is being rewritten, itself rewritten.
  GraphValue Make(const OpDef& op, SharedList<GraphValue> inputs, SharedList<Attr> attrs,
                  const Shape& type);
  /// One operand, whose sizes become `sizes`: reshape or broadcast.
  GraphValue MakeSized(const OpDef& op, GraphValue input, const Dims& sizes);
  /// `element`, which has one element, repeated to `sizes`.
  GraphValue Fill(GraphValue element, const Dims& sizes);

 private:
  std::optional<GraphValue> Try(const GraphNode& node);
  GraphValue Append(GraphNode node);

  std::span<const RuleFor> rules_;
  std::vector<std::vector<RewriteRule>> by_op_;  // by the op's number, made when first met
  std::vector<bool> known_op_;
  GraphEditor* editor_ = nullptr;
  NodeMap<bool> may_raise_;  // of the new graph
  int depth_ = 0;
};

/// Elementwise primitives and casts, those that can fail included: result element i depends on
/// operand elements i alone, where all have the same sizes.
bool IsElementwisePrimitive(const OpDef& op);
/// Whether every operand has the sizes of the result, as after MakeExplicit.
bool IsExplicit(const Rewriter& rewriter, const GraphNode& node);

}  // namespace hammock
