#include "runtime/functions/trace_function.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/throw.h"
#include "hammock/config.h"
#include "ir/node_access.h"
#include "ir/primitives.h"
#include "runtime/devices/backend_calls.h"
#include "runtime/devices/code_settings.h"
#include "runtime/diagnose/dump.h"
#include "runtime/functions/traced_inputs.h"
#include "runtime/step/step_collectives.h"
#include "trace/hooks.h"
#include "trace/layout.h"
#include "trace/noted_collectives.h"
#include "trace/record.h"
#include "trace/write.h"

namespace hammock {

namespace {

/// The writes of `fn` to its inputs, by value; handles are gone.
struct Traced {
  std::vector<NodePtr> inputs;
  std::vector<NodePtr> made_leaves;  // data that came from the host inside of `fn`
  std::vector<ResultSource> outputs;
  std::vector<std::pair<size_t, ResultSource>> writes;  // argument, its new value
};

void RefuseEagerMode(const char* op) {
  if (!InEagerMode()) return;
  Throw<NotSupported>(ErrorCode::kNotSupported,
                      "{}: eager mode runs ops one by one, so there is no graph to record; leave "
                      "eager mode first",
                      op);
}

/// While one lives, leaves of data that this thread makes are listed.
class MadeLeaves {
 public:
  explicit MadeLeaves(std::vector<NodePtr>& list)
      : outer_(std::exchange(Context().made_leaves, &list)) {}
  ~MadeLeaves() { Context().made_leaves = outer_; }
  MadeLeaves(const MadeLeaves&) = delete;
  MadeLeaves& operator=(const MadeLeaves&) = delete;

 private:
  std::vector<NodePtr>* outer_;
};

[[noreturn]] void RefuseKeptTensor(const char* op, const Node& kept) {
  Throw(ErrorCode::kValue,
        "{}: the result of {} [at {}], which depends on the inputs, is kept in a tensor outside of "
        "the function, where later calls would not update it; return it from the function instead, "
        "or write it to a tensor of the state in place (add_, copy_)",
        op, kept.op().name(), LocationText(kept.location()));
}

/// A function that was traced must not have written to tensors that are no arguments.
void RefuseWrites(const char* op, const LiveTensors& outside) {
  Value written = outside.UndoWrites();
  if (!written) return;
  Throw(ErrorCode::kValue,
        "{}: {} [at {}] writes to a tensor that is no argument, which later calls would not do; "
        "make it an argument, or name it in the list of state",
        op, written.node->op().name(), LocationText(written.node->location()));
}

/// Results of a call have no history, so that nothing of the trace lives on in one.
Value WithoutHistory(Value value) {
  value.tape = {};
  return value;
}

size_t IndexOfSame(const std::vector<Tensor>& tensors, size_t end, const Tensor& tensor) {
  size_t i = 0;
  while (i < end && !tensors[i].is_same(tensor)) ++i;
  return i;
}

Traced Trace(const char* op, const TensorFn& fn, const std::vector<Tensor>& examples,
             LocationId location, DeviceEntry*& device, Kept kept) {
  Traced traced;
  LiveTensors outside;
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < examples.size(); ++i) {
    traced.inputs.push_back(MakeTracedInput(op, i, examples[i].shape(), device->id, location));
    inputs.push_back(NewTensor(NodePtr(traced.inputs[i]).release(), 0, true));
  }
  std::vector<Tensor> outputs;
  {
    NoExecution guard(
        "a function is being captured, which only records; compute what it needs "
        "before the call");
    MadeLeaves leaves(traced.made_leaves);
    outputs = fn(inputs);
  }
  RefuseWrites(op, outside);
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].defined()) {
      Throw(ErrorCode::kUninitializedTensor, "{}: output {} is undefined", op, i);
    }
  }
  std::vector<Tensor> all = inputs;
  all.insert(all.end(), outputs.begin(), outputs.end());
  if (kept == Kept::kRefused) {
    if (NodePtr found = outside.FindKept(traced.inputs, all)) RefuseKeptTensor(op, *found);
  }
  device = DeviceOfAll(op, all);
  for (size_t i = 0; i < outputs.size(); ++i) {
    size_t input = IndexOfSame(inputs, inputs.size(), outputs[i]);
    size_t earlier = IndexOfSame(outputs, i, outputs[i]);
    if (input < inputs.size()) {
      traced.outputs.push_back({ResultSource::kArgument, input, {}});
    } else if (earlier < i) {
      traced.outputs.push_back({ResultSource::kOutput, earlier, {}});
    } else {
      ResultSource source{ResultSource::kConstant, 0, WithoutHistory(ValueOf(op, outputs[i]))};
      const TensorImpl& impl = *outputs[i].impl();
      if (impl.view) source.strides = CopyStrides(GeometryOf(impl));
      traced.outputs.push_back(std::move(source));
    }
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    Value now = WithoutHistory(ValueOf(op, inputs[i]));
    if (now.node == traced.inputs[i]) continue;
    traced.writes.push_back({i, {ResultSource::kConstant, 0, std::move(now)}});
  }
  return traced;
}

