#pragma once
/// How passes write graphs. A GraphBuilder appends nodes for another one, whose source line and
/// origin they get, so that none loses them; a GraphEditor makes one graph of another and knows
/// what each value became.

#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "hammock/ir/graph.h"
#include "ir/value_map.h"

namespace hammock {

/// Appends nodes that have the location and the origin of the node that they are made for.
class GraphBuilder {
 public:
  GraphBuilder() = default;
  /// Goes on with a graph.
  explicit GraphBuilder(Graph graph) : out_(std::move(graph)) {}

  const Graph& graph() const { return out_; }
  Graph& graph() { return out_; }
  const Shape& TypeOf(GraphValue value) const { return out_.TypeOf(value); }
  const Dims& SizesOf(GraphValue value) const { return out_.TypeOf(value).sizes(); }
  const OpDef* OpOf(GraphValue value) const { return out_[value.node].op; }

  /// Nodes that are added from now on replace `node`.
  void For(const GraphNode& node) {
    location_ = node.location;
    origin_ = node.origin;
  }

  GraphValue AddInput(const Shape& type);
  void AddOutput(GraphValue value) { out_.AddOutput(value); }
  /// Types are inferred; the value is the first result.
  GraphValue Add(const OpDef& op, SharedList<GraphValue> inputs, SharedList<Attr> attrs = {});
  /// One result, whose type is known.
  GraphValue Add(const OpDef& op, SharedList<GraphValue> inputs, SharedList<Attr> attrs,
                 const Shape& type);
  /// The node that the latter would append.
  GraphNode NodeOf(const OpDef& op, SharedList<GraphValue> inputs, SharedList<Attr> attrs,
                   const Shape& type) const;
  /// A node as it is, its location and origin included; the value is the first result.
  GraphValue Append(GraphNode node) { return {out_.Append(std::move(node)), 0}; }

  // The value itself where it has the dtype or the sizes already.
  GraphValue Cast(GraphValue value, DType dtype);
  GraphValue Reshape(GraphValue value, const Dims& sizes);
  GraphValue Broadcast(GraphValue value, const Dims& sizes);
  GraphValue Slice(GraphValue value, int dim, int64_t start, int64_t size, int64_t step = 1);
  GraphValue Constant(const Scalar& value, DType dtype);

  /// The results of a graph whose inputs are `operands`. Its nodes become parts of the one that
  /// nodes are added for.
  std::vector<GraphValue> Inline(const Graph& body, std::span<const GraphValue> operands);
  /// The same; its nodes keep their location and origin.
  std::vector<GraphValue> Append(const Graph& body, std::span<const GraphValue> operands);

  Graph Finish() { return std::move(out_); }

 protected:
  Graph out_;
  LocationId location_ = 0;
  NodeId origin_;
};

/// Goes through a graph, node by node in its order, and builds another one.
class GraphEditor : public GraphBuilder {
 public:
  /// The source stays as it is, and has to live as long as this.
  explicit GraphEditor(const Graph& source) : source_(source), map_(source) {
    out_.Reserve(source.size());  // a list that grows would be held twice at the end
  }
  /// Nodes that are taken leave the source.
  explicit GraphEditor(Graph&& source) : own_(std::move(source)), source_(own_), map_(own_) {
    out_.Reserve(own_.size());
  }
  GraphEditor(const GraphEditor&) = delete;
  GraphEditor& operator=(const GraphEditor&) = delete;

  const Graph& source() const { return source_; }
  /// The new value of a value of the source.
  GraphValue Mapped(GraphValue value) const { return map_(value); }

  /// A node of the source with its operands as they are now. What is added from now on is made for
  /// it.
  GraphNode Take(NodeId id);
  /// `node` stands for node `id`, result by result; so does a node that the new graph has already.
  void Keep(NodeId id, GraphNode node) { ReplaceBy(id, Append(std::move(node)).node); }
  void ReplaceBy(NodeId id, NodeId by) { map_.SetResults(id, by, out_[by].types.size()); }
  /// These values stand for the results of node `id`.
  void Replace(NodeId id, std::span<const GraphValue> values) { map_.Set(id, values); }
  void Replace(NodeId id, GraphValue value) { Replace(id, std::span(&value, 1)); }

  /// The new graph, with the outputs as they are now.
  Graph Finish();

 private:
  Graph own_;
  const Graph& source_;
  ValueMap map_;
};

/// A graph of one node alone: an input of type `type_of(operand)` for each operand that is present,
/// in their order; all results are outputs.
Graph Alone(GraphNode node, const std::function<Shape(GraphValue)>& type_of);
/// The same, of a node whose operands are values of `graph`.
Graph Alone(const Graph& graph, GraphNode node);

/// The values that stand for a node's results; nothing: the node itself does.
using Replacement = std::optional<std::vector<GraphValue>>;

/// The graph in which `edit(editor, id, node)` was asked for every node what stands for it. The
/// operands of `node` are values of the new graph; `edit` may change it.
template <class Source, class Edit>
Graph EditGraph(Source&& source, const Edit& edit) {
  GraphEditor editor(std::forward<Source>(source));
  for (NodeId id : editor.source().ids()) {
    GraphNode node = editor.Take(id);
    if (Replacement values = edit(editor, id, node)) {
      editor.Replace(id, *values);
    } else {
      editor.Keep(id, std::move(node));
    }
  }
  return editor.Finish();
}

}  // namespace hammock
