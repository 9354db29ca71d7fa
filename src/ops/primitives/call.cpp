#include <algorithm>

#include "hammock/ir/graph.h"
#include "hammock/op_builder.h"
#include "ir/graph_sizes.h"
#include "ir/primitives.h"
#include "ops/kit/record.h"
#include "ops/primitives/module_call.h"

namespace hammock::ops {
namespace {

/// A body with dim parameters at the sizes of its operands.
Graph SizedBody(const Graph& body, const std::vector<Shape>& operands) {
  BoundSizes sizes = BindSizes(body, operands);
  return sizes.misfit ? body : AtSizes(body, sizes.parameters);  // one that misfits is refused
}

void InferBody(const hammock::InferCall& call, const Graph& body) {
  for (size_t i = 0; i < call.in.size(); ++i) {
    const Shape& wanted = body[body.inputs()[i]].type();
    if (*call.in[i] == wanted) continue;
    Refuse(call, ErrorCode::kShapeMismatch, "operand {} is {}, needs {}", i,
           call.in[i]->to_string(), wanted.to_string());
  }
  for (GraphValue output : body.outputs()) call.out.push_back(body.TypeOf(output));
}

void InferCall(const hammock::InferCall& call) {
  const Graph& body = call.attrs[0].graph();
  if (body.inputs().size() != call.in.size()) {
    Refuse(call, ErrorCode::kShapeMismatch, "`body` takes {} values, {} are given",
           body.inputs().size(), call.in.size());
  }
  if (body.dim_params.empty()) return InferBody(call, body);
  std::vector<Shape> operands;
  for (const Shape* operand : call.in) operands.push_back(*operand);
  InferBody(call, SizedBody(body, operands));
}

std::vector<Tensor> ExpandSized(const ExpandCall& call, const Graph& body) {
  NodeMap<std::vector<Tensor>> values;
  values.reserve(body.size());
  size_t next_input = 0;
  auto at = [&](GraphValue value) {
    return !value.node ? Tensor() : values[value.node].at(value.index);
  };
  for (const GraphNode& node : body.nodes()) {
    if (node.op == &kInput) {
      values.push_back({call.in[next_input++]});
      continue;
    }
    std::vector<Tensor> operands;
    for (GraphValue input : node.inputs) operands.push_back(at(input));
    values.push_back(ApplyMulti(*node.op, Location::current(), operands, node.attrs));
  }
  std::vector<Tensor> results;
  for (GraphValue output : body.outputs()) results.push_back(at(output));
  return results;
}

std::vector<Tensor> ExpandBody(const ExpandCall& call) {
  const Graph& body = call.attrs[0].graph();
  if (body.dim_params.empty()) return ExpandSized(call, body);
  std::vector<Shape> operands;
  for (const Tensor& operand : call.in) operands.push_back(operand.shape());
  return ExpandSized(call, SizedBody(body, operands));
}

}  // namespace

constinit const OpDef kCall = {
    .schema = "call(Tensor[] operands, Graph body) -> Tensor[]",
    .doc = "The results of `body` for the operands.",
    .infer = InferCall,
    .expand = ExpandBody,
    .can_fail = true,
};

constinit const OpDef kModuleCall = {
    .schema =
        "module_call(Tensor[] operands, Graph body, str path, str method, int arguments) "
        "-> Tensor[]",
    .doc =
        "The results of a method of the submodule at `path` for the first `arguments` operands. "
        "`body` is its graph, for backends that compile it with the ops around it.",
    .infer = InferCall,
    .expand = ExpandBody,
    .can_fail = true,
};

}  // namespace hammock::ops
