/// Running a method's graph.

#include <algorithm>
#include <map>
#include <mutex>

#include "base/location_scope.h"
#include "base/never_destroyed.h"
#include "base/throw.h"
#include "hammock/ir/graph.h"
#include "hammock/op_builder.h"
#include "hammock/ops.h"
#include "ir/graph_sizes.h"
#include "ir/primitives.h"
#include "module/module_access.h"
#include "ops/primitives/collectives.h"
#include "ops/primitives/module_call.h"
#include "trace/hooks.h"
#include "trace/record.h"
#include "trace/rng.h"
#include "trace/tensor_impl.h"
#include "trace/write.h"

namespace hammock {
namespace {

std::string PrintType(const Graph& graph, NodeId input) {
  Graph alone;
  alone.dim_params = graph.dim_params;
  alone.AddInput(graph[input].type());
  for (const auto& [key, expr] : graph.dim_exprs) {
    if (std::get<0>(key) == input) alone.dim_exprs[{NodeId(0), 0, std::get<2>(key)}] = expr;
  }
  std::string text = ToText(alone);
  size_t start = text.find(" : ") + 3;
  return text.substr(start, text.find('\n', start) - start);
}

[[noreturn]] void RefuseType(const FunctionSchema& schema, const Graph& graph, size_t input,
                             const Tensor& given) {
  Throw(ErrorCode::kShapeMismatch, "{}: input {} of its graph is {}, the one given is {}",
        schema.name(), input, PrintType(graph, graph.inputs()[input]), given.shape().to_string());
}

/// Graphs at sizes, as long as the graph with free dims lives.
class SizedGraphs {
 public:
  std::shared_ptr<const Graph> Get(const std::shared_ptr<const Graph>& general,
                                   const std::vector<int64_t>& parameters) {
    std::lock_guard lock(mutex_);
    Entry& entry = entries_[general.get()];
    if (entry.general.lock() != general) entry = {general, {}};
    if (entry.at_sizes.size() > kMostSizes) entry.at_sizes.clear();
    std::shared_ptr<const Graph>& graph = entry.at_sizes[parameters];
    if (!graph) graph = std::make_shared<const Graph>(AtSizes(*general, parameters));
    std::shared_ptr<const Graph> result = graph;
    if (entries_.size() > kMostGraphs) {
      std::erase_if(entries_, [](const auto& other) { return other.second.general.expired(); });
    }
    return result;
  }

