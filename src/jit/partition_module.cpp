/// Lowering op by op: regions of a method's graph that a backend runs become submodules.

#include <algorithm>
#include <map>

#include "base/location_scope.h"
#include "base/throw.h"
#include "compiler/passes/graph_editor.h"
#include "compiler/pipeline.h"
#include "compiler/sizes/generalise.h"
#include "hammock/caller_scope.h"
#include "ir/graph_sizes.h"
#include "ir/primitives.h"
#include "jit/delegate_registry.h"
#include "jit/lower.h"
#include "ops/primitives/module_call.h"

namespace hammock::jit {
namespace {

constexpr char kHammock[] = "hammock";

/// The graph at sizes: one sample where these are fixed, else enough to tell how others follow.
std::vector<Graph> SamplesOf(const Graph& graph) {
  if (graph.dim_params.empty()) return {graph};
  std::vector<int64_t> sizes;
  for (const DimParam& param : graph.dim_params) sizes.push_back(param.value);
  std::vector<Graph> samples;
  for (const auto& sample : SampleSizes(sizes)) samples.push_back(AtSizes(graph, sample));
  return samples;
}

/// One method on its way: its regions are cut out of the lowered graph and replaced by calls. A
/// graph with free dims is cut at several sizes, and what comes out is generalised again.
class MethodPartitioner {
 public:
  MethodPartitioner(const std::string& backend, Module& module, const std::string& method,
                    const Any& spec)
      : backend_(backend), module_(module), method_(method), spec_(spec) {}

  PlacementReport Run() {
    const GraphBody body = module_.graph_body(method_);
    CapabilityFn capability = CapabilityOf(backend_);
    std::vector<LoweredStep> samples;
    for (const Graph& graph : SamplesOf(*body.graph)) {
      samples.push_back(LowerGraph(graph, capability));
    }
    CheckCutAlike(samples);
    report_.method = method_;
    Report(samples[0], capability, body);
    MakeRegions(samples, body);
    std::vector<Graph> replaced;
    for (const LoweredStep& step : samples) replaced.push_back(Replace(step));
    GraphBody placed = body;
    placed.graph = std::make_shared<const Graph>(General(replaced));
    Method partitioned = module_.method(method_);
    partitioned.body = std::make_shared<const GraphBody>(std::move(placed));
    module_.define(std::move(partitioned));
    return std::move(report_);
  }

 private:
  Graph General(const std::vector<Graph>& samples) const {
    Graph graph = GeneralGraph("partition: " + method_, samples);
    Verify(graph);
    return graph;
  }

  void CheckCutAlike(const std::vector<LoweredStep>& samples) const {
    auto cut = [](const LoweredStep& step) {
      std::vector<std::pair<int, std::vector<GraphValue>>> segments;
      for (const Segment& segment : step.segments) {
        segments.emplace_back(segment.target, segment.outputs);
      }
      return segments;
    };
    for (const LoweredStep& other : samples) {
      if (cut(other) == cut(samples[0])) continue;
      Throw<NotSupported>(ErrorCode::kNotSupported,
                          "partition: '{}' is cut in other places at other sizes of its free dims",
                          method_);
    }
  }

  void Report(const LoweredStep& step, const CapabilityFn& capability, const GraphBody& body) {
    for (NodeId id : step.graph.ids()) {
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
      for (GraphValue input : segment.inputs) {
        bool preloaded = CaptureOf(step.graph, input, body);
        if (!preloaded) AddCopy(step.graph, input, kHammock, backend_);
      }
      for (GraphValue output : segment.outputs) AddCopy(step.graph, output, backend_, kHammock);
    }
  }

  void AddCopy(const Graph& graph, GraphValue value, const std::string& from,
               const std::string& to) {
    const Shape& type = graph.TypeOf(value);
    report_.copies.push_back({type.to_string(), from, to, type.bytes()});
  }