std::vector<Value> RootsOf(const Traced& traced) {
  std::vector<Value> roots;
  for (const ResultSource& source : traced.outputs) {
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
      if (operand.node && needs[walk.EntryOf(operand.node, operand.index)]) needs[i] = true;
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
    stand_ins.push_back(NewPlaceholder(device, input->shape()));
    stand_ins.back()->SetReady();
  }
  std::lock_guard lock(Executor().graph_mutex);
  for (size_t i = 0; i < inputs.size(); ++i) inputs[i]->slots()[0].data = stand_ins[i];
  Walk walk;
  RunWalk(roots, device.id, CodeSettingsId(), walk, false, {},
          CollectivesOf(roots, device.id, false));
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
    if (needs[walk.EntryOf(node, walk.outputs[i].index)]) {
      captured.leaked = NodePtr(node);
    } else {
      captured.elsewhere.push_back({NodePtr(node), walk.outputs[i].index});
    }
  }
  for (const NodePtr& input : inputs) input->slots()[0].data = nullptr;
  if (walk.failed) NodeAccess::payload(walk.failed)->error->Raise();
  return captured;
}

/// Whether a tensor of this thread has the value, rather than the history of one.
bool IsHeldByTensor(const Node* node) {
  ThreadContext& context = Context();
  std::lock_guard lock(context.lock);
  for (Link* list : {&context.pending, &context.settled}) {
    for (Link* link = list->next; link != list; link = link->next) {
      if (static_cast<TensorImpl*>(link)->node == node) return true;
    }
  }
  return false;
}

[[noreturn]] void RefuseKept(const char* op, const Node& kept) {
  if (IsHeldByTensor(&kept)) RefuseKeptTensor(op, kept);
  Throw(ErrorCode::kValue,
        "{}: the result of {} [at {}], which depends on the inputs, is kept for a backward pass by "
        "a tensor outside of the function, where later calls would not update it; detach() what "
        "the function keeps, or return it instead",
        op, kept.op().name(), LocationText(kept.location()));
}

Captured CaptureGraph(const char* op, const Traced& traced, DeviceEntry& device) {
  std::vector<Value> roots = RootsOf(traced);
  Captured captured = WalkCaptured(roots, traced.inputs, device);
  if (!captured.elsewhere.empty()) {
    // Captured tensors become constants of the graph, so they are computed now.
    Executor().Sync(captured.elsewhere, {.trigger = "capture", .wait = false});
    captured = WalkCaptured(roots, traced.inputs, device);
  }
  if (captured.leaked) RefuseKept(op, *captured.leaked);
  return captured;
}

