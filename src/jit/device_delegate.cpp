#include "jit/device_delegate.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "base/throw.h"
#include "hammock/autograd.h"
#include "ir/graph_sizes.h"
#include "ir/primitives.h"
#include "jit/saved_computations.h"
#include "module/module_access.h"
#include "runtime/cache/compile_step.h"
#include "runtime/cache/saved_step.h"
#include "runtime/devices/backend_calls.h"
#include "runtime/step/executor.h"
#include "runtime/step/replay.h"
#include "trace/record.h"

namespace hammock::jit {
namespace {

using Verdict = lazy::Capability::Verdict;

DeviceEntry& EntryNamed(const std::string& device) { return EntryOf(Device(device).id()); }

// ---- What is saved of a method: its graph, lowered for the device unless it has free dims, and
// what it captured.

struct SavedMethod {
  FunctionSchema schema;
  GraphBody body = {};  // captures are tensors or random state
  NodeMap<DebugHandle> handles = {};
  bool lowered = false;
};

Any ToAny(const SavedMethod& method) {
  AnyList captures, writes, handles;
  for (const Capture& capture : method.body.captures) {
    captures.push_back(capture.random_blocks > 0 ? Any(static_cast<int64_t>(capture.random_blocks))
                                                 : Any(capture.constant));
  }
  for (int input : method.body.writes) writes.push_back(input);
  for (DebugHandle handle : method.handles) handles.push_back(handle);
  return AnyDict{{"schema", method.schema.to_string()},    {"graph", Serialize(*method.body.graph)},
                 {"captures", std::move(captures)},        {"writes", std::move(writes)},
                 {"arguments", method.body.argument_form}, {"results", method.body.result_form},
                 {"handles", std::move(handles)},          {"lowered", method.lowered}};
}

SavedMethod FromAny(const Any& value) {
  const AnyDict& saved = value.ToDict();
  SavedMethod method{.schema = FunctionSchema::Parse(saved.at("schema").ToStringRef())};
  GraphBody& body = method.body;
  body.graph = std::make_shared<const Graph>(DeserializeGraph(saved.at("graph").ToStringRef()));
  for (const Any& capture : saved.at("captures").ToList()) {
    if (capture.IsTensor()) {
      body.captures.push_back({.constant = capture.ToTensor()});
    } else {
      body.captures.push_back({.random_blocks = static_cast<uint64_t>(capture.ToInt())});
    }
  }
  for (int64_t input : saved.at("writes").ToInts()) body.writes.push_back(static_cast<int>(input));
  body.argument_form = saved.at("arguments").ToStringRef();
  body.result_form = saved.at("results").ToStringRef();
  method.handles = NodeMap<DebugHandle>(saved.at("handles").ToInts());
  method.lowered = saved.at("lowered").ToBool();
  const auto inputs = static_cast<int>(body.graph->inputs().size());
  bool fits = body.captures.size() <= body.graph->inputs().size() &&
              body.writes.size() <= body.graph->outputs().size() &&
              std::ranges::all_of(body.writes, [&](int i) { return i >= 0 && i < inputs; });
  if (!fits) Throw(ErrorCode::kParse, "processed: a method that does not fit its graph");
  return method;
}

Graph AtTracedSizes(const Graph& general) {
  Graph graph = general;
  graph.dim_params.clear();
  graph.dim_exprs.clear();
  graph.attr_exprs.clear();
  return graph;
}

// ---- Preprocessing

/// Every op of the lowered graph is run by the device, or an error names the first that is not.
void CheckAllRun(DeviceEntry& device, const LoweredStep& step,
                 const NodeMap<DebugHandle>& handles) {
  if (step.refusals.empty()) return;
  for (NodeId id : step.graph.ids()) {
    const GraphNode& node = step.graph[id];
    if (node.op == &ops::kInput || node.op == &ops::kConstant) continue;
    lazy::Capability answer = CapabilityOf(device, step.graph, id);
    if (answer.verdict != Verdict::kRefuse) continue;
    throw BackendRuntimeException(
        fmt::format("{} is not supported: {}", node.op->name(), answer.reason), handles[id]);
  }
}

SavedMethod Prepare(DeviceEntry& device, const Module& module, const std::string& name,
                    const DebugHandleGenerator& handles) {
  SavedMethod method{.schema = module.method(name).schema, .body = module.graph_body(name)};
  for (Capture& capture : method.body.captures) {
    if (!capture.name.empty()) capture.constant = module.get_tensor(capture.name);
  }
  // Passes decide by sizes: a graph with free dims is lowered at each of them.
  LoweredStep step = LowerStep(device, AtTracedSizes(*method.body.graph));
  method.lowered = method.body.graph->dim_params.empty();
  if (method.lowered) method.body.graph = std::make_shared<const Graph>(step.graph);
  method.handles = handles(*method.body.graph);
  CheckAllRun(device, step, method.lowered ? method.handles : handles(step.graph));
  return method;
}

// ---- Running

/// Delegates have no fallback device.
void RequireNoRefusals(const LoweredStep& step) {
  if (step.refusals.empty()) return;
  Throw<NotSupported>(ErrorCode::kNotSupported, "{} is not supported: {}", step.refusals[0].op,
                      step.refusals[0].reason);
}

/// A method that is ready to run, at one or more sizes. Thread-safe.
class CompiledMethod : public Object {
 public:
  CompiledMethod(DeviceEntry& device, SavedMethod method)
      : device_(device), method_(std::move(method)) {
    // One with free dims is compiled for other sizes when they come; this finds what is wrong now.
    if (method_.lowered) {
      At(method_.body.graph);
    } else {
      traced_ = Compile(std::make_shared<const Graph>(AtTracedSizes(*method_.body.graph)));
      CompileForOnes();
    }
  }
  std::string type_name() const override { return "hammock.CompiledMethod"; }

