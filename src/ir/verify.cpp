// Verify: what every pass may rely on.

#include <fmt/format.h>

#include <optional>
#include <unordered_set>

#include "base/throw.h"
#include "hammock/ir/graph.h"
#include "hammock/ir/storage_types.h"
#include "ir/graph_access.h"
#include "ir/id_format.h"
#include "ir/schema_access.h"

namespace hammock {
namespace {

using ExprMap = std::map<std::tuple<NodeId, int, int>, DimExpr>;

/// Checks one graph. `where` is the path of attributes that leads to a nested one; `seen` are the
/// graphs met so far: a body that is shared is checked once.
class Verifier {
 public:
  Verifier(const Graph& graph, std::string where, std::unordered_set<const Graph*>& seen)
      : graph_(graph), where_(std::move(where)), seen_(seen) {}

  void Run() {
    if (!seen_.insert(&graph_).second) return;
    CheckParams();
    for (NodeId id : graph_.ids()) {
      id_ = id;
      CheckNode(graph_[id]);
    }
    id_ = NodeId();
    CheckOutputs();
    CheckInputs();
    CheckDimExprs();
    CheckAttrExprs();
  }

 private:
  template <class... Args>
  [[noreturn]] void Fail(fmt::format_string<Args...> format, Args&&... args) const {
    std::string subject = where_;
    if (id_) {
      const OpDef* op = graph_[id_].op;
      subject += fmt::format("%{} = {}: ", id_, op ? op->name() : "(no op)");
    }
    throw GraphFault{id_, std::move(subject), fmt::format(format, std::forward<Args>(args)...)};
  }

  void CheckParams() {
    for (const DimParam& param : graph_.dim_params) {
      if (!IsDimName(param.name)) Fail("'{}' cannot name a dim parameter", param.name);
      for (const DimParam& other : graph_.dim_params) {
        if (&other != &param && other.name == param.name) {
          Fail("dim parameter '{}' appears twice", param.name);
        }
      }
      values_.push_back(param.value);
    }
  }

  void CheckNode(const GraphNode& node) {
    if (!node.op) Fail("a node without an op");
    if (!node.op->IsNode()) Fail("a function makes no node");
    CheckOperands(node);
    CheckAttrs(node);
    for (const Shape& type : node.types) CheckType(type);
    CheckInference(node);
  }

  void CheckOperands(const GraphNode& node) {
    const OpInfo& info = node.op->info();
    size_t fixed = info.operand_args.size() - (info.variadic ? 1 : 0);
    size_t count = node.inputs.size();
    if (count < fixed || (count > fixed && !info.variadic)) {
      Fail("it has {} operands, its schema {}{}", count, info.variadic ? "at least " : "", fixed);
    }
    for (size_t i = 0; i < count; ++i) {
      GraphValue input = node.inputs[i];
      size_t which = std::min(i, info.operand_args.size() - 1);
      const SchemaArgument& argument = info.schema.arguments()[info.operand_args[which]];
      if (input.node == NodeId()) {
        bool absent_is_fine =
            argument.type.list ? argument.type.optional_items : argument.type.optional;
        if (!absent_is_fine)
          Fail("operand {} ('{}') is absent, but not optional", i, argument.name);
        if (input.index != 0) Fail("operand {} is output {} of no node", i, input.index);
        continue;
      }
      if (!input.node || input.node >= id_) {
        Fail("operand {} is %{}, which does not come before it", i, input.node);
      }
      CheckIndex(input);
    }
  }

  void CheckIndex(GraphValue value) {
    size_t outputs = graph_[value.node].types.size();
    if (value.index < 0 || static_cast<size_t>(value.index) >= outputs) {
      Fail("%{}.{} does not exist: %{} has {} outputs", value.node, value.index, value.node,
           outputs);
    }
  }

  void CheckAttrs(const GraphNode& node) {
    const OpInfo& info = node.op->info();
    if (node.attrs.size() != info.attribute_args.size()) {
      Fail("it has {} attributes, its schema {}", node.attrs.size(), info.attribute_args.size());
    }
    for (size_t i = 0; i < node.attrs.size(); ++i) {
      const SchemaArgument& argument = info.schema.arguments()[info.attribute_args[i]];
      const Attr& attr = node.attrs[i];
      if (!AttrFits(argument.type, attr)) {
        Fail("attribute '{}' must be {}, got {}", argument.name, argument.type.to_string(),
             attr.to_string());
      }
      if (attr.kind() != Attr::Kind::kGraph) continue;
      std::string path = fmt::format("{}%{} = {}: {}: ", where_, id_, info.name, argument.name);
      Verifier(attr.graph(), std::move(path), seen_).Run();
    }
  }

