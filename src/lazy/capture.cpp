/// Capturing a function as a compiled graph that is replayed without tracing.

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/throw.h"
#include "hammock/config.h"
#include "ir/node_access.h"
#include "lazy/dump.h"
#include "lazy/hooks.h"
#include "lazy/layout.h"
#include "lazy/record.h"
#include "lazy/replay.h"
#include "lazy/rng.h"
#include "ops/primitives.h"

namespace hammock {

namespace {

constexpr char kOp[] = "compiled graph";

using CapturedFn = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

/// Where a parameter of the graph comes from at each call.
struct Binding {
  enum Kind { kInput, kConstant, kRandom } kind = kConstant;
  size_t input = 0;
  Value constant = {};                        // by identity: whatever data its node has
  uint64_t blocks = 0;                        // of the generator, taken anew
  std::shared_ptr<Generator> generator = {};  // null: the default one
};

std::optional<Generator> GeneratorOf(const Binding& binding) {
  if (!binding.generator) return std::nullopt;
  return *binding.generator;
}

/// Where a returned tensor, or the new value of an argument, comes from at each call.
struct Source {
  enum Kind {
    kResult,    // result `index` of the graph
    kInput,     // the value that argument `index` had
    kConstant,  // `value`
    kArgument,  // argument `index` itself, after it was updated
    kOutput,    // the same tensor as output `index`
  } kind;
  size_t index = 0;
  Value value;
  Dims strides = {};  // of a returned tensor that is not row-major
};

/// What `fn` did to its inputs, by value; handles are gone.
struct Traced {
  std::vector<NodePtr> inputs;
  std::vector<Source> outputs;
  std::vector<std::pair<size_t, Source>> writes;  // argument, its new value
};

NodePtr MakeInput(size_t index, const Shape& type, DeviceId device, LocationId location) {
  NodePtr node = Node::Make(ops::kInput, {}, {}, std::span(&type, 1), device, location);
  // Whoever needs its value meets this error: reads inside the function, and whatever of the trace
  // outlives it.
  NodeAccess::MakePayload(node.get()).error = std::make_shared<ValueError>(
      ErrorCode::kExecutionForbidden,
      fmt::format("capture: a value that depends on input {} ({}) is read, but a function that is "
                  "being captured only records; return the value, and read what the compiled graph "
                  "returns",
                  index, type.to_string()));
  return node;
}

void RefuseEagerMode() {
  if (!config::Get<config::kEager>() && Context().eager == 0) return;
  Throw<NotSupported>(ErrorCode::kNotSupported,
                      "capture: eager mode runs ops one by one, so there is no graph to capture; "
                      "capture outside of it");
}

size_t IndexOfSame(const std::vector<Tensor>& tensors, size_t end, const Tensor& tensor) {
  size_t i = 0;
  while (i < end && !tensors[i].is_same(tensor)) ++i;
  return i;
}

Traced Trace(const CapturedFn& fn, const std::vector<Tensor>& examples, LocationId location,
             DeviceEntry*& device) {
  Traced traced;
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < examples.size(); ++i) {
    traced.inputs.push_back(MakeInput(i, examples[i].shape(), device->id, location));
    inputs.push_back(NewTensor(NodePtr(traced.inputs[i]).release(), 0, true));
  }
  std::vector<Tensor> outputs;
  {
    NoExecution guard("a function is being captured, which only records");
    outputs = fn(inputs);
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].defined()) {
      Throw(ErrorCode::kUninitializedTensor, "capture: output {} is undefined", i);
    }
  }
  std::vector<Tensor> all = inputs;
  all.insert(all.end(), outputs.begin(), outputs.end());
  device = DeviceOfAll("capture", all);
  for (size_t i = 0; i < outputs.size(); ++i) {
    size_t input = IndexOfSame(inputs, inputs.size(), outputs[i]);
    size_t earlier = IndexOfSame(outputs, i, outputs[i]);
    if (input < inputs.size()) {
      traced.outputs.push_back({Source::kArgument, input, {}});
    } else if (earlier < i) {
      traced.outputs.push_back({Source::kOutput, earlier, {}});
    } else {
      Source source{Source::kConstant, 0, ValueOf("capture", outputs[i])};
      const TensorImpl& impl = *outputs[i].impl();
      if (impl.view) source.strides = CopyStrides(GeometryOf(impl));
      traced.outputs.push_back(std::move(source));
    }
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    Value now = ValueOf("capture", inputs[i]);
    if (now.node == traced.inputs[i]) continue;
    traced.writes.push_back({i, {Source::kConstant, 0, std::move(now)}});
  }
  return traced;
}

