#include "runtime/step/replay.h"

#include <algorithm>

#include "base/throw.h"
#include "hammock/config.h"
#include "hammock/metric.h"
#include "ir/node_access.h"
#include "ir/primitives.h"
#include "runtime/devices/backend_calls.h"
#include "runtime/diagnose/dump.h"
#include "runtime/step/step_collectives.h"
#include "runtime/step/under_way.h"
#include "runtime/step/wait.h"
#include "trace/record.h"

namespace hammock {

namespace {

constinit const metrics::DeclaredCounter kReplayedGraphs({
    .name = "ReplayedGraphs",
    .doc = "Calls of functions made by `compile` that were not traced.",
});

/// The data of values, computed or uploaded where needed; may still be pending.
std::vector<BackendDataPtr> DataOf(DeviceEntry& device, std::span<const Value> values,
                                   const char* trigger) {
  std::vector<Value> uncomputed;
  std::vector<NodePtr> leaves;
  std::vector<HostTensor> hosts;
  {
    std::lock_guard lock(Executor().graph_mutex);
    for (const Value& value : values) {
      CheckBorrowed(*value.node);
      if (value.node->slots()[value.index].data) continue;
      if (!value.node->IsLeaf()) {
        uncomputed.push_back(value);
      } else {
        leaves.push_back(value.node);
        hosts.push_back(HostValue(value.node.get()));
      }
    }
  }
  if (!uncomputed.empty()) Executor().Sync(uncomputed, {.trigger = trigger, .wait = false});
  std::vector<BackendDataPtr> uploaded, data;
  if (!leaves.empty()) uploaded = UploadLeaves(device, hosts);
  {
    std::lock_guard lock(Executor().graph_mutex);
    FillLeaves(leaves, uploaded);
    for (const Value& value : values) data.push_back(value.node->slots()[value.index].data);
  }
  for (size_t i = 0; i < data.size(); ++i) {
    // Failed and rolled back meanwhile: this raises its error.
    if (!data[i]) data[i] = Executor().Materialize(values[i], trigger);
  }
  return data;
}

}  // namespace

std::vector<BackendDataPtr> ReadyData(DeviceEntry& device, std::span<const Value> values,
                                      const char* trigger) {
  std::vector<BackendDataPtr> data = DataOf(device, values, trigger);
  for (const BackendDataPtr& item : data) {
    RefuseToWait(device, item);
    WaitForResult(*item);
    if (auto error = item->error()) Executor().RaiseSeen(error);
  }
  return data;
}

void CheckMayRun(const DeviceEntry& device, const char* trigger) {
  if (!device.active) {
    Throw<DeviceError>(ErrorCode::kNotRegistered,
                       "{}: the backend of device {} is no longer registered", trigger,
                       device.name());
  }
  const auto& reasons = Context().forbid_execution;
  if (reasons.empty()) return;
  Throw(ErrorCode::kExecutionForbidden,
        "{} would run a compiled graph here, but execution is forbidden in this scope: {}", trigger,
        reasons.back());
}

Recital::Recital(CompiledStepPtr of)
    : step(std::move(of)), body(std::shared_ptr<const Graph>(step, &step->traced)) {
  for (GraphValue output : step->traced.outputs()) {
    types.push_back(step->traced.TypeOf(output));
    sizes.emplace_back(types.back().sizes());
  }
}

std::vector<Value> Replay(const Recital& recital, std::vector<Value> arguments, const char* trigger,
                          const std::vector<bool>& released, const WriteUnitPtr& unit) {
  DeviceEntry& device = *recital.step->device;
  CheckMayRun(device, trigger);
  metrics::Get<kReplayedGraphs>().Add();
  std::vector<BackendDataPtr> data = DataOf(device, arguments, trigger);
  LocationId location = CurrentLocation();
  NodePtr call = Node::Make(ops::kCall, arguments, std::span(&recital.body, 1), recital.types,
                            device.id, location);
  // Never a result itself: each of its results can then be computed alone.
  if (!arguments.empty()) NodeAccess::flags(call.get()) |= NodeAccess::kIsView;
  arguments.clear();  // from now on the call holds them
  const size_t count = recital.types.size();
  std::vector<NodePtr> outputs;
  std::vector<Value> results;
  outputs.reserve(count);
  results.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const Value from{call, static_cast<uint32_t>(i)};
    outputs.push_back(Node::Make(ops::kReshape, std::span(&from, 1),
                                 std::span(&recital.sizes[i], 1), std::span(&recital.types[i], 1),
                                 device.id, location));
    results.push_back({outputs.back(), 0});
  }
  Executor().Run(recital.step, std::move(data), std::move(outputs), std::move(call), released,
                 unit);
  return results;
}

