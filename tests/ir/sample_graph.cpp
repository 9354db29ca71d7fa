#include "sample_graph.h"

namespace hammock {

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

std::vector<std::pair<const OpDef*, SampleCall>> AllSamples() {
  std::vector<std::pair<const OpDef*, SampleCall>> all;
  for (const OpDef* op : op_registry::All()) {
    if (!op->IsNode()) continue;
    for (SampleCall& sample : SampleCalls(*op)) all.emplace_back(op, std::move(sample));
  }
  return all;
}

}  // namespace hammock
