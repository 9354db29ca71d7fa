/// A compiled step as JSON, for profiles: nodes in order, and the kernel that each landed in.

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/location_scope.h"
#include "base/log.h"
#include "hammock/compiler/describe_schedule.h"
#include "hammock/ir/graph.h"
#include "ir/graph_access.h"
#include "runtime/cache/computation_cache.h"
#include "runtime/cache/general_step.h"
#include "runtime/devices/backend_calls.h"
#include "runtime/diagnose/profile_points.h"

namespace hammock {

namespace {

using Json = nlohmann::ordered_json;

std::string AttributesOf(const GraphNode& node) {
  constexpr size_t kMost = 400;
  std::string text;
  for (size_t i = 0; i < node.attrs.size(); ++i) {
    if (!text.empty()) text += ", ";
    text += node.op->info().AttributeName(static_cast<int>(i)) + "=";
    AppendAttr(text, node.attrs[i]);
  }
  if (text.size() > kMost) text = text.substr(0, kMost) + "...";
  return text;
}

std::string TypesOf(const GraphNode& node) {
  std::string text;
  for (const Shape& type : node.types) text += (text.empty() ? "" : ", ") + type.to_string();
  return text;
}

std::string FramesText(LocationId location) {
  std::string text;
  for (const ModuleFrame& frame : FramesOf(location)) {
    text += (text.empty() ? "" : " / ") + frame.label;
  }
  return text;
}

/// The graph without kernels where the backend fails: a step does not fail because of its profile.
lazy::ComputationInfo InfoOf(const CompiledSegment& segment) {
  try {
    return CallBackend(*segment.device, "DescribeComputation", [&](auto& backend) {
      return backend.DescribeComputation(segment.computation);
    });
  } catch (const Error& error) {
    LogOnce("describe:" + segment.device->type, LogLevel::kWarn, "profile: {}", error.what());
    lazy::ComputationInfo info;
    info.graph = segment.computation->graph();
    return info;
  }
}

/// Builds the lists of one step from its segments, whose values are numbered through.
class GraphWriter {
 public:
  GraphWriter(const CompiledStep& step, ProfileFacts* facts) : step_(step), facts_(*facts) {
    value_nodes_.resize(static_cast<size_t>(step.num_values), -1);
  }

  Json Write() {
    for (const CompiledSegment& segment : step_.segments) AddSegment(segment);
    Json outputs = Json::array();
    for (int result : step_.results) outputs.push_back(value_nodes_[result]);
    return {
        {"graph", step_.number},
        {"hash", ToString(step_.hash)},
        {"device", step_.device->name()},
        {"where", step_.where},
        {"traced_nodes", step_.sizes.empty() ? step_.traced.size() : step_.general->traced_nodes},
        {"compile_ms", step_.compile_ns / 1e6},
        {"general", step_.general != nullptr},
        {"planned_bytes", facts_.planned_bytes},
        {"recomputed", std::move(recomputed_)},
        {"argument_bytes", step_.argument_bytes},
        {"result_bytes", step_.result_bytes},
        {"fallbacks", Fallbacks()},
        {"nodes", std::move(nodes_)},
        {"outputs", std::move(outputs)},
        {"kernels", std::move(kernels_)},
        {"lines", std::move(lines_)}};
  }

 private:
  Json Fallbacks() const {
    Json list = Json::array();
    for (const Refusal& refusal : step_.refusals) {
      list.push_back({{"op", refusal.op},
                      {"reason", refusal.reason},
                      {"where", LocationText(refusal.location)}});
    }
    return list;
  }

  /// Graphs of loaded programs have no locations, but the numbers of nodes of the computation.
  static void LocateNodes(Graph& graph, const Graph& computed) {
    for (NodeId id : graph.ids()) {
      GraphNode& node = graph.mutable_node(id);
      if (node.location != 0 || !computed.Contains(node.origin)) continue;
      node.location = computed[node.origin].location;
    }
  }