std::vector<Value> RootsOf(const Traced& traced) {
  std::vector<Value> roots;
  for (const Source& source : traced.outputs) {
    if (source.value) roots.push_back(source.value);
  }
  for (const auto& [argument, source] : traced.writes) roots.push_back(source.value);
  std::erase_if(roots, [](const Value& root) { return root.node->device() == kNoDevice; });
  return roots;
}

/// A walk's outcome that may be used without the graph mutex.
struct Captured {
  Graph graph;
  Hash128 hash;
  std::vector<uint64_t> key;
  std::vector<Value> parameters;
  std::map<std::pair<const Node*, uint32_t>, size_t> results;  // looked up, never iterated
  int64_t kept = 0;
  std::vector<Value> elsewhere;  // not computed yet, needs no input, and is used elsewhere
  NodePtr leaked;                // needs an input, and is used elsewhere
};

/// Which nodes of a walk need one of `inputs`.
std::vector<bool> NeedsInputs(const Walk& walk, const std::vector<NodePtr>& inputs) {
  std::vector<bool> needs(walk.order.size());
  for (const NodePtr& input : inputs) {
    uint32_t at = NodeAccess::walk_index(input.get());
    if (at < walk.order.size() && walk.order[at] == input.get()) needs[at] = true;
  }
  for (size_t i = 0; i < walk.order.size(); ++i) {
    if (IsAvailable(*walk.order[i])) continue;
    for (const Node::Operand& operand : walk.order[i]->operands()) {
      if (operand.node && needs[NodeAccess::walk_index(operand.node)]) needs[i] = true;
    }
  }
  return needs;
}

/// Walks from the roots to the inputs, which count as computed meanwhile.
Captured WalkCaptured(const std::vector<Value>& roots, const std::vector<NodePtr>& inputs,
                      DeviceEntry& device) {
  Captured captured;
  std::vector<BackendDataPtr> stand_ins;
  for (const NodePtr& input : inputs) {
    stand_ins.push_back(device.backend->CreateDataPlaceholder(device.device, input->shape()));
  }
  std::lock_guard lock(Executor().graph_mutex);
  for (size_t i = 0; i < inputs.size(); ++i) inputs[i]->slots()[0].data = stand_ins[i];
  Walk walk;
  RunWalk(roots, device.id, ConfigBits(), walk);
  captured.graph = GraphOf(walk);
  captured.hash = walk.hash;
  captured.key.assign(walk.key.words().begin(), walk.key.words().end());
  captured.kept = walk.kept;
  for (size_t i = 0; i < walk.parameters.size(); ++i) {
    captured.parameters.push_back({NodePtr(walk.parameters[i]), walk.parameter_outputs[i]});
  }
  std::vector<bool> needs = NeedsInputs(walk, inputs);
  for (size_t i = 0; i < walk.outputs.size(); ++i) {
    Node* node = const_cast<Node*>(walk.outputs[i].node);
    captured.results[{node, walk.outputs[i].index}] = i;
    bool root = std::any_of(roots.begin(), roots.end(),
                            [&](const Value& value) { return value.node.get() == node; });
    if (root) continue;
    if (needs[NodeAccess::walk_index(node)]) {
      captured.leaked = NodePtr(node);
    } else {
      captured.elsewhere.push_back({NodePtr(node), walk.outputs[i].index});
    }
  }
  for (const NodePtr& input : inputs) input->slots()[0].data = nullptr;
  if (walk.failed) NodeAccess::payload(walk.failed)->error->Raise();
  return captured;
}

Captured CaptureGraph(const Traced& traced, DeviceEntry& device) {
  std::vector<Value> roots = RootsOf(traced);
  Captured captured = WalkCaptured(roots, traced.inputs, device);
  if (!captured.elsewhere.empty()) {
    // Captured tensors become constants of the graph, so they are computed now.
    Executor().Sync(captured.elsewhere, {.trigger = "capture", .wait = false});
    captured = WalkCaptured(roots, traced.inputs, device);
  }
  if (captured.leaked) {
    Throw(ErrorCode::kValue,
          "capture: the result of {} [at {}] depends on the inputs and is kept outside of the "
          "function, where replays cannot update it; return it instead",
          captured.leaked->op().name(), LocationText(captured.leaked->location()));
  }
  return captured;
}