namespace {

/// Finds which arguments of a replay die with it; those that readers under way hold too only if it
/// may come behind these. With the graph mutex held.
void FindDying(Step& step, const std::vector<bool>& released, bool may_wait) {
  const size_t count = step.arguments.size();
  step.donated.resize(count);
  auto operands = step.recipe->operands();
  DyingArguments dying(step);
  std::vector<const Node*> updated, sorted;
  for (const Node::Operand& operand : operands) sorted.push_back(operand.node);
  std::ranges::sort(sorted);
  for (size_t i = 0; i < released.size() && i < count; ++i) {
    if (!released[i]) continue;
    Node* node = operands[i].node;
    if (!MayDonate(*node, *step.arguments[i], *step.compiled->device)) continue;
    const auto uses = static_cast<uint32_t>(std::ranges::equal_range(sorted, node).size());
    // The recipe and the tensor that lets go refer to the node.
    dying.Add(i, node, step.arguments[i], uses + 1);
    updated.push_back(node);
  }
  std::ranges::sort(updated);
  if (may_wait) dying.AddReaders(updated);
}

}  // namespace

void StepExecutor::Run(const CompiledStepPtr& compiled, std::vector<BackendDataPtr> arguments,
                       std::vector<NodePtr> outputs, NodePtr recipe,
                       const std::vector<bool>& released, const WriteUnitPtr& unit) {
  CheckNotForked();
  const WithoutHostLock no_lock;
  auto step = std::make_shared<Step>();
  step->compiled = compiled;
  step->arguments = std::move(arguments);
  step->recipe = std::move(recipe);
  ThreadContext& context = Context();
  step->owner = &context;
  DeviceEntry& device = *compiled->device;
  bool nested = RunsHere(device);
  for (const BackendDataPtr& argument : step->arguments) RefuseToWait(device, argument);
  std::vector<BackendDataPtr> placeholders;
  for (const NodePtr& output : outputs) {
    placeholders.push_back(NewPlaceholder(device, output->shape()));
    step->placeholders.push_back(placeholders.back().get());
  }
  {
    std::lock_guard lock(graph_mutex);
    for (size_t i = 0; i < outputs.size(); ++i) {
      outputs[i]->slots()[0].data = placeholders[i];
      NodeAccess::flags(outputs[i].get()) |= NodeAccess::kClaimed;
    }
    TakeTurns(device, *step, nested);
    step->agreements = BeginAgreements(compiled, {});
    std::vector<Node*> operands;
    for (const Node::Operand& operand : step->recipe->operands()) operands.push_back(operand.node);
    bool is_own = context.step_depth == 0;  // of a step the unit may have other parts
    bool may = JoinUnits(*step, unit ? UnitSpan(&unit, 1) : UnitSpan(), operands, is_own);
    if (config::Get<config::kParamAliasing>() && (may || !is_own)) {
      FindDying(*step, released, may);
    }
  }
  step->output_nodes = std::move(outputs);
  bool wait = !config::Get<config::kAsync>() && !nested;
  if (!wait) placeholders.clear();
  Submit(device, step, false);
  for (const BackendDataPtr& placeholder : placeholders) placeholder->Wait();
}

void CheckArgumentCount(const char* op, size_t given, size_t needed) {
  if (given == needed) return;
  Throw(ErrorCode::kValue, "{}: {} argument(s) given, needs {}", op, given, needed);
}

void CheckArgument(const char* op, size_t index, const Tensor& argument, const Shape& type,
                   const DeviceEntry& device) {
  Value value = ValueOf(op, argument);
  if (!value) {
    Throw(ErrorCode::kUninitializedTensor, "{}: argument {} is undefined, needs {}", op, index,
          type.to_string());
  }
  if (value.shape().dtype() != type.dtype()) {
    Throw<TypeError>(ErrorCode::kDTypeMismatch, "{}: argument {} is {}, needs {}", op, index,
                     value.shape().to_string(), type.to_string());
  }
  if (value.shape() != type) {
    Throw(ErrorCode::kShapeMismatch, "{}: argument {} is {}, needs {}", op, index,
          value.shape().to_string(), type.to_string());
  }
  if (value.node->device() != device.id) {
    Throw(ErrorCode::kDeviceMismatch, "{}: argument {} is on {}, needs {}", op, index,
          value.node->device() == kNoDevice ? "no device" : EntryOf(value.node->device()).name(),
          device.name());
  }
}

std::vector<Tensor> LazyGraphExecutor::RunCachedGraph(const Hash128& hash,
                                                      const std::vector<Tensor>& arguments,
                                                      Location at) {
  LocationScope scope(at);
  constexpr char kOp[] = "run_cached_graph";
  CompiledStepPtr step = CachedStep(kOp, hash);
  const Graph& graph = step->traced;
  CheckArgumentCount(kOp, arguments.size(), graph.inputs().size());
  std::vector<Value> values;
  for (size_t i = 0; i < arguments.size(); ++i) {
    CheckArgument(kOp, i, arguments[i], graph[graph.inputs()[i]].type(), *step->device);
    values.push_back(ValueOf(kOp, arguments[i]));
  }
  std::vector<Tensor> results;
  for (Value& value : Replay(Recital(step), std::move(values), kOp)) {
    results.push_back(Tensor::FromValue(std::move(value)));
  }
  return results;
}

}  // namespace hammock
