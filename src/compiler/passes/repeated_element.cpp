#include "compiler/passes/repeated_element.h"

#include <cmath>

#include "ir/primitives.h"

namespace hammock {

std::optional<GraphValue> RepeatedElement(const Graph& graph, GraphValue value) {
  auto step_over = [&](const OpDef& op) {
    if (graph[value.node].op != &op) return;
    GraphValue source = graph[value.node].inputs[0];
    if (graph.TypeOf(source).numel() == 1) value = source;
  };
  step_over(ops::kBroadcast);
  step_over(ops::kReshape);
  if (graph.TypeOf(value).numel() != 1) return std::nullopt;
  return value;
}

std::optional<Scalar> ConstantOf(const Graph& graph, GraphValue value) {
  auto op = [&] { return graph[value.node].op; };
  while (op() == &ops::kBroadcast || op() == &ops::kReshape) value = graph[value.node].inputs[0];
  if (op() != &ops::kConstant) return std::nullopt;
  const GraphNode& constant = graph[value.node];
  return constant.attrs[0].scalar().To(constant.attrs[1].dtype());
}

bool IsZero(const Graph& graph, GraphValue value) {
  std::optional<Scalar> number = ConstantOf(graph, value);
  return number && number->ToDouble() == 0 && !std::signbit(number->ToDouble());
}

}  // namespace hammock