 private:
  static constexpr size_t kMostSizes = 64;
  static constexpr size_t kMostGraphs = 256;
  struct Entry {
    std::weak_ptr<const Graph> general;
    std::map<std::vector<int64_t>, std::shared_ptr<const Graph>> at_sizes;
  };
  std::mutex mutex_;
  std::map<const Graph*, Entry> entries_;  // looked up, never iterated in a way that shows
};

bool HasModuleCalls(const Graph& graph) {
  return std::ranges::any_of(graph.nodes(),
                             [](const GraphNode& node) { return node.op == &ops::kModuleCall; });
}

std::vector<Tensor> CallSubmodule(Module& self, const GraphNode& node, std::vector<Tensor> operands,
                                  Location at) {
  ModulePtr child = self.get_submodule(node.attr("path").str());
  const std::string& method = node.attr("method").str();
  operands.resize(std::min(operands.size(), static_cast<size_t>(node.attr("arguments").integer())));
  Any args = UnpackTensors(child->graph_body(method).argument_form, operands);
  PackedTensors results =
      PackTensors(ModuleAccess::RunBound(*child, child->method(method), args.ToList(), at));
  if (results.tensors.size() != node.types.size()) {
    Throw(ErrorCode::kValue, "{}: it returned {} tensors, {} when it was traced", method,
          results.tensors.size(), node.types.size());
  }
  return std::move(results.tensors);
}

/// Records the graph's nodes one by one, with their lines; calls of submodules run them.
std::vector<Tensor> ReplayNodes(Module& self, const Graph& graph, const std::vector<Tensor>& inputs,
                                Location at) {
  DeviceId device = inputs.empty() ? Device().id() : inputs[0].device().id();
  NodeMap<std::vector<Tensor>> values(graph.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    values[graph.inputs()[i]] = {inputs[i]};
  }
  auto at_value = [&](GraphValue value) {
    return value.node ? values[value.node][value.index] : Tensor();
  };
  for (NodeId id : graph.ids()) {
    const GraphNode& node = graph[id];
    if (node.op == &ops::kInput) continue;
    std::vector<Tensor> operands;
    for (GraphValue input : node.inputs) operands.push_back(at_value(input));
    auto& results = values[id];
    if (node.op == &ops::kModuleCall) {
      results = CallSubmodule(self, node, std::move(operands), at);
    } else {
      LocationScope location(InsideOpenFrames(node.location));
      BakingScope baking(device);
      results = ApplyMulti(*node.op, at, operands, node.attrs);
      ops::NoteCollectives(*node.op, node.attrs, results);
    }
  }
  std::vector<Tensor> outputs;
  for (GraphValue output : graph.outputs()) outputs.push_back(at_value(output));
  return outputs;
}

}  // namespace

std::vector<Any> NumbersAsTensors(const FunctionSchema& schema, std::vector<Any> args) {
  for (size_t i = 0; i < args.size(); ++i) {
    const SchemaType& type = schema.arguments()[i].type;
    bool is_number = type.base == SchemaType::Base::kTensor && !type.list && args[i].IsNumber();
    if (is_number) args[i] = full({}, args[i].ToScalar());
  }
  return args;
}

std::vector<Tensor> GraphInputs(const FunctionSchema& schema, const GraphBody& body,
                                const std::vector<Any>& args,
                                const std::function<Tensor(const std::string&)>& captured,
                                const std::optional<Device>& runs_on) {
  PackedTensors packed = PackTensors(Any(NumbersAsTensors(schema, args)));
  if (packed.form != body.argument_form) {
    Any traced = UnpackTensors(body.argument_form, std::vector<Tensor>(body.num_arguments()));
    Throw(ErrorCode::kValue,
          "{}: its graph was made for other values than these: {}; values that are not tensors are "
          "fixed in a graph, here as {}",
          schema.name(), Any(args).to_string(), traced.to_string());
  }
  std::vector<Tensor> inputs = std::move(packed.tensors);
  Device device = runs_on ? *runs_on : inputs.empty() ? Device() : inputs[0].device();
  for (const Capture& capture : body.captures) {
    if (capture.random_blocks > 0) {
      inputs.push_back(MakeRngState(std::nullopt, capture.random_blocks, device));
    } else {
      inputs.push_back(capture.name.empty() ? capture.constant : captured(capture.name));
    }
  }
  return inputs;
}

std::shared_ptr<const Graph> GraphAtSizes(const FunctionSchema& schema,
                                          const std::shared_ptr<const Graph>& graph,
                                          const std::vector<Tensor>& inputs) {
  if (inputs.size() != graph->inputs().size()) {
    Throw(ErrorCode::kValue, "{}: {} tensors are given, its graph has {} inputs", schema.name(),
          inputs.size(), graph->inputs().size());
  }
  std::vector<Shape> types;
  for (const Tensor& input : inputs) types.push_back(input.shape());
  BoundSizes sizes = BindSizes(*graph, types);
  if (sizes.misfit) RefuseType(schema, *graph, *sizes.misfit, inputs[*sizes.misfit]);
  if (graph->dim_params.empty()) return graph;
  static auto& sized = NeverDestroyed<SizedGraphs>();
  return sized.Get(graph, sizes.parameters);
}

Any FinishResults(const GraphBody& body, const std::vector<Tensor>& inputs,
                  std::vector<Tensor> outputs) {
  for (size_t i = 0; i < body.writes.size(); ++i) {
    Write("method", inputs[body.writes[i]], ValueOf("method", outputs[body.num_results() + i]));
  }
  outputs.resize(body.num_results());
  return UnpackTensors(body.result_form, outputs);
}

Any RunGraphBody(Module& self, const Method& method, const std::vector<Any>& args, Location at) {
  const GraphBody& body = *method.body;
  std::vector<Tensor> inputs = GraphInputs(
      method.schema, body, args, [&](const std::string& name) { return self.get_tensor(name); });
  std::shared_ptr<const Graph> graph = GraphAtSizes(method.schema, body.graph, inputs);
  std::vector<Tensor> outputs;
  if (TracingRoot() || HasModuleCalls(*graph) || inputs.empty()) {
    outputs = ReplayNodes(self, *graph, inputs, at);
  } else if (!graph->outputs().empty()) {
    LocationScope location(at);
    const Attr attrs[] = {graph};
    outputs = ApplyMulti(ops::kCall, at, inputs, attrs);
    ops::NoteCollectives(ops::kCall, attrs, outputs);
  }
  return FinishResults(body, inputs, std::move(outputs));
}

}  // namespace hammock
