#include "ir/sample.h"

#include <fmt/format.h>

#include <sstream>
#include <string>

#include "ir/graph_access.h"

namespace hammock {

SampleCall ParseSample(const OpDef& op, const Sample& sample) {
  std::string inputs, arguments;
  std::istringstream operands(sample.operands);
  std::string type;
  std::vector<bool> present;
  for (int next = 0; operands >> type;) {
    arguments += present.empty() ? " " : ", ";
    present.push_back(type != "none");
    if (type == "none") {
      arguments += "none";
      continue;
    }
    inputs += fmt::format("%{} = input : {}\n", next, type);
    arguments += fmt::format("%{}", next++);
  }
  Graph graph = ParseGraphUnverified(
      fmt::format("{}%99:0 = {}{} {} : ()\nreturn", inputs, op.name(), arguments, sample.attrs));
  SampleCall call;
  call.attrs = graph.nodes().back().attrs;
  for (const GraphValue& input : graph.nodes().back().inputs) {
    call.operands.push_back(!input.node ? std::nullopt : std::optional(graph.TypeOf(input)));
  }
  return call;
}

std::vector<SampleCall> SampleCalls(const OpDef& op) {
  std::vector<SampleCall> calls;
  for (const Sample& sample : op.samples) {
    if (sample.operands) calls.push_back(ParseSample(op, sample));
  }
  if (!calls.empty() || !op.IsElementwise() || !op.info().attribute_args.empty()) return calls;
  SampleCall call;
  for (size_t i = 0; i < op.info().operand_args.size(); ++i) {
    DType dtype = op.rule == DTypeRule::kInteger ? DType::kI32 : DType::kF32;
    if (op.rule == DTypeRule::kSelect && i == 0) dtype = DType::kBool;
    call.operands.emplace_back(Shape(dtype, {2, 3}));
  }
  return {call};
}

Graph GraphOfSample(const OpDef& op, const SampleCall& sample) {
  Graph graph;
  std::vector<GraphValue> operands;
  for (const auto& type : sample.operands) {
    operands.push_back(type ? graph.AddInput(*type) : GraphValue{});
  }
  NodeId node = graph.AddNode(op, operands, sample.attrs);
  for (size_t i = 0; i < graph[node].types.size(); ++i) {
    graph.AddOutput({node, static_cast<int32_t>(i)});
  }
  return graph;
}

}  // namespace hammock
