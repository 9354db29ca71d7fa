#pragma once
/// From the nodes of a graph to nodes of an ONNX file.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "base/throw.h"
#include "hammock/ir/graph.h"
#include "onnx/call.h"
#include "onnx/format.h"

namespace hammock::onnx {

/// The graph without composites that ONNX lacks. One with free dims is expanded at two sizes.
Graph Prepared(const Graph& graph, const std::string& what);

/// ONNX's number of a dtype; NotSupported where the opset has none.
int32_t ElementAt(int opset, DType dtype);

struct Size {
  int64_t value = 0;
  const DimExpr* expr = nullptr;  // where it is not fixed
};

/// State that the writers of all graphs of a file share.
struct Naming {
  int opset = 17;
  int next = 0;
  std::map<std::string, int> missing = {};  ///< ops that are not written, with reasons
  format::Graph* outermost = nullptr;       ///< initialisers go there
};

/// Appends nodes for the nodes of one graph.
class Writer {
 public:
  /// Names are counted by the outermost writer, so that nested graphs have none twice.
  Writer(const Graph& graph, format::Graph& out, Naming& naming)
      : graph_(graph), out_(out), naming_(naming) {}

  Naming& naming() const { return naming_; }
  format::Graph& out() const { return out_; }

  std::string NameOf(GraphValue value) const { return names_.at({value.node, value.index}); }
  void SetName(GraphValue value, const std::string& name) {
    names_[{value.node, value.index}] = name;
  }

  const Graph& graph() const { return graph_; }
  std::string Fresh() { return fmt::format("t{}", naming_.next++); }

  /// Appends a node of one result and returns its name.
  std::string Emit(const std::string& op, std::vector<std::string> inputs,
                   std::vector<format::Attribute> attributes = {}, std::string result = "") {
    return EmitMany(op, std::move(inputs), 1, std::move(attributes), std::move(result))[0];
  }
  std::vector<std::string> EmitMany(const std::string& op, std::vector<std::string> inputs,
                                    size_t results, std::vector<format::Attribute> attributes = {},
                                    std::string result = "") {
    format::Node node;
    node.op = op;
    node.inputs = std::move(inputs);
    node.attributes = std::move(attributes);
    for (size_t i = 0; i < results; ++i)
      node.outputs.push_back(i == 0 && !result.empty() ? result : Fresh());
    node.name = op + "_" + node.outputs[0];
    out_.nodes.push_back(node);
    return node.outputs;
  }

  std::string Initializer(const HostTensor& host, const std::string& wanted = "") {
    format::Tensor tensor;
    tensor.name = wanted.empty() ? Fresh() : wanted;
    tensor.element = ElementAt(naming_.opset, host.dtype());
    tensor.dims = host.shape().sizes().vec();
    tensor.bytes.assign(static_cast<const char*>(host.data()), static_cast<size_t>(host.bytes()));
    naming_.outermost->initializers.push_back(std::move(tensor));
    return naming_.outermost->initializers.back().name;
  }
  std::string Ints(const std::vector<int64_t>& values) {
    return Initializer(HostTensor::From(values, Dims(static_cast<int64_t>(values.size()))));
  }
  std::string Number(double value, DType dtype) {
    return Initializer(HostTensor::From(Scalar(value).To(dtype)));
  }

  std::string CastTo(const std::string& name, DType from, DType to) {
    if (from == to) return name;
    std::vector<format::Attribute> attributes{IntOf("to", ElementAt(naming_.opset, to))};
    // Numbers that are too large are infinity there, as here.
    if (to == DType::kF8E5M2) attributes.push_back(IntOf("saturate", 0));
    return Emit("Cast", {name}, std::move(attributes));
  }

  static format::Attribute IntOf(const std::string& name, int64_t value) {
    format::Attribute attribute;
    attribute.name = name;
    attribute.kind = format::Attribute::kInt;
    attribute.i = value;
    return attribute;
  }
  static format::Attribute IntsOf(const std::string& name, std::vector<int64_t> values) {
    format::Attribute attribute;
    attribute.name = name;
    attribute.kind = format::Attribute::kInts;
    attribute.ints = std::move(values);
    return attribute;
  }
  static format::Attribute TextOf(const std::string& name, std::string value) {
    format::Attribute attribute;
    attribute.name = name;
    attribute.kind = format::Attribute::kString;
    attribute.s = std::move(value);
    return attribute;
  }