  AnyList Run(const AnyList& args) {
    CheckMayRun(device_, "delegate");
    NoGradGuard no_grad;
    std::vector<Tensor> inputs =
        GraphInputs(method_.schema, method_.body, args, nullptr, Device::FromId(device_.id));
    std::shared_ptr<const Computation> computation =
        At(GraphAtSizes(method_.schema, method_.body.graph, inputs));
    std::vector<Value> values;
    for (const Tensor& input : inputs) values.push_back(OwnValue(input));
    std::vector<BackendDataPtr> data = ReadyData(device_, values, "delegate");
    std::vector<Tensor> outputs;
    for (BackendDataPtr& result : Execute(*computation, data)) {
      outputs.push_back(
          Tensor::FromValue({MakeDataLeaf(result, device_.id, CurrentLocation()), 0}));
    }
    return Results(FinishResults(method_.body, inputs, std::move(outputs)));
  }

 private:
  /// Dims of one element have kernels of their own. Where code is compiled ahead, they are too.
  void CompileForOnes() {
    SavedComputations* saved = SavedComputations::Current();
    if (!saved || !saved->active()) return;
    try {
      const std::vector<int64_t> ones(method_.body.graph->dim_params.size(), 1);
      Graph graph = AtTracedSizes(AtSizes(*method_.body.graph, ones));
      Verify(graph);
      ones_ = Compile(std::make_shared<const Graph>(std::move(graph)));
    } catch (const Error&) {  // not every size is possible
    }
  }

  struct Computation {
    std::shared_ptr<const Graph> graph;  // as given; keeps the key alive
    lazy::ComputationPtr compiled;
    NodeMap<NodeId> origins;  // of nodes of the compiled graph, in the saved one
  };

  std::shared_ptr<const Computation> At(const std::shared_ptr<const Graph>& graph) {
    std::lock_guard lock(mutex_);
    if (computations_.size() >= kMostSizes && !computations_.contains(graph.get())) {
      computations_.clear();
    }
    std::shared_ptr<const Computation>& computation = computations_[graph.get()];
    if (!computation) computation = Compile(graph);
    return computation;
  }

