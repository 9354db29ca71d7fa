#include <algorithm>

#include "hammock/ir/graph.h"
#include "hammock/op_builder.h"
#include "ops/module_call.h"
#include "ops/primitives.h"
#include "ops/record.h"

namespace hammock::ops {
namespace {

void InferCall(const hammock::InferCall& call) {
  const Graph& body = call.attrs[0].graph();
  if (body.inputs().size() != call.in.size()) {
    Refuse(call, ErrorCode::kShapeMismatch, "`body` takes {} values, {} are given",
           body.inputs().size(), call.in.size());
  }
  for (size_t i = 0; i < call.in.size(); ++i) {
    const Shape& wanted = body[body.inputs()[i]].type();
    if (*call.in[i] == wanted) continue;
    Refuse(call, ErrorCode::kShapeMismatch, "operand {} is {}, needs {}", i,
           call.in[i]->to_string(), wanted.to_string());
  }
  for (GraphValue output : body.outputs()) call.out.push_back(body.TypeOf(output));
}

std::vector<Tensor> ExpandBody(const ExpandCall& call) {
  const Graph& body = call.attrs[0].graph();
  std::vector<std::vector<Tensor>> values;
  values.reserve(static_cast<size_t>(body.size()));
  size_t next_input = 0;
  auto at = [&](GraphValue value) {
    return value.node < 0 ? Tensor() : values[static_cast<size_t>(value.node)].at(value.index);
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

}  // namespace

constinit const OpDef kCall = {
    .schema = "call(Tensor[] operands, Graph body) -> Tensor[]",
    .doc = "What `body` returns for the operands.",
    .infer = InferCall,
    .expand = ExpandBody,
    .can_fail = true,
};

constinit const OpDef kModuleCall = {
    .schema =
        "module_call(Tensor[] operands, Graph body, str path, str method, int arguments) "
        "-> Tensor[]",
    .doc =
        "What a method of the submodule at `path` returns for the first `arguments` operands. "
        "`body` says what it computes, for backends that compile it with what is around it.",
    .infer = InferCall,
    .expand = ExpandBody,
    .can_fail = true,
};

}  // namespace hammock::ops
