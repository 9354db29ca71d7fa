#include "ir/graph_sizes.h"

#include "ir/graph_access.h"

namespace hammock {
namespace {

const DimExpr* ExprOf(const Graph& graph, size_t input, int dim) {
  auto expr = graph.dim_exprs.find({graph.inputs()[input], 0, dim});
  return expr == graph.dim_exprs.end() ? nullptr : &expr->second;
}

/// The parameter that an expression is, -1 for others.
int ParameterIn(const DimExpr& expr) {
  bool plain = expr.constant == 0 && expr.terms.size() == 1 && expr.terms[0].second == 1;
  return plain ? expr.terms[0].first : -1;
}

bool Fits(const Graph& graph, size_t input, const Shape& given,
          const std::vector<int64_t>& parameters) {
  const Shape& type = graph[graph.inputs()[input]].type();
  for (int d = 0; d < type.rank(); ++d) {
    const DimExpr* expr = ExprOf(graph, input, d);
    if (given.size(d) != (expr ? expr->Evaluate(parameters) : type.size(d))) return false;
  }
  return true;
}

}  // namespace

BoundSizes BindSizes(const Graph& general, const std::vector<Shape>& inputs) {
  BoundSizes bound{std::vector<int64_t>(general.dim_params.size(), -1), std::nullopt};
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Shape& type = general[general.inputs()[i]].type();
    if (inputs[i].dtype() != type.dtype() || inputs[i].rank() != type.rank()) {
      bound.misfit = i;
      return bound;
    }
    for (int d = 0; d < type.rank(); ++d) {
      const DimExpr* expr = ExprOf(general, i, d);
      int parameter = expr ? ParameterIn(*expr) : -1;
      if (parameter >= 0) bound.parameters[parameter] = inputs[i].size(d);
    }
  }
  for (size_t i = 0; i < inputs.size() && !bound.misfit; ++i) {
    if (!Fits(general, i, inputs[i], bound.parameters)) bound.misfit = i;
  }
  return bound;
}

Graph AtSizes(const Graph& general, const std::vector<int64_t>& parameters) {
  Graph graph = general;
  for (NodeId id : graph.ids()) {
    graph.mutable_node(id).attrs.Map([&](const Attr& attr) {
      if (attr.kind() != Attr::Kind::kGraph || attr.graph().dim_params.empty()) return attr;
      return Attr(std::make_shared<const Graph>(AtSizes(attr.graph(), parameters)));
    });
  }
  for (const auto& [key, expr] : general.dim_exprs) {
    auto [node, output, dim] = key;
    SharedList<Shape>& types = graph.mutable_node(node).types;
    Dims sizes = types[output].sizes();
    sizes[dim] = expr.Evaluate(parameters);
    CheckSizes("sizes", sizes);
    types.Set(output, types[output].With(sizes));
  }
  for (const auto& [key, expr] : general.attr_exprs) {
    auto [node, index, position] = key;
    SharedList<Attr>& attrs = graph.mutable_node(node).attrs;
    attrs.Set(index, WithSize(attrs[index], position, expr.Evaluate(parameters)));
  }
  graph.dim_params.clear();
  graph.dim_exprs.clear();
  graph.attr_exprs.clear();
  return graph;
}

}  // namespace hammock
