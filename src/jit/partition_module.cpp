/// Lowering op by op: regions of a method's graph that a backend runs become submodules.

#include <algorithm>
#include <map>

#include "base/throw.h"
#include "compiler/pipeline.h"
#include "ir/location_scope.h"
#include "jit/delegate_registry.h"
#include "jit/lower.h"
#include "ops/module_call.h"
#include "ops/primitives.h"

namespace hammock::jit {
namespace {

constexpr char kHammock[] = "hammock";

/// One method on its way: its regions are cut out of the lowered graph and replaced by calls.
class MethodPartitioner {
 public:
  MethodPartitioner(const std::string& backend, Module& module, const std::string& method,
                    const Any& spec)
      : backend_(backend), module_(module), method_(method), spec_(spec) {}

  PlacementReport Run() {
    const GraphBody body = module_.graph_body(method_);
    if (!body.graph->dim_params.empty()) {
      Throw<NotSupported>(ErrorCode::kNotSupported,
                          "partition: '{}' has free dims; regions are cut at fixed sizes", method_);
    }
    CapabilityFn capability = CapabilityOf(backend_);
    LoweredStep step = LowerGraph(*body.graph, capability);
    report_.method = method_;
    Report(step, capability);
    GraphBody placed = body;
    placed.graph = std::make_shared<const Graph>(Replace(step, body));
    Method partitioned = module_.method(method_);
    partitioned.body = std::make_shared<const GraphBody>(std::move(placed));
    module_.define(std::move(partitioned));
    return std::move(report_);
  }

 private:
  void Report(const LoweredStep& step, const CapabilityFn& capability) {
    for (NodeId id = 0; id < step.graph.size(); ++id) {
      const GraphNode& node = step.graph[id];
      if (node.op == &ops::kInput || node.op == &ops::kConstant) continue;
      lazy::Capability answer = capability(step.graph, id);
      bool refused = answer.verdict == lazy::Capability::Verdict::kRefuse;
      report_.nodes.push_back({node.op->name(), LocationText(node.location),
                               refused ? kHammock : backend_, refused ? answer.reason : ""});
    }
    for (const Segment& segment : step.segments) {
      bool own = segment.target == 0;
      report_.regions += own;
      if (!own) continue;
      for (GraphValue input : segment.inputs) AddCopy(step.graph, input, kHammock, backend_);
      for (GraphValue output : segment.outputs) AddCopy(step.graph, output, backend_, kHammock);
    }
  }

  void AddCopy(const Graph& graph, GraphValue value, const std::string& from,
               const std::string& to) {
    const Shape& type = graph.TypeOf(value);
    report_.copies.push_back({type.to_string(), from, to, type.bytes()});
  }

  /// The lowered graph with one call for each region.
  Graph Replace(const LoweredStep& step, const GraphBody& body) {
    Graph graph;
    for (NodeId id : step.graph.inputs()) values_[{id, 0}] = graph.AddInput(step.graph[id].type());
    int regions = 0;
    for (const Segment& segment : step.segments) {
      if (segment.target == 0) {
        std::string child = fmt::format("{}_{}_{}", method_, backend_, regions++);
        AddRegion(graph, step.graph, segment, body, child);
      } else {
        Inline(graph, segment);
      }
    }
    for (GraphValue output : step.graph.outputs()) graph.AddOutput(values_.at(output));
    Verify(graph);
    return graph;
  }

  void Inline(Graph& graph, const Segment& segment) {
    std::map<GraphValue, GraphValue> inside;
    for (size_t i = 0; i < segment.inputs.size(); ++i) {
      inside[{segment.graph.inputs()[i], 0}] = values_.at(segment.inputs[i]);
    }
    for (NodeId id = 0; id < segment.graph.size(); ++id) {
      GraphNode node = segment.graph[id];
      if (node.op == &ops::kInput) continue;
      for (GraphValue& input : node.inputs) {
        if (input.node >= 0) input = inside.at(input);
      }
      int outputs = static_cast<int>(node.types.size());
      NodeId copy = graph.Append(std::move(node));
      for (int i = 0; i < outputs; ++i) inside[{id, i}] = {copy, i};
    }
    for (size_t i = 0; i < segment.outputs.size(); ++i) {
      values_[segment.outputs[i]] = inside.at(segment.graph.outputs()[i]);
    }
  }

  void AddRegion(Graph& graph, const Graph& whole, const Segment& segment, const GraphBody& body,
                 const std::string& child) {
    Region region = MakeRegion(whole, segment, body);
    LowerMethods(backend_, *region.module, {{"forward", spec_}});
    module_.register_module(child, region.module);
    std::vector<GraphValue> operands;
    for (GraphValue input : region.operands) operands.push_back(values_.at(input));
    std::vector<Attr> attrs = {std::make_shared<const Graph>(region.graph), child, "forward",
                               static_cast<int64_t>(region.arguments)};
    NodeId call = graph.AddNode(ops::kModuleCall, std::move(operands), std::move(attrs));
    for (size_t i = 0; i < segment.outputs.size(); ++i) {
      values_[segment.outputs[i]] = {call, static_cast<int32_t>(i)};
    }
  }

  struct Region {
    ModulePtr module;
    Graph graph;                       // inputs: arguments, then what the module captures
    std::vector<GraphValue> operands;  // of the whole graph, in the same order
    size_t arguments = 0;
  };