  std::shared_ptr<const Computation> Compile(const std::shared_ptr<const Graph>& graph) const {
    auto made = std::make_shared<Computation>();
    made->graph = graph;
    Graph own = *graph;
    for (NodeId id : own.ids()) own.mutable_node(id).origin = id;
    if (!method_.lowered) {
      LoweredStep lowered = LowerStep(device_, own);
      RequireNoRefusals(lowered);
      own = std::move(lowered.graph);
    }
    for (const GraphNode& node : own.nodes()) made->origins.push_back(node.origin);
    SavedComputations* saved = SavedComputations::Current();
    if (saved) made->compiled = saved->Find(device_, own);
    if (!made->compiled) made->compiled = LoadOrCompile(device_, std::move(own));
    if (saved) saved->Note(device_, made->compiled);
    return made;
  }

  /// The value of a tensor, or of its copy on this device.
  Value OwnValue(const Tensor& input) const {
    Value value = ValueOf("delegate", input);
    if (value.node->device() == device_.id) return value;
    return ValueOf("delegate", input.to(Device::FromId(device_.id)));
  }

  std::vector<BackendDataPtr> Execute(const Computation& computation,
                                      const std::vector<BackendDataPtr>& data) const {
    try {
      return ExecuteNow(device_, computation.compiled, data);
    } catch (const lazy::ExecutionError& error) {
      throw BackendRuntimeException(error.message(), HandleOf(computation, error.node()));
    }
  }

  DebugHandle HandleOf(const Computation& computation, NodeId node) const {
    if (!computation.origins.contains(node)) return -1;
    NodeId origin = computation.origins[node];
    return method_.handles.contains(origin) ? method_.handles[origin] : -1;
  }

  /// As `execute` returns them: the items of a tuple one by one.
  AnyList Results(const Any& result) const {
    const auto& returns = method_.schema.returns();
    bool is_tuple = returns.size() == 1 && returns[0].base == SchemaType::Base::kTuple;
    if (returns.size() == 1 && !is_tuple) return {result};
    return result.IsNone() ? AnyList() : result.ToList();
  }

  static constexpr size_t kMostSizes = 64;

  DeviceEntry& device_;
  const SavedMethod method_;
  std::shared_ptr<const Computation> traced_, ones_;  // their kernels serve other sizes
  std::mutex mutex_;
  std::map<const Graph*, std::shared_ptr<const Computation>> computations_;
};

/// All delegates of this file are this one, of another device.
class DeviceDelegate : public BackendInterface {
 public:
  explicit DeviceDelegate(std::string device) : device_(std::move(device)) {}

  bool is_available() override { return true; }

  AnyDict compile(Any processed, AnyDict method_compile_spec) override {
    AnyDict handles;
    for (const auto& [name, spec] : method_compile_spec) {
      auto saved = processed.ToDict().find(name);
      if (saved == processed.ToDict().end()) continue;
      handles[name] = std::shared_ptr<Object>(
          std::make_shared<CompiledMethod>(EntryNamed(device_), FromAny(saved->second)));
    }
    return handles;
  }

  AnyList execute(Any handle, AnyList inputs) override {
    return ObjectAs<CompiledMethod>(handle, "a handle of this delegate")->Run(inputs);
  }

 private:
  const std::string device_;
};

}  // namespace

Delegate DeviceDelegateOf(const std::string& name, const std::string& device) {
  return {name,
          [device]() -> std::shared_ptr<BackendInterface> {
            return std::make_shared<DeviceDelegate>(device);
          },
          [device](const Module& module, const AnyDict& spec, const DebugHandleGenerator& handles) {
            AnyDict processed;
            for (const auto& [method, unused] : spec) {
              processed[method] = ToAny(Prepare(EntryNamed(device), module, method, handles));
            }
            return processed;
          },
          [device](const Graph& graph, NodeId node) {
            return CapabilityOf(EntryNamed(device), graph, node);
          }};
}

}  // namespace hammock::jit
