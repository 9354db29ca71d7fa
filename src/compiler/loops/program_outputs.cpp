#include "hammock/compiler/program_outputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

namespace hammock::compiler {

Graph WithOrigins(Graph graph) {
  for (NodeId id : graph.ids()) {
    GraphNode& node = graph.mutable_node(id);
    node.origin = id;
    for (size_t i = 0; i < node.attrs.size(); ++i) {
      if (node.attrs[i].kind() != Attr::Kind::kGraph) continue;
      // Equal but for the origins, so that Map would leave it as it is.
      node.attrs.Set(i, std::make_shared<const Graph>(WithOrigins(node.attrs[i].graph())));
    }
  }
  return graph;
}

std::vector<OutputSource> FindOutputSources(const Schedule& schedule) {
  BufferMap<int> input_of(schedule.buffers.size(), -1);
  BufferMap<int> output_of(schedule.buffers.size(), -1);  // the first
  for (size_t i = schedule.inputs.size(); i-- > 0;) {
    input_of[schedule.inputs[i]] = static_cast<int>(i);
  }
  std::vector<OutputSource> outputs;
  for (size_t i = 0; i < schedule.outputs.size(); ++i) {
    BufferId buffer = schedule.outputs[i];
    outputs.push_back({input_of[buffer], output_of[buffer]});
    if (output_of[buffer] < 0) output_of[buffer] = static_cast<int>(i);
  }
  return outputs;
}

std::string LargestBuffers(const Graph& graph, const Schedule& schedule) {
  constexpr size_t kShown = 3;
  std::vector<BufferId> written;
  for (const Command& command : schedule.commands) {
    written.insert(written.end(), command.writes.begin(), command.writes.end());
  }
  auto larger = [&](BufferId a, BufferId b) {
    return schedule.buffers[a].bytes() > schedule.buffers[b].bytes();
  };
  std::stable_sort(written.begin(), written.end(), larger);
  std::string text;
  for (size_t k = 0; k < std::min(written.size(), kShown); ++k) {
    auto after = std::upper_bound(schedule.first.begin(), schedule.first.end(), written[k]);
    const NodeId id(after - schedule.first.begin() - 1);
    const GraphNode& node = graph[id];
    const Shape& type = node.types[written[k] - schedule.first[id]];
    std::string where = LocationText(node.location);
    text += fmt::format("{}{} of {} ({} bytes){}{}", k == 0 ? "" : ", ", type.to_string(),
                        node.op->name(), type.bytes(), where.empty() ? "" : " at ", where);
  }
  return text;
}

}  // namespace hammock::compiler
