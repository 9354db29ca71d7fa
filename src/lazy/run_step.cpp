/// Running a claimed step: inline or queued, segment by segment, and what becomes of its outcome.

#include <fmt/format.h>

#include <chrono>

#include "base/log.h"
#include "base/throw.h"
#include "hammock/config.h"
#include "hammock/metrics.h"
#include "ir/node_access.h"
#include "lazy/executor.h"

namespace hammock {

namespace {

constexpr int64_t kTinyBytes = 1 << 16;

struct Failure {
  std::shared_ptr<const Error> error;
  NodeId origin = -1;      // of the traced graph
  bool inherited = false;  // of an argument
};

/// Waits for the arguments; an error that one of them carries becomes the step's.
void WaitForArguments(const Step& step, bool async) {
  for (const BackendDataPtr& argument : step.arguments) {
    // An asynchronous backend orders its own work: it only needs to know the memory.
    if (!argument->IsReady() && !(async && argument->HasValue())) argument->Wait();
    if (auto error = argument->error()) throw Failure{error, -1, true};
  }
}

/// Copies a value of one device to another through the host.
BackendDataPtr CopyTo(DeviceEntry& to, DeviceEntry& from, const BackendDataPtr& data) {
  if (&to == &from) return data;
  static metrics::Metric& bytes =
      metrics::GetMetric("FallbackTransferBytes", metrics::Kind::kBytes);
  HostTensor host = from.backend->MakeTensorFromComputationData(data, data->shape().dtype());
  bytes.AddSample(static_cast<double>(host.bytes()));
  return to.backend->MakeComputationDataFromTensor(host, data->shape(), to.device);
}

std::vector<BackendDataPtr> RunSegment(const CompiledSegment& segment,
                                       std::span<const BackendDataPtr> arguments,
                                       const std::vector<bool>& donated) {
  static const std::vector<bool> none;
  try {
    auto results = segment.device->backend->ExecuteComputation(
        segment.computation, arguments, segment.device->device, donated.empty() ? none : donated);
    HAMMOCK_CHECK(results.size() == static_cast<size_t>(segment.computation->results_size()),
                  "backend {} returned {} results of {}", segment.device->type, results.size(),
                  segment.computation->results_size());
    return results;
  } catch (const lazy::ExecutionError& error) {
    std::shared_ptr<Error> located = error.Clone();
    NodeId origin = -1;
    const Graph& graph = segment.computation->graph();
    if (error.node() >= 0 && error.node() < graph.size()) {
      origin = graph[error.node()].origin;
      if (located->where().empty()) located->SetWhere(LocationText(graph[error.node()].location));
    }
    throw Failure{std::move(located), origin};
  } catch (...) {
    throw Failure{
        CurrentError(ErrorCode::kExecute, fmt::format("execution on {}", segment.device->name()))};
  }
}

}  // namespace

void StepExecutor::Submit(DeviceEntry& device, const StepPtr& step, bool wait) {
  if (device.backend->IsAsynchronous()) {
    Execute(step);
    return;
  }
  bool tiny = step->compiled->result_bytes + step->compiled->argument_bytes <= kTinyBytes;
  bool here = !config::Get<config::kAsync>() || wait || tiny;
  if (here && (device.queued.load(std::memory_order_acquire) == 0 || device.queue->InTask())) {
    std::unique_lock running(device.running, std::try_to_lock);
    if (running) {
      bool ready = true;
      for (const BackendDataPtr& argument : step->arguments) ready &= argument->IsReady();
      if (ready || wait) {
        Execute(step);
        return;
      }
    }
  }
  device.queued.fetch_add(1, std::memory_order_acq_rel);
  device.queue->Push([this, &device, step] {
    {
      std::lock_guard running(device.running);
      Execute(step);
    }
    device.queued.fetch_sub(1, std::memory_order_acq_rel);
  });
}

void StepExecutor::Execute(const StepPtr& step) {
  auto start = std::chrono::steady_clock::now();
  std::vector<BackendDataPtr> results;
  try {
    bool async = step->compiled->device->backend->IsAsynchronous();
    WaitForArguments(*step, async);
    ExecuteSegments(*step, results);
    for (size_t i = 0; i < results.size(); ++i) {
      const Shape& expected = step->placeholders[i]->shape();
      if (results[i]->shape() != expected) {
        throw Failure{std::make_shared<InternalError>(
            ErrorCode::kExecute,
            fmt::format("backend {} returned {} where {} was expected",
                        step->compiled->device->type, results[i]->shape().to_string(),
                        expected.to_string()))};
      }
    }
    for (size_t i = 0; i < results.size(); ++i) step->placeholders[i]->Assign(*results[i]);
  } catch (const Failure& failure) {
    Fail(*step, failure.error, failure.origin, failure.inherited);
    return;
  } catch (...) {
    Fail(*step, CurrentError(ErrorCode::kExecute, "execution"), -1, false);
    return;
  }
  // An asynchronous backend's results come later: the last one finishes the step.
  std::vector<BackendDataPtr> pending;
  for (const BackendDataPtr& result : results) {
    if (!result->IsReady()) pending.push_back(result);
  }
  if (pending.empty()) {
    Finish(*step, results, start);
    return;
  }
  auto left = std::make_shared<std::atomic<size_t>>(pending.size());
  for (const BackendDataPtr& result : pending) {
    result->OnReady([this, left, step, results, start] {
      if (left->fetch_sub(1) == 1) Finish(*step, results, start);
    });
  }
}

void StepExecutor::Finish(Step& step, const std::vector<BackendDataPtr>& results,
                          std::chrono::steady_clock::time_point start) {
  for (const BackendDataPtr& result : results) {
    if (auto error = result->error()) {
      // Of one segment the node is known; a step of several has waited for each.
      NodeId origin = -1;
      auto* execution = dynamic_cast<const lazy::ExecutionError*>(error.get());
      if (execution && step.compiled->simple) {
        const Graph& graph = step.compiled->segments[0].computation->graph();
        if (execution->node() >= 0 && execution->node() < graph.size()) {
          origin = graph[execution->node()].origin;
        }
      }
      Fail(step, error, origin, false);
      return;
    }
  }
  static metrics::Metric& time = metrics::GetMetric("ExecuteTime", metrics::Kind::kTime);
  auto end = std::chrono::steady_clock::now();
  auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(end - start).count();
  step.compiled->executions.fetch_add(1, std::memory_order_relaxed);
  step.compiled->execute_ns.fetch_add(ns, std::memory_order_relaxed);
  time.AddSample(static_cast<double>(ns), end);
  Succeed(step);
}

void StepExecutor::ExecuteSegments(Step& step, std::vector<BackendDataPtr>& results) {
  const CompiledStep& compiled = *step.compiled;
  if (compiled.simple) {
    results = RunSegment(compiled.segments[0], step.arguments, step.donated);
    return;
  }
  for (const Refusal& refusal : compiled.refusals) {
    metrics::GetCounter("fallback::" + refusal.op).Add();
  }
  // Values by number, on the device that made them.
  std::vector<BackendDataPtr> values(static_cast<size_t>(compiled.num_values));
  std::vector<DeviceEntry*> devices(values.size(), compiled.device);
  std::copy(step.arguments.begin(), step.arguments.end(), values.begin());
  for (const CompiledSegment& segment : compiled.segments) {
    std::vector<BackendDataPtr> arguments;
    for (int input : segment.inputs) {
      const BackendDataPtr& value = values[static_cast<size_t>(input)];
      value->WaitReady();
      arguments.push_back(CopyTo(*segment.device, *devices[static_cast<size_t>(input)], value));
    }
    auto outputs = RunSegment(segment, arguments, {});
    for (size_t i = 0; i < outputs.size(); ++i) {
      values[static_cast<size_t>(segment.first_output) + i] = outputs[i];
      devices[static_cast<size_t>(segment.first_output) + i] = segment.device;
    }
  }
  for (int result : compiled.results) {
    const BackendDataPtr& value = values[static_cast<size_t>(result)];
    value->WaitReady();
    results.push_back(CopyTo(*compiled.device, *devices[static_cast<size_t>(result)], value));
  }
}

void StepExecutor::Succeed(Step& step) {
  std::vector<Node*> dropped;
  {
    std::lock_guard lock(graph_mutex);
    for (const NodePtr& node : step.output_nodes) NodeAccess::TakeOperands(node.get(), dropped);
    for (const NodePtr& node : step.given_away) node->slots()[0].data = nullptr;
  }
  step.arguments.clear();
  for (const BackendDataPtr& placeholder : step.placeholders) placeholder->SetReady();
  for (Node* node : dropped) node->DropReference();
}

void StepExecutor::Fail(Step& step, std::shared_ptr<const Error> error, NodeId origin,
                        bool inherited) {
  static metrics::Counter& failures = metrics::GetCounter("FailedSteps");
  failures.Add();
  DeviceEntry& device = *step.compiled->device;
  if (!inherited) {
    step.own_failure = true;
    constexpr size_t kMostUnseen = 64;
    std::lock_guard lock(device.error_mutex);
    if (device.unseen_errors.size() < kMostUnseen) device.unseen_errors.push_back(error);
  }
  {
    std::lock_guard lock(graph_mutex);
    for (const NodePtr& node : step.output_nodes) {
      for (int i = 0; i < node->num_outputs(); ++i) node->slots()[i].data = nullptr;
    }
    if (!inherited) {
      Node* culprit = nullptr;
      if (origin >= 0 && origin < static_cast<NodeId>(step.order.size())) {
        culprit = step.order[static_cast<size_t>(origin)];
      } else if (step.recipe) {
        culprit = step.recipe.get();
      } else if (step.output_nodes.size() == 1) {
        culprit = step.output_nodes[0].get();
      }
      if (culprit && !culprit->IsLeaf()) NodeAccess::MakePayload(culprit).error = error;
    }
  }
  for (const BackendDataPtr& placeholder : step.placeholders) placeholder->SetError(error);
}

void StepExecutor::Run(const CompiledStepPtr& compiled, std::vector<BackendDataPtr> arguments,
                       std::vector<NodePtr> outputs, NodePtr recipe) {
  CheckNotForked();
  auto step = std::make_shared<Step>();
  step->compiled = compiled;
  step->arguments = std::move(arguments);
  step->recipe = std::move(recipe);
  DeviceEntry& device = *compiled->device;
  for (const NodePtr& output : outputs) {
    step->placeholders.push_back(
        device.backend->CreateDataPlaceholder(device.device, output->shape()));
    step->placeholders.back()->MakePending();
  }
  {
    std::lock_guard lock(graph_mutex);
    for (size_t i = 0; i < outputs.size(); ++i) outputs[i]->slots()[0].data = step->placeholders[i];
  }
  step->output_nodes = std::move(outputs);
  Submit(device, step, false);
}

}  // namespace hammock