  void CheckType(const Shape& type) {
    try {
      CheckSizes("type", type.sizes());
      CheckPacked("type", type);
    } catch (const Error& error) {
      Fail("{}", error.message());
    }
  }

  void CheckInference(const GraphNode& node) {
    if (TypeIsGiven(*node.op)) {
      if (node.types.size() != 1) Fail("a leaf has one type, not {}", node.types.size());
      return;
    }
    types_.clear();
    for (GraphValue input : node.inputs) {
      types_.push_back(!input.node ? nullptr : &graph_.TypeOf(input));
    }
    std::optional<std::vector<Shape>> inferred;
    try {
      inferred = InferShapes(*node.op, types_, node.attrs);
    } catch (const Error& error) {
      Fail("inference fails: {}", error.message());
    }
    if (*inferred != node.types) {
      Fail("its types are {}, inference gives {}", Listed(node.types), Listed(*inferred));
    }
  }

  static std::string Listed(const std::vector<Shape>& types) {
    std::string text;
    for (const Shape& type : types) text += (text.empty() ? "" : ", ") + type.to_string();
    return text.empty() ? "()" : text;
  }

  void CheckOutputs() {
    for (size_t i = 0; i < graph_.outputs().size(); ++i) {
      GraphValue output = graph_.outputs()[i];
      if (!graph_.Contains(output.node)) {
        Fail("output {} is %{}, of {} nodes", i, output.node, graph_.size());
      }
      CheckIndex(output);
    }
  }

  void CheckInputs() {
    std::vector<NodeId> inputs;
    for (NodeId id : graph_.ids()) {
      if (graph_[id].op == &InputOp()) inputs.push_back(id);
    }
    if (inputs != graph_.inputs()) Fail("the list of inputs differs from the input nodes");
  }

  void CheckDimExprs() {
    for (const auto& [key, expr] : graph_.dim_exprs) {
      auto [node, output, dim] = key;
      id_ = NodeId();
      bool exists = graph_.Contains(node) && output >= 0 &&
                    output < static_cast<int>(graph_[node].types.size()) && dim >= 0 &&
                    dim < graph_[node].types[output].rank();
      if (!exists)
        Fail("dim expression for %{}.{} dim {}, which does not exist", node, output, dim);
      id_ = node;
      CheckExpr(expr, graph_[node].types[output].size(dim));
    }
  }

  void CheckAttrExprs() {
    for (const auto& [key, expr] : graph_.attr_exprs) {
      auto [node, attr, position] = key;
      id_ = NodeId();
      std::optional<int64_t> value = IntegerAt(node, attr, position);
      if (!value) {
        Fail("attribute expression for %{} attribute {} position {}, which is no integer", node,
             attr, position);
      }
      id_ = node;
      CheckExpr(expr, *value);
    }
  }

  std::optional<int64_t> IntegerAt(NodeId node, int index, int position) const {
    if (!graph_.Contains(node) || index < 0 || position < 0) return std::nullopt;
    const auto& attrs = graph_[node].attrs;
    if (index >= static_cast<int>(attrs.size())) return std::nullopt;
    return SizeInAttr(attrs[index], position);
  }

  void CheckExpr(const DimExpr& expr, int64_t expected) {
    if (expr.terms.empty()) Fail("a dim expression without a parameter");
    int last = -1;
    for (auto [parameter, coefficient] : expr.terms) {
      if (parameter <= last || coefficient == 0) Fail("a dim expression that is not normal");
      if (parameter >= static_cast<int>(values_.size())) {
        Fail("a dim expression of parameter {}, of {}", parameter, values_.size());
      }
      last = parameter;
    }
    try {
      int64_t value = expr.Evaluate(values_);
      if (value != expected) Fail("dim expression {} is {}, not {}", Text(expr), value, expected);
    } catch (const ValueError& error) {
      Fail("{}", error.message());
    }
  }

  std::string Text(const DimExpr& expr) const {
    std::vector<std::string> names;
    for (const DimParam& param : graph_.dim_params) names.push_back(param.name);
    return expr.to_string(names);
  }

  const Graph& graph_;
  std::string where_;
  std::unordered_set<const Graph*>& seen_;
  NodeId id_;                    // the node in question
  std::vector<int64_t> values_;  // of the dim parameters
  std::vector<const Shape*> types_;
};

}  // namespace

std::optional<GraphFault> FindFault(const Graph& graph, std::unordered_set<const Graph*>& checked) {
  try {
    Verifier(graph, "", checked).Run();
    return std::nullopt;
  } catch (GraphFault& fault) {
    return std::move(fault);
  }
}

void Verify(const Graph& graph) {
  std::unordered_set<const Graph*> checked;
  if (auto fault = FindFault(graph, checked)) {
    Throw<InternalError>(ErrorCode::kVerify, "verify: {}{}", fault->subject, fault->what);
  }
}

}  // namespace hammock
