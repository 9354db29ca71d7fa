#include "hammock/direct_call.h"

#include <chrono>

#include "base/location_scope.h"
#include "base/throw.h"
#include "hammock/lazy/device_exchange.h"
#include "runtime/devices/backend_calls.h"
#include "runtime/diagnose/profile_points.h"
#include "runtime/functions/direct_call_plan.h"
#include "runtime/functions/trace_function.h"
#include "runtime/step/executor.h"
#include "runtime/step/replay.h"
#include "trace/record.h"

namespace hammock {

namespace {

constexpr char kOp[] = "direct call";

void CheckInput(const DirectPlan& plan, size_t index, const BackendDataPtr& data) {
  if (data && data->shape() == plan.input_types[index] && data->device() == plan.device->device) {
    return;
  }
  Throw(ErrorCode::kValue, "{}: input {} is {}, needs {} on {}", kOp, index,
        data ? data->shape().to_string() + " on " + data->device().toString() : "undefined",
        plan.input_types[index].to_string(), plan.device->name());
}

/// The error with the line that recorded the op which failed.
std::shared_ptr<Error> Located(const lazy::ExecutionError& error, const Graph& graph) {
  std::shared_ptr<Error> located = error.Clone();
  if (graph.Contains(error.node())) {
    const GraphNode& node = graph[error.node()];
    if (located->where().empty()) located->SetWhere(WhereText(node.location));
    NameCaller(*located, *node.op, node.location);
  }
  return located;
}

std::vector<BackendDataPtr> Run(CompiledStep& step, std::span<const BackendDataPtr> arguments) {
  const lazy::ComputationPtr& computation = step.segments[0].computation;
  ProfiledRun profiled_run(step);
  auto start = std::chrono::steady_clock::now();
  std::vector<BackendDataPtr> results;
  try {
    results = ExecuteNow(*step.device, computation, arguments);
  } catch (const lazy::ExecutionError& error) {
    Located(error, computation->graph())->Raise();
  }
  auto ns = std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count();
  step.execute_ns.fetch_add(ns, std::memory_order_relaxed);
  step.executions.fetch_add(1, std::memory_order_relaxed);
  return results;
}

const BackendDataPtr& DataOf(const DirectPlan::Source& source,
                             std::span<const BackendDataPtr> inputs,
                             std::span<const BackendDataPtr> results) {
  if (source.kind == DirectPlan::Source::kInput) return inputs[source.index];
  return source.kind == DirectPlan::Source::kResult ? results[source.index] : source.constant;
}

}  // namespace

DirectCall::DirectCall(const CompiledGraph& graph, Location at) {
  LocationScope scope(at);
  plan_ = TracedFunction::PlanDirectCall(graph);
}

const Device& DirectCall::device() const { return plan_->public_device; }

const lazy::BackendDevice& DirectCall::backend_device() const { return plan_->device->device; }

const lazy::DeviceExchange* DirectCall::exchange() const {
  return dynamic_cast<const lazy::DeviceExchange*>(plan_->device->backend);
}

BackendDataPtr DirectCall::Import(const HostTensor& tensor, Location at) const {
  LocationScope scope(at);
  return Upload(*plan_->device, std::span(&tensor, 1))[0];
}

HostTensor DirectCall::Export(const BackendDataPtr& data, Location at) const {
  LocationScope scope(at);
  if (!data || data->device() != plan_->device->device) {
    Throw(ErrorCode::kValue, "{}: {} cannot be exported, needs data on {}", kOp,
          data ? "data on " + data->device().toString() : "undefined data", plan_->device->name());
  }
  return Download(*plan_->device, std::span(&data, 1))[0];
}

std::vector<BackendDataPtr> DirectCall::operator()(std::span<const BackendDataPtr> inputs,
                                                   Location at) const {
  LocationScope scope(at);
  const DirectPlan& plan = *plan_;
  CheckNotForked();
  CheckMayRun(*plan.device, kOp);
  CheckArgumentCount(kOp, inputs.size(), plan.input_types.size());
  for (size_t i = 0; i < inputs.size(); ++i) CheckInput(plan, i, inputs[i]);
  std::vector<BackendDataPtr> results;
  if (plan.step) {
    std::vector<BackendDataPtr> arguments;
    arguments.reserve(plan.parameters.size());
    for (const DirectPlan::Source& source : plan.parameters) {
      arguments.push_back(DataOf(source, inputs, results));
    }
    results = Run(*plan.step, arguments);
  }
  std::vector<BackendDataPtr> outputs;
  outputs.reserve(plan.outputs.size());
  for (const DirectPlan::Source& source : plan.outputs) {
    outputs.push_back(DataOf(source, inputs, results));
  }
  return outputs;
}

}  // namespace hammock