ParameterSource ParameterSourceOf(const Value& parameter, const Traced& traced,
                                  DeviceEntry& device) {
  const Node& node = *parameter.node;
  auto input = std::find(traced.inputs.begin(), traced.inputs.end(), parameter.node);
  if (input != traced.inputs.end()) {
    return {.kind = ParameterSource::kInput,
            .input = static_cast<size_t>(input - traced.inputs.begin())};
  }
  if (&node.op() == &ops::kRngState) {
    ParameterSource random{.kind = ParameterSource::kRandom,
                           .blocks = static_cast<uint64_t>(node.attrs()[2].integer()),
                           .offset = static_cast<uint64_t>(node.attrs()[1].integer())};
    const LeafPayload* payload = NodeAccess::payload(&node);
    if (payload) random.generator = payload->generator;
    return random;
  }
  if (&node.op() != &ops::kScalarLeaf) {
    const auto& made = traced.made_leaves;
    bool made_inside = std::find(made.begin(), made.end(), parameter.node) != made.end();
    return {
        .kind = ParameterSource::kConstant, .constant = parameter, .from_outside = !made_inside};
  }
  // A lifted scalar is on no device; its value is frozen where the graph runs.
  Scalar number = node.attrs()[0].scalar();
  BackendDataPtr data = UploadScalar(device, number);
  return {.kind = ParameterSource::kConstant,
          .constant = {MakeDataLeaf(data, device.id, node.location()), 0},
          .number = number};
}

void Resolve(ResultSource& source, const Captured& captured, const std::vector<NodePtr>& inputs) {
  if (!source.value) return;
  auto input = std::find(inputs.begin(), inputs.end(), source.value.node);
  if (input != inputs.end()) {
    source.kind = ResultSource::kInput;
    source.index = static_cast<size_t>(input - inputs.begin());
    source.value = {};
    return;
  }
  auto result = captured.results.find({source.value.node.get(), source.value.index});
  if (result == captured.results.end()) return;
  source.kind = ResultSource::kResult;
  source.index = result->second;
  source.value = {};
}

}  // namespace

bool InEagerMode() { return config::Get<config::kEager>() || Context().eager != 0; }

namespace {

/// While one lives, collectives are noted for the graph that is being captured: no step runs them.
class OwnCollectives {
 public:
  OwnCollectives() { outer_.swap(NotedCollectives()); }
  ~OwnCollectives() { outer_.swap(NotedCollectives()); }
  OwnCollectives(const OwnCollectives&) = delete;
  OwnCollectives& operator=(const OwnCollectives&) = delete;

 private:
  std::vector<NodePtr> outer_;
};

}  // namespace

TracedFunction TraceFunction(const char* op, const TensorFn& fn,
                             const std::vector<Tensor>& examples, Location at, Kept kept) {
  DeviceEntry* device;
  {
    LocationScope scope(at);
    CheckNotForked();
    RefuseEagerMode(op);
    if (!fn) Throw(ErrorCode::kValue, "{}: the function is empty", op);
    device = DeviceOfAll(op, examples);
    for (size_t i = 0; i < examples.size(); ++i) {
      if (ValueOf(op, examples[i]).node->device() != kNoDevice) continue;
      Throw(ErrorCode::kValue, "{}: input {} is a number without a device", op, i);
    }
  }
  OwnCollectives collectives;
  // Ops of the function keep their own lines: the scope opens after it.
  Traced traced = Trace(op, fn, examples, CurrentLocation(at), device, kept);
  LocationScope scope(at);
  if (!device) {
    Throw(ErrorCode::kValue, "{}: no input or output of the function is on a device", op);
  }
  Captured captured = CaptureGraph(op, traced, *device);
  TracedFunction result;
  result.device = device;
  for (const NodePtr& input : traced.inputs) result.input_types.push_back(input->shape());
  for (ResultSource& source : traced.outputs) Resolve(source, captured, traced.inputs);
  for (auto& [argument, source] : traced.writes) Resolve(source, captured, traced.inputs);
  for (const Value& parameter : captured.parameters) {
    result.parameters.push_back(ParameterSourceOf(parameter, traced, *device));
  }
  result.graph = std::move(captured.graph);
  result.hash = captured.hash;
  result.key = std::move(captured.key);
  result.kept = captured.kept;
  result.outputs = std::move(traced.outputs);
  result.writes = std::move(traced.writes);
  return result;
}

}  // namespace hammock
