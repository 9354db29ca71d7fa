#pragma once
/// Graph: the compiler's form of a set of nodes. An indexed list in topological order with inputs
/// and outputs, a text form that prints and parses back to an equal graph, a binary form and a DOT
/// form.
///
// clang-format off
///   graph(n=16)                                 dim parameters, with the sizes they were traced at
///   %0 = input : f32[n,4]
///   %1 = constant {value=2.5, dtype=f32} : f32[]
///   %2 = mul %0, %1 : f32[n,4]  @ model.cpp:12  location, printed on request, never compared
///   %3:2 = sort %2 {dim=1, descending=false, stable=false} : f32[n,4], i64[n,4]
///   return %2, %3.1
// clang-format on
///
/// Sizes are always concrete; a size or size attribute that depends on a dim parameter has a
/// DimExpr beside it, which evaluates to the concrete value at the parameters' values.

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "hammock/export.h"
#include "hammock/ir/attr.h"
#include "hammock/ir/id.h"
#include "hammock/ir/op_def.h"
#include "hammock/ir/shape.h"
#include "hammock/ir/shared_list.h"
#include "hammock/location.h"

namespace hammock {

using NodeId = Id<struct GraphNode>;
template <class T>
using NodeMap = IdMap<NodeId, T>;

/// One output of a graph node. An absent optional operand has no node.
struct HAMMOCK_API GraphValue {
  NodeId node;
  int32_t index = 0;
  bool operator==(const GraphValue&) const = default;
  auto operator<=>(const GraphValue&) const = default;
};

struct HAMMOCK_API GraphNode {
  const OpDef* op = nullptr;
  SharedList<GraphValue> inputs;
  SharedList<Attr> attrs;  ///< one per attribute of the record, in its order
  SharedList<Shape> types;
  LocationId location = 0;
  /// Which traced node it came from, for errors. Never compared, stored on request.
  NodeId origin;

  const Shape& type() const { return types[0]; }
  const Attr& attr(std::string_view name) const;
};

/// constant + sum of coefficient * parameter, printed `4*n+1`. One that stands in a graph has at
/// least one term.
struct HAMMOCK_API DimExpr {
  int64_t constant = 0;
  std::vector<std::pair<int, int64_t>>
      terms;  ///< (parameter, coefficient), by parameter, none zero

  int64_t Evaluate(const std::vector<int64_t>& parameters) const;
  std::string to_string(const std::vector<std::string>& names) const;
  bool operator==(const DimExpr&) const = default;
};

struct DimParam {
  std::string name;
  int64_t value = 0;
  bool operator==(const DimParam&) const = default;
};

class HAMMOCK_API Graph {
 public:
  /// Appends an input and returns its value.
  GraphValue AddInput(const Shape& type);
  GraphValue AddConstant(const Scalar& value);
  /// Appends a node whose types are inferred by its record.
  NodeId AddNode(const OpDef& op, SharedList<GraphValue> inputs, SharedList<Attr> attrs = {},
                 LocationId location = 0);
  /// Appends a node as given; the verifier checks it later.
  NodeId Append(GraphNode node);
  /// Memory for so many nodes, as of a vector.
  void Reserve(int nodes) { nodes_.reserve(static_cast<size_t>(nodes)); }
  void SetOutputs(std::vector<GraphValue> outputs);
  void AddOutput(GraphValue value);

  int size() const { return static_cast<int>(nodes_.size()); }
  const NodeMap<GraphNode>& nodes() const { return nodes_; }
  IdRange<NodeId> ids() const { return nodes_.ids(); }
  bool Contains(NodeId id) const { return nodes_.contains(id); }
  const GraphNode& operator[](NodeId id) const { return nodes_[id]; }
  GraphNode& mutable_node(NodeId id) { return nodes_[id]; }
  /// Nodes of op `input`, in parameter order.
  const std::vector<NodeId>& inputs() const { return inputs_; }
  const std::vector<GraphValue>& outputs() const { return outputs_; }
  const Shape& TypeOf(GraphValue value) const { return nodes_[value.node].types[value.index]; }

  // Dim parameters.
  std::vector<DimParam> dim_params;
  /// (node, output, dim) -> expression.
  std::map<std::tuple<NodeId, int, int>, DimExpr> dim_exprs;
  /// (node, attribute, position in a list or 0) -> expression.
  std::map<std::tuple<NodeId, int, int>, DimExpr> attr_exprs;

  /// Structural: ops, attributes, types, operands, outputs, dim parameters; not locations.
  bool operator==(const Graph& other) const;
  Hash128 hash() const;

 private:
  NodeMap<GraphNode> nodes_;
  std::vector<NodeId> inputs_;
  std::vector<GraphValue> outputs_;
};

struct PrintOptions {
  bool locations = false;
};

HAMMOCK_API std::string ToText(const Graph& graph, const PrintOptions& options = {});
/// Throws ValueError (kParse) with line and column. The grammar is in Note [Graph text] in
/// src/ir/graph_text.cpp. What it returns is verified.
HAMMOCK_API Graph ParseGraph(std::string_view text);
HAMMOCK_API std::string ToDot(const Graph& graph);

struct SerializeOptions {
  bool locations = true;
  bool origins = false;  ///< GraphNode::origin
};

/// Versioned and checksummed bytes.
HAMMOCK_API std::string Serialize(const Graph& graph, const SerializeOptions& options = {});
/// Throws ValueError (kParse) for damaged bytes, unknown ops or newer versions, by name. What it
/// returns is verified.
HAMMOCK_API Graph DeserializeGraph(std::string_view bytes);

/// Throws InternalError (kVerify) naming the first bad node: operand order, indices, attribute
/// kinds and counts, types against inference, outputs, dim expressions; recurses into graph
/// attributes.
HAMMOCK_API void Verify(const Graph& graph);

}  // namespace hammock