  // ---- sizes that may depend on dim parameters
  Size SizeOf(NodeId id, int output, int dim) const {
    return {graph_[id].types[static_cast<size_t>(output)].size(dim),
            Find(graph_.dim_exprs, {id, output, dim})};
  }
  /// i64[n] of the sizes.
  std::string Sizes(const std::vector<Size>& sizes) {
    bool fixed = std::ranges::none_of(sizes, [](const Size& size) { return size.expr; });
    std::vector<int64_t> values;
    for (const Size& size : sizes) values.push_back(size.value);
    if (fixed) return Ints(values);
    std::vector<std::string> parts;
    for (const Size& size : sizes)
      parts.push_back(size.expr ? Evaluated(*size.expr) : Ints({size.value}));
    return parts.size() == 1 ? parts[0] : Emit("Concat", parts, {IntOf("axis", 0)});
  }
  /// The sizes of a node's result.
  std::string SizesOf(NodeId id) {
    std::vector<Size> sizes;
    for (int d = 0; d < graph_[id].type().rank(); ++d) sizes.push_back(SizeOf(id, 0, d));
    return Sizes(sizes);
  }
  /// How a number follows from free dims; null where it does not.
  const DimExpr* AttrExpr(NodeId id, std::string_view name) const {
    return Find(graph_.attr_exprs, {id, AttrIndex(id, name), 0});
  }
  /// A name of i64[1].
  std::string SizeAttr(NodeId id, std::string_view name) {
    const DimExpr* expr = AttrExpr(id, name);
    return expr ? Evaluated(*expr) : Ints({graph_[id].attr(name).integer()});
  }
  /// Attributes that must not depend on sizes.
  int64_t FixedInt(NodeId id, std::string_view name) const {
    RequireFixed(id, name);
    return graph_[id].attr(name).integer();
  }
  std::vector<int64_t> FixedInts(NodeId id, std::string_view name) const {
    RequireFixed(id, name);
    auto ints = graph_[id].attr(name).ints();
    return {ints.begin(), ints.end()};
  }

 private:
  using Exprs = std::map<std::tuple<NodeId, int, int>, DimExpr>;
  static const DimExpr* Find(const Exprs& exprs, const std::tuple<NodeId, int, int>& key) {
    auto found = exprs.find(key);
    return found == exprs.end() ? nullptr : &found->second;
  }

  int AttrIndex(NodeId id, std::string_view name) const {
    return graph_[id].op->info().AttributeIndex(name);
  }
  void RequireFixed(NodeId id, std::string_view name) const {
    const int index = AttrIndex(id, name);
    auto found = graph_.attr_exprs.lower_bound({id, index, 0});
    if (found == graph_.attr_exprs.end() || std::get<0>(found->first) != id ||
        std::get<1>(found->first) != index) {
      return;
    }
    Throw<NotSupported>(ErrorCode::kNotSupported, "its {} depends on a free dim", name);
  }

  std::string Evaluated(const DimExpr& expr) {
    std::string sum;
    for (auto [param, coefficient] : expr.terms) {
      std::string term = Parameter(param);
      if (coefficient != 1) term = Emit("Mul", {term, Ints({coefficient})});
      sum = sum.empty() ? term : Emit("Add", {sum, term});
    }
    return expr.constant == 0 ? sum : Emit("Add", {sum, Ints({expr.constant})});
  }

  /// i64[1], from an input that has it as a size.
  std::string Parameter(int param) {
    std::string& name = parameters_[param];
    if (!name.empty()) return name;
    for (NodeId input : graph_.inputs()) {
      for (int d = 0; d < graph_[input].type().rank(); ++d) {
        const DimExpr* expr = Find(graph_.dim_exprs, {input, 0, d});
        if (!expr || expr->constant != 0 ||
            expr->terms != std::vector{std::pair(param, int64_t{1})})
          continue;
        return name = Emit("Gather", {Emit("Shape", {NameOf({input, 0})}), Ints({d})},
                           {IntOf("axis", 0)});
      }
    }
    Throw<NotSupported>(ErrorCode::kNotSupported, "no input has the free dim by itself");
  }

  const Graph& graph_;
  format::Graph& out_;
  Naming& naming_;
  std::map<std::pair<NodeId, int>, std::string> names_;
  std::map<int, std::string> parameters_;
};

/// Appends the nodes of the writer's graph, whose inputs have names. Ops that are not written are
/// noted in `naming().missing`.
void WriteNodes(Writer& writer);

}  // namespace hammock::onnx
