#include "sample_graph.h"

#include <fmt/format.h>

#include <deque>
#include <sstream>
#include <string>

namespace hammock {
namespace {

// Kept for the process: a Sample points to its text.
const char* Keep(std::string text) {
  static std::deque<std::string>& texts = *new std::deque<std::string>;
  return texts.emplace_back(std::move(text)).c_str();
}

Sample ElementwiseSample(const OpDef& op) {
  std::string operands;
  for (size_t i = 0; i < op.info().operand_args.size(); ++i) {
    const char* dtype = op.rule == DTypeRule::kInteger ? "i32" : "f32";
    if (op.rule == DTypeRule::kSelect && i == 0) dtype = "bool";
    operands += fmt::format("{}[2,3] ", dtype);
  }
  return {.operands = Keep(operands)};
}

}  // namespace

Graph GraphOfSample(const OpDef& op, const Sample& sample) {
  std::string inputs;
  std::string arguments;
  std::istringstream operands(sample.operands);
  std::string type;
  for (int i = 0, next = 0; operands >> type; ++i) {
    arguments += i == 0 ? " " : ", ";
    if (type == "none") {
      arguments += "none";
      continue;
    }
    inputs += fmt::format("%{} = input : {}\n", next, type);
    arguments += fmt::format("%{}", next++);
  }
  // Read with made-up types for its attributes, then inferred.
  Graph read = ParseGraph(
      fmt::format("{}%99:0 = {}{} {} : ()\nreturn", inputs, op.name(), arguments, sample.attrs));
  Graph graph = ParseGraph(inputs + "return");
  const GraphNode& call = read.nodes().back();
  NodeId node = graph.AddNode(op, call.inputs, call.attrs);
  for (size_t i = 0; i < graph[node].types.size(); ++i) {
    graph.AddOutput({node, static_cast<int32_t>(i)});
  }
  return graph;
}

std::vector<std::pair<const OpDef*, Sample>> AllSamples() {
  std::vector<std::pair<const OpDef*, Sample>> all;
  for (const OpDef* op : op_registry::All()) {
    if (!op->IsNode()) continue;
    size_t before = all.size();
    for (const Sample& sample : op->samples) {
      if (sample.operands) all.emplace_back(op, sample);
    }
    if (all.size() == before && op->IsElementwise() && op->info().attribute_args.empty()) {
      all.emplace_back(op, ElementwiseSample(*op));
    }
  }
  return all;
}

}  // namespace hammock