void RefuseFallback(const CompiledStep& step) {
  std::string names;
  for (const CompiledSegment& segment : step.segments) {
    if (!segment.fallback) continue;
    for (const GraphNode& node : segment.computation->graph().nodes()) {
      if (node.op == &ops::kInput || node.op == &ops::kConstant) continue;
      names += fmt::format("{}{} [at {}]", names.empty() ? "" : ", ", node.op->name(),
                           LocationText(node.location));
    }
  }
  if (names.empty()) return;
  Throw<NotSupported>(
      ErrorCode::kNotSupported,
      "capture: failed to extract the compiled graph because of fallback: {} cannot run {}",
      step.device->name(), names);
}

CompiledStepPtr CompileCaptured(Captured& captured, DeviceEntry& device) {
  CompiledStepPtr step = Executor().cache.Find(captured.hash, captured.key);
  if (!step) {
    step = Executor().Compile(device, captured.hash, std::move(captured.key), captured.graph,
                              captured.kept, {.trigger = "capture"});
  }
  RefuseFallback(*step);
  return step;
}

Binding BindingOf(const Value& parameter, const std::vector<NodePtr>& inputs, DeviceEntry& device) {
  const Node& node = *parameter.node;
  auto input = std::find(inputs.begin(), inputs.end(), parameter.node);
  if (input != inputs.end()) {
    return {.kind = Binding::kInput, .input = static_cast<size_t>(input - inputs.begin())};
  }
  if (&node.op() == &ops::kRngState) {
    Binding random{.kind = Binding::kRandom,
                   .blocks = static_cast<uint64_t>(node.attrs()[2].integer())};
    const LeafPayload* payload = NodeAccess::payload(&node);
    if (payload) random.generator = payload->generator;
    return random;
  }
  if (&node.op() != &ops::kScalarLeaf) return {.kind = Binding::kConstant, .constant = parameter};
  // A lifted scalar is on no device; its value is frozen where the graph runs.
  BackendDataPtr data =
      device.backend->MakeComputationDataFromScalar(node.attrs()[0].scalar(), device.device);
  return {.kind = Binding::kConstant,
          .constant = {MakeDataLeaf(data, device.id, node.location()), 0}};
}

void Resolve(Source& source, const Captured& captured, const std::vector<NodePtr>& inputs) {
  if (!source.value) return;
  auto input = std::find(inputs.begin(), inputs.end(), source.value.node);
  if (input != inputs.end()) {
    source.kind = Source::kInput;
    source.index = static_cast<size_t>(input - inputs.begin());
    source.value = {};
    return;
  }
  auto result = captured.results.find({source.value.node.get(), source.value.index});
  if (result == captured.results.end()) return;
  source.kind = Source::kResult;
  source.index = result->second;
  source.value = {};
}

}  // namespace

struct CompiledGraph::State {
  ~State() {
    if (step) step->pins.fetch_sub(1);
  }

  Hash128 hash;
  Graph traced;
  DeviceEntry* device = nullptr;
  CompiledStepPtr step;  // null if nothing is computed; pinned
  Attr body;
  std::vector<Shape> input_types;
  std::vector<Binding> parameters;
  std::vector<Source> outputs;
  std::vector<std::pair<size_t, Source>> writes;

  std::vector<Value> Run(std::vector<Value>& arguments, const std::vector<Tensor>& tensors) const;
  bool Releases(size_t argument, const std::vector<Tensor>& tensors) const;
  void CheckAliases(const std::vector<Tensor>& arguments) const;
};

/// Whether a call leaves nothing that needs the value which this argument has now: it is updated,
/// is neither returned nor given to another argument, and shares its memory with no other tensor.
bool CompiledGraph::State::Releases(size_t argument, const std::vector<Tensor>& tensors) const {
  auto takes = [&](const Source& source) {
    return source.kind == Source::kInput && source.index == argument;
  };
  bool updated = false;
  for (const auto& [written, source] : writes) {
    if (takes(source)) return false;
    updated |= written == argument;
  }
  return updated && std::none_of(outputs.begin(), outputs.end(), takes) &&
         !tensors[argument].impl()->SharesMemory();
}

std::vector<Value> CompiledGraph::State::Run(std::vector<Value>& arguments,
                                             const std::vector<Tensor>& tensors) const {
  if (!step) return {};
  std::vector<Value> values;
  std::vector<bool> released(parameters.size());
  for (const Binding& binding : parameters) {
    switch (binding.kind) {
      case Binding::kInput:
        released[values.size()] = Releases(binding.input, tensors);
        values.push_back(arguments[binding.input]);
        break;
      case Binding::kConstant:
        values.push_back(binding.constant);
        break;
      case Binding::kRandom:
        values.push_back(
            MakeRngState(GeneratorOf(binding), binding.blocks, Device::FromId(device->id)).value());
        break;
    }
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (Releases(i, tensors)) arguments[i] = {};
  }
  return Replay(step, body, std::move(values), kOp, released);
}