  /// A module with one method `forward`. Parameters and constants of the method are its own, so
  /// that the delegate gets them when it preprocesses, not at each call.
  Region MakeRegion(const Graph& whole, const Segment& segment, const GraphBody& body) {
    Region region;
    region.module = std::make_shared<Module>(module_.class_name());
    std::vector<size_t> order, captured;
    for (size_t i = 0; i < segment.inputs.size(); ++i) {
      (CaptureOf(whole, segment.inputs[i], body) ? captured : order).push_back(i);
    }
    region.arguments = order.size();
    std::vector<std::string> names;
    for (size_t i : captured) {
      const Capture& capture = *CaptureOf(whole, segment.inputs[i], body);
      Tensor tensor = capture.name.empty() ? capture.constant : module_.get_tensor(capture.name);
      names.push_back(fmt::format("captured_{}", names.size()));
      region.module->register_buffer(names.back(), tensor);
    }
    order.insert(order.end(), captured.begin(), captured.end());
    std::map<NodeId, NodeId> inputs;
    for (size_t i : order) {
      region.operands.push_back(segment.inputs[i]);
      NodeId from = segment.graph.inputs()[i];
      inputs[from] = region.graph.AddInput(segment.graph[from].type()).node;
    }
    std::map<NodeId, NodeId> nodes = inputs;
    for (NodeId id = 0; id < segment.graph.size(); ++id) {
      GraphNode node = segment.graph[id];
      if (node.op == &ops::kInput) continue;
      for (GraphValue& input : node.inputs) {
        if (input.node >= 0) input.node = nodes.at(input.node);
      }
      nodes[id] = region.graph.Append(std::move(node));
    }
    for (GraphValue output : segment.graph.outputs()) {
      region.graph.AddOutput({nodes.at(output.node), output.index});
    }
    region.module->define(SchemaFor(region), region.graph, names);
    return region;
  }

  static std::string SchemaFor(const Region& region) {
    std::string schema = "forward(";
    for (size_t i = 0; i < region.arguments; ++i) {
      schema += fmt::format("{}Tensor x{}", i == 0 ? "" : ", ", i);
    }
    schema += ") -> ";
    size_t results = region.graph.outputs().size();
    if (results == 1) return schema + "Tensor";
    schema += "(";
    for (size_t i = 0; i < results; ++i) schema += i == 0 ? "Tensor" : ", Tensor";
    return schema + ")";
  }

  /// The capture that an input of the whole graph is; null for arguments and other values.
  static const Capture* CaptureOf(const Graph& whole, GraphValue value, const GraphBody& body) {
    auto input = std::ranges::find(whole.inputs(), value.node);
    if (input == whole.inputs().end()) return nullptr;
    size_t index = static_cast<size_t>(input - whole.inputs().begin());
    if (index < body.num_arguments()) return nullptr;
    const Capture& capture = body.captures[index - body.num_arguments()];
    bool written = std::ranges::find(body.writes, static_cast<int>(index)) != body.writes.end();
    return capture.random_blocks > 0 || written ? nullptr : &capture;
  }

  const std::string& backend_;
  Module& module_;
  const std::string& method_;
  const Any& spec_;
  PlacementReport report_;
  std::map<GraphValue, GraphValue> values_;  // of the lowered graph, in the new one
};

/// "a.b" for the frames a(A)::forward, b(B)::forward.
std::string PathOf(const std::vector<ModuleFrame>& frames, size_t count) {
  std::string path;
  for (size_t i = 0; i < count; ++i) {
    path += (i == 0 ? "" : ".") + frames[i].label.substr(0, frames[i].label.find('('));
  }
  return path;
}

}  // namespace

void CheckNotInlined(const Module& module, const std::string& path) {
  for (const auto& [above, owner] : module.named_modules()) {
    if (!above.empty() && !path.starts_with(above + ".")) continue;
    std::string below = above.empty() ? path : path.substr(above.size() + 1);
    for (const Method& method : owner->methods()) {
      if (!method.body) continue;
      for (const GraphNode& node : method.body->graph->nodes()) {
        std::vector<ModuleFrame> frames = FramesOf(node.location);
        for (size_t count = 1; count <= frames.size(); ++count) {
          if (PathOf(frames, count) != below) continue;
          Throw(ErrorCode::kValue,
                "to_backend: method '{}' of {} is a graph that has the ops of '{}' in it; lower "
                "the submodule before that method is traced",
                method.schema.name(), owner->class_name(), below);
        }
      }
    }
  }
}

Partitioned partition_to_backend(const std::string& name, Module& module,
                                 const AnyDict& method_compile_spec, const LowerOptions& options,
                                 Location at) {
  CheckBackendExists(name);
  CapabilityOf(name);
  for (const auto& [method, unused] : method_compile_spec) module.method(method);
  Partitioned result;
  result.module = CloneTraced(module, method_compile_spec, options, at);
  for (const auto& [method, spec] : method_compile_spec) {
    result.placements.push_back(MethodPartitioner(name, *result.module, method, spec).Run());
  }
  AnyDict reports;
  for (const PlacementReport& report : result.placements) reports[report.method] = report.ToText();
  result.module->set_attribute("__placement", reports);
  return result;
}

std::string PlacementReport::ToText() const {
  std::string text =
      fmt::format("{}: {} region{} lowered\n", method, regions, regions == 1 ? "" : "s");
  for (const NodePlacement& node : nodes) {
    text += fmt::format("  {} on {}{}{}\n", node.op, node.placed_on,
                        node.where.empty() ? "" : " at " + node.where,
                        node.reason.empty() ? "" : ": " + node.reason);
  }
  int64_t bytes = 0;
  for (const BoundaryCopy& copy : copies) {
    text +=
        fmt::format("  {} from {} to {}: {} bytes\n", copy.type, copy.from, copy.to, copy.bytes);
    bytes += copy.bytes;
  }
  return text + fmt::format("  {} bytes cross at each call\n", bytes);
}

}  // namespace hammock::jit