  void AddSegment(const CompiledSegment& segment) {
    lazy::ComputationInfo info = InfoOf(segment);
    LocateNodes(info.graph, segment.computation->graph());
    const Graph& graph = info.graph;
    facts_.first_kernels.push_back(static_cast<int64_t>(kernels_.size()));
    if (segment.device == step_.device) {
      facts_.planned_bytes = std::max(facts_.planned_bytes, info.peak_bytes);
    }
    AddRecomputation(info);
    NodeMap<int> kernel_of(graph.size(), -1);
    for (size_t k = 0; k < info.kernels.size(); ++k) {
      for (NodeId id : info.kernels[k].nodes) {
        kernel_of[id] = static_cast<int>(kernels_.size() + k);
      }
    }
    NodeMap<int64_t> numbers(graph.size(), -1);
    for (size_t i = 0; i < graph.inputs().size() && i < segment.inputs.size(); ++i) {
      int64_t& made = value_nodes_[segment.inputs[i]];
      if (made < 0) made = AddNode(graph[graph.inputs()[i]], {}, -1);
      numbers[graph.inputs()[i]] = made;
    }
    for (NodeId id : graph.ids()) {
      if (numbers[id] >= 0) continue;
      numbers[id] = AddNode(graph[id], numbers, kernel_of[id]);
    }
    for (size_t i = 0; i < graph.outputs().size(); ++i) {
      value_nodes_[segment.first_output + i] = numbers[graph.outputs()[i].node];
    }
    for (lazy::KernelInfo& kernel : info.kernels) AddKernel(kernel, segment);
  }

  /// A device that tells of no kernels has no schedule, and its graph may not be fit for one.
  void AddRecomputation(const lazy::ComputationInfo& info) {
    if (info.kernels.empty()) return;
    const compiler::Recomputation again = compiler::FindRecomputation(info.graph);
    if (again.nodes.empty()) return;
    recomputed_ += (recomputed_.empty() ? "" : "; ") + again.to_string();
  }

  void AddKernel(lazy::KernelInfo& kernel, const CompiledSegment& segment) {
    constexpr size_t kMostText = 1 << 16;
    if (kernel.text.size() > kMostText) kernel.text = kernel.text.substr(0, kMostText) + "\n...";
    Json json = {{"name", std::move(kernel.name)},
                 {"kind", std::move(kernel.kind)},
                 {"bytes", kernel.bytes},
                 {"flops", kernel.flops},
                 {"text", std::move(kernel.text)}};
    if (segment.fallback) json["fallback"] = segment.device->name();
    kernels_.push_back(std::move(json));
  }

  int64_t AddNode(const GraphNode& node, const NodeMap<int64_t>& numbers, int kernel) {
    Json inputs = Json::array();
    for (GraphValue input : node.inputs) {
      if (input.node) inputs.push_back(numbers[input.node]);
    }
    std::string line = LocationText(node.location);
    Json json = {{"op", node.op->info().name}, {"type", TypesOf(node)}, {"in", std::move(inputs)}};
    if (kernel >= 0) json["kernel"] = kernel;
    if (std::string attributes = AttributesOf(node); !attributes.empty()) {
      json["attrs"] = std::move(attributes);
    }
    if (!line.empty()) {
      json["at"] = line;
      if (std::string frames = FramesText(node.location); !frames.empty()) {
        json["module"] = std::move(frames);
      }
      if (!lines_.contains(line)) lines_[line] = SourceLine(line);
    }
    nodes_.push_back(std::move(json));
    return static_cast<int64_t>(nodes_.size()) - 1;
  }

  const CompiledStep& step_;
  ProfileFacts& facts_;
  std::string recomputed_;            // for people; empty: nothing is
  std::vector<int64_t> value_nodes_;  // by value number: the node that makes it
  Json nodes_ = Json::array();
  Json kernels_ = Json::array();
  Json lines_ = Json::object();
};

}  // namespace

std::string DescribeGraph(const CompiledStep& step, ProfileFacts* facts) {
  return GraphWriter(step, facts).Write().dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace hammock