// The function was traced on inputs that share no memory; that matters where one is written.
void CompiledGraph::State::CheckAliases(const std::vector<Tensor>& arguments) const {
  for (const auto& [written, source] : writes) {
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (i == written || !arguments[written].is_alias_of(arguments[i])) continue;
      Throw(ErrorCode::kValue,
            "{}: argument {} is updated in place and shares its memory with argument {}; clone one "
            "of them",
            kOp, written, i);
    }
  }
}

std::vector<Tensor> CompiledGraph::operator()(const std::vector<Tensor>& inputs,
                                              Location at) const {
  LocationScope scope(at);
  if (!state_) Throw(ErrorCode::kUninitializedTensor, "{}: it is empty; capture one first", kOp);
  const State& state = *state_;
  CheckArgumentCount(kOp, inputs.size(), state.input_types.size());
  std::vector<Value> arguments;
  for (size_t i = 0; i < inputs.size(); ++i) {
    CheckArgument(kOp, i, inputs[i], state.input_types[i], *state.device);
    arguments.push_back(ValueOf(kOp, inputs[i]));
  }
  state.CheckAliases(inputs);
  std::vector<Value> results = state.Run(arguments, inputs);
  auto value_of = [&](const Source& source) -> const Value& {
    if (source.kind == Source::kResult) return results[source.index];
    if (source.kind == Source::kInput) return arguments[source.index];
    return source.value;
  };
  for (const auto& [argument, source] : state.writes) {
    Write(kOp, inputs[argument], value_of(source));
  }
  std::vector<Tensor> outputs;
  for (const Source& source : state.outputs) {
    if (source.kind == Source::kArgument) {
      outputs.push_back(inputs[source.index]);
    } else if (source.kind == Source::kOutput) {
      outputs.push_back(outputs[source.index]);
    } else {
      outputs.push_back(Tensor::FromValue(value_of(source)));
      if (!source.strides.empty()) SetStrides(*outputs.back().impl(), source.strides);
    }
  }
  return outputs;
}

Hash128 CompiledGraph::hash() const {
  if (!state_) Throw(ErrorCode::kUninitializedTensor, "{}: it is empty; capture one first", kOp);
  return state_->hash;
}

std::string CompiledGraph::text() const {
  if (!state_) Throw(ErrorCode::kUninitializedTensor, "{}: it is empty; capture one first", kOp);
  return ToText(state_->traced, {.locations = true});
}

CompiledGraph LazyGraphExecutor::Capture(const CapturedFn& fn,
                                         const std::vector<Tensor>& example_inputs, Location at) {
  CheckNotForked();
  RefuseEagerMode();
  if (!fn) Throw(ErrorCode::kValue, "capture: the function is empty");
  DeviceEntry* device = DeviceOfAll("capture", example_inputs);
  for (size_t i = 0; i < example_inputs.size(); ++i) {
    if (ValueOf("capture", example_inputs[i]).node->device() != kNoDevice) continue;
    Throw(ErrorCode::kValue, "capture: input {} is a number without a device", i);
  }
  // Ops of the function keep their own lines: the scope opens after it.
  Traced traced = Trace(fn, example_inputs, CurrentLocation(at), device);
  LocationScope scope(at);
  if (!device) {
    Throw(ErrorCode::kValue, "capture: no input or output of the function is on a device");
  }
  Captured captured = CaptureGraph(traced, *device);
  auto state = std::make_shared<CompiledGraph::State>();
  state->hash = captured.hash;
  state->device = device;
  for (const NodePtr& input : traced.inputs) state->input_types.push_back(input->shape());
  for (Source& source : traced.outputs) Resolve(source, captured, traced.inputs);
  for (auto& [argument, source] : traced.writes) Resolve(source, captured, traced.inputs);
  if (!captured.graph.outputs().empty()) {
    CompiledStepPtr step = CompileCaptured(captured, *device);
    step->pins.fetch_add(1);
    state->step = step;
    state->body = BodyOf(step);
    for (const Value& parameter : captured.parameters) {
      state->parameters.push_back(BindingOf(parameter, traced.inputs, *device));
    }
  }
  state->traced = std::move(captured.graph);
  state->outputs = std::move(traced.outputs);
  state->writes = std::move(traced.writes);
  CompiledGraph result;
  result.state_ = std::move(state);
  return result;
}

CompiledGraph extract_compiled_graph(const CapturedFn& fn,
                                     const std::vector<Tensor>& example_inputs, Location at) {
  return LazyGraphExecutor::Get()->Capture(fn, example_inputs, at);
}

}  // namespace hammock