  void MakeRegions(const std::vector<LoweredStep>& samples, const GraphBody& body) {
    const LoweredStep& first = samples[0];
    for (size_t i = 0; i < first.segments.size(); ++i) {
      if (first.segments[i].target != 0) continue;
      Region region = MakeRegion(first.graph, first.segments[i], body);
      std::vector<Graph> graphs;
      for (const LoweredStep& step : samples) {
        graphs.push_back(WithInputsFirst(step.segments[i].graph, region.order));
      }
      region.graph = General(graphs);
      region.module->define(SchemaFor(region), region.graph, region.captured);
      region.name = fmt::format("{}_{}_{}", method_, backend_, regions_.size());
      LowerMethods(backend_, *region.module, {{"forward", spec_}});
      module_.register_module(region.name, region.module);
      regions_.push_back(std::move(region));
    }
  }

  /// The lowered graph with one call for each region.
  Graph Replace(const LoweredStep& step) {
    GraphBuilder builder;
    values_.clear();
    for (NodeId id : step.graph.inputs()) {
      values_[{id, 0}] = builder.AddInput(step.graph[id].type());
    }
    auto region = regions_.begin();
    for (const Segment& segment : step.segments) {
      if (segment.target == 0) {
        AddCall(builder, segment, *region++);
      } else {
        Append(builder, segment);
      }
    }
    for (GraphValue output : step.graph.outputs()) builder.AddOutput(values_.at(output));
    return builder.Finish();
  }

  void Append(GraphBuilder& builder, const Segment& segment) {
    std::vector<GraphValue> operands;
    for (GraphValue input : segment.inputs) operands.push_back(values_.at(input));
    const std::vector<GraphValue> results = builder.Append(segment.graph, operands);
    for (size_t i = 0; i < results.size(); ++i) values_[segment.outputs[i]] = results[i];
  }

  struct Region {
    std::string name;
    ModulePtr module;
    std::vector<size_t> order;  // of the segment's inputs: arguments, then what is captured
    size_t arguments = 0;
    std::vector<std::string> captured;  // names in the module
    Graph graph;                        // with its inputs in that order
  };

  void AddCall(GraphBuilder& builder, const Segment& segment, const Region& region) {
    std::vector<GraphValue> operands;
    for (size_t i : region.order) operands.push_back(values_.at(segment.inputs[i]));
    std::vector<Attr> attrs = {std::make_shared<const Graph>(region.graph), region.name, "forward",
                               static_cast<int64_t>(region.arguments)};
    const NodeId call = builder.Add(ops::kModuleCall, std::move(operands), std::move(attrs)).node;
    for (size_t i = 0; i < segment.outputs.size(); ++i) {
      values_[segment.outputs[i]] = {call, static_cast<int32_t>(i)};
    }
  }

  /// A module for one method `forward`. Parameters and constants of the method are its own, so
  /// that the delegate gets them when it preprocesses, not at each call.
  Region MakeRegion(const Graph& whole, const Segment& segment, const GraphBody& body) {
    Region region;
    region.module = std::make_shared<Module>(module_.class_name());
    std::vector<size_t> captured;
    for (size_t i = 0; i < segment.inputs.size(); ++i) {
      const Capture* capture = CaptureOf(whole, segment.inputs[i], body);
      (capture ? captured : region.order).push_back(i);
      if (!capture) continue;
      Tensor tensor = capture->name.empty() ? capture->constant : module_.get_tensor(capture->name);
      region.captured.push_back(fmt::format("captured_{}", region.captured.size()));
      region.module->register_buffer(region.captured.back(), tensor);
    }
    region.arguments = region.order.size();
    region.order.insert(region.order.end(), captured.begin(), captured.end());
    return region;
  }

  /// The graph with its inputs before all else, in this order.
  static Graph WithInputsFirst(const Graph& from, const std::vector<size_t>& order) {
    GraphBuilder builder;
    std::vector<GraphValue> inputs(order.size());
    for (size_t i : order) inputs[i] = builder.AddInput(from[from.inputs()[i]].type());
    for (GraphValue result : builder.Append(from, inputs)) builder.AddOutput(result);
    return builder.Finish();
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
  std::vector<Region> regions_;
  std::map<GraphValue, GraphValue> values_;  // of a lowered graph, in the new one
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
  CallerScope caller(at);
  CheckBackendExists(name);
  CapabilityOf(name);
  for (const auto& [method, unused] : method_compile_spec) module.method(method);
  Partitioned result;
  result.module = CloneTraced(module, options, at);
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
