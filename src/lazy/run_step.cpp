/// Running a claimed step: inline or queued, segment by segment, and what becomes of its outcome.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/log.h"
#include "base/throw.h"
#include "hammock/config.h"
#include "hammock/metrics.h"
#include "ir/node_access.h"
#include "lazy/executor.h"
#include "lazy/general_step.h"
#include "lazy/memory_pressure.h"
#include "lazy/replay.h"
#include "lazy/running_step.h"
#include "lazy/trace_points.h"

namespace hammock {

constinit thread_local LocationId running_step_location = 0;

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
    if (!argument->IsReady() && !(async && argument->HasValue())) {
      WaitFor(*argument, "wait for arguments");
    }
    if (auto error = argument->error()) throw Failure{error, -1, true};
  }
}

/// Which outputs of a captured graph depend on the node with that origin.
std::vector<bool> OutputsThatNeed(const Graph& graph, NodeId origin) {
  std::vector<bool> needs(static_cast<size_t>(graph.size()));
  for (NodeId id = 0; id < graph.size(); ++id) {
    bool need = graph[id].origin == origin;
    for (GraphValue input : graph[id].inputs) {
      need = need || (input.node >= 0 && needs[static_cast<size_t>(input.node)]);
    }
    needs[static_cast<size_t>(id)] = need;
  }
  std::vector<bool> outputs;
  for (GraphValue output : graph.outputs()) {
    outputs.push_back(needs[static_cast<size_t>(output.node)]);
  }
  return outputs;
}

/// Copies a value of one device to another through the host.
BackendDataPtr CopyTo(DeviceEntry& to, DeviceEntry& from, const BackendDataPtr& data) {
  if (&to == &from) return data;
  static metrics::Metric& bytes =
      metrics::GetMetric("FallbackTransferBytes", metrics::Kind::kBytes);
  tracing::Span span("copy between devices", "transfer");
  if (span.on()) [[unlikely]]
    span.Set("bytes", data->shape().bytes());
  HostTensor host = from.backend->MakeTensorFromComputationData(data, data->shape().dtype());
  bytes.AddSample(static_cast<double>(host.bytes()));
  return WithMemory(to, [&] {
    return to.backend->MakeComputationDataFromTensor(host, data->shape(), to.device);
  });
}

/// Finds the traced op of an error that names a node of the segment.
Failure Located(const lazy::ExecutionError& error, const CompiledSegment& segment) {
  const Graph& graph = segment.computation->graph();
  std::shared_ptr<Error> located = error.Clone();
  if (error.node() < 0 || error.node() >= graph.size()) return {std::move(located)};
  const GraphNode& node = graph[error.node()];
  if (located->where().empty()) located->SetWhere(LocationText(node.location));
  size_t at = static_cast<size_t>(error.node());
  return {std::move(located), at < segment.origins.size() ? segment.origins[at] : node.origin};
}

/// An error that came by a result's event.
Failure LateFailure(const Step& step, std::shared_ptr<const Error> error) {
  auto* execution = dynamic_cast<const lazy::ExecutionError*>(error.get());
  if (!execution || step.compiled->segments.size() != 1) return {std::move(error)};
  return Located(*execution, step.compiled->segments[0]);
}

std::vector<BackendDataPtr> RunSegment(const CompiledSegment& segment,
                                       std::span<const BackendDataPtr> arguments,
                                       const std::vector<bool>& donated) {
  // Without a destructor: a fork while one is registered leaves the child a lock that nobody opens.
  static const auto& none = *new std::vector<bool>;
  try {
    // It may run twice: what is donated is written only when nothing can fail any more.
    auto results = WithMemory(*segment.device, [&] {
      return segment.device->backend->ExecuteComputation(
          segment.computation, arguments, segment.device->device, donated.empty() ? none : donated);
    });
    HAMMOCK_CHECK(results.size() == static_cast<size_t>(segment.computation->results_size()),
                  "backend {} returned {} results of {}", segment.device->type, results.size(),
                  segment.computation->results_size());
    return results;
  } catch (const lazy::ExecutionError& error) {
    throw Located(error, segment);
  } catch (...) {
    throw Failure{
        CurrentError(ErrorCode::kExecute, fmt::format("execution on {}", segment.device->name()))};
  }
}

/// Devices whose computations this thread is running, innermost first.
struct Running {
  explicit Running(const DeviceEntry& device);
  ~Running();
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  const DeviceEntry& device;
  const Running* outer;
};
constinit thread_local const Running* running_here = nullptr;

Running::Running(const DeviceEntry& device) : device(device), outer(running_here) {
  running_here = this;
}
Running::~Running() { running_here = outer; }

/// Says where a step was recorded while it is run.
class LineOfStep {
 public:
  explicit LineOfStep(const Step& step) : outer_(running_step_location) {
    running_step_location = step.output_nodes.empty() ? 0 : step.output_nodes.back()->location();
  }
  ~LineOfStep() { running_step_location = outer_; }
  LineOfStep(const LineOfStep&) = delete;
  LineOfStep& operator=(const LineOfStep&) = delete;

 private:
  const LocationId outer_;
};

/// A step's turn to be submitted; passes it on at the end of the scope.
class Turn {
 public:
  Turn(DeviceEntry& device, uint64_t number) : device_(device), number_(number) {
    for (uint64_t now; (now = device_.submitted.load(std::memory_order_acquire)) != number_;) {
      device_.submitted.wait(now, std::memory_order_acquire);
    }
  }
  ~Turn() {
    device_.submitted.store(number_ + 1, std::memory_order_release);
    device_.submitted.notify_all();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  DeviceEntry& device_;
  const uint64_t number_;
};

}  // namespace

bool RunsHere(const DeviceEntry& device) {
  for (const Running* at = running_here; at; at = at->outer) {
    if (&at->device == &device) return true;
  }
  return false;
}

void RefuseToWait(const DeviceEntry& device, const BackendDataPtr& data) {
  if (!RunsHere(device) || data->IsReady()) return;
  Throw(ErrorCode::kExecutionForbidden,
        "a computation that runs on {} needs a value ({}) that waits for the same device, and so "
        "for this computation; compute the value before, or make it an operand",
        device.name(), data->shape().to_string());
}

std::vector<BackendDataPtr> ExecuteNow(DeviceEntry& device, const lazy::ComputationPtr& computation,
                                       std::span<const BackendDataPtr> arguments) {
  std::unique_lock running(device.running, std::defer_lock);
  if (!device.backend->IsAsynchronous() && !RunsHere(device)) running.lock();
  Running here(device);
  static const auto& none = *new std::vector<bool>;
  std::vector<BackendDataPtr> results = WithMemory(device, [&] {
    return device.backend->ExecuteComputation(computation, arguments, device.device, none);
  });
  HAMMOCK_CHECK(results.size() == static_cast<size_t>(computation->results_size()),
                "backend {} returned {} results of {}", device.type, results.size(),
                computation->results_size());
  for (const BackendDataPtr& result : results) result->WaitReady();
  return results;
}

bool StepExecutor::Submit(DeviceEntry& device, const StepPtr& step, bool wait) {
  std::unique_lock running(device.running, std::defer_lock);
  if (step->turn != kNoTurn) {
    Turn turn(device, step->turn);
    if (device.backend->IsAsynchronous()) {
      device.in_flight.fetch_add(1, std::memory_order_acq_rel);
    } else {
      bool tiny = step->compiled->result_bytes + step->compiled->argument_bytes <= kTinyBytes;
      bool here = !config::Get<config::kAsync>() || wait || tiny;
      // All steps before this one were submitted: if none is queued or running, its arguments are
      // ready.
      here = here && device.queued.load(std::memory_order_acquire) == 0 && running.try_lock();
      if (!here) {
        Enqueue(device, step);
        return false;
      }
    }
  }
  if (!running) {
    Execute(step);
    return false;
  }
  Running here(device);
  Execute(step);
  return true;
}

void StepExecutor::Enqueue(DeviceEntry& device, const StepPtr& step) {
  // It may have changed since the last time.
  device.queue->SetCapacity(static_cast<size_t>(config::Get<config::kMaxAsyncQueue>()));
  device.queued.fetch_add(1, std::memory_order_acq_rel);
  try {
    device.queue->Push([this, &device, step] {
      {
        std::lock_guard running(device.running);
        Running here(device);
        Execute(step);
      }
      device.queued.fetch_sub(1, std::memory_order_acq_rel);
    });
  } catch (...) {
    device.queued.fetch_sub(1, std::memory_order_acq_rel);
    Fail(*step, CurrentError(ErrorCode::kExecute, "execution on " + device.name()), -1, false);
  }
}

void StepExecutor::Execute(const StepPtr& step) {
  TracedRun traced_run(*step->compiled);
  LineOfStep line(*step);
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
    Landed(*step->compiled->device);
    return;
  } catch (...) {
    Fail(*step, CurrentError(ErrorCode::kExecute, "execution"), -1, false);
    Landed(*step->compiled->device);
    return;
  }
  // What an asynchronous backend has computed counts when it is there, and when it is known that
  // what it was computed from has not failed.
  std::vector<BackendDataPtr> pending;
  for (const BackendDataPtr& result : results) {
    if (!result->IsReady()) pending.push_back(result);
  }
  for (const BackendDataPtr& argument : step->arguments) {
    if (!argument->IsReady()) pending.push_back(argument);
  }
  if (pending.empty()) {
    Finish(*step, results, start);
    return;
  }
  struct Flight {
    StepPtr step;
    std::vector<BackendDataPtr> results;
    std::atomic<size_t> left;
  };
  auto flight = std::make_shared<Flight>(step, std::move(results), pending.size());
  for (const BackendDataPtr& data : pending) {
    data->OnReady([this, flight, start] {
      if (flight->left.fetch_sub(1) == 1) Finish(*flight->step, flight->results, start);
    });
  }
}

namespace {

void CountRun(CompiledStep& compiled, int64_t ns) {
  bool instance = !compiled.sizes.empty();
  auto& executions = instance ? compiled.general->executions : compiled.executions;
  auto& execute_ns = instance ? compiled.general->execute_ns : compiled.execute_ns;
  executions.fetch_add(1, std::memory_order_relaxed);
  execute_ns.fetch_add(ns, std::memory_order_relaxed);
}

}  // namespace

void StepExecutor::Finish(Step& step, std::vector<BackendDataPtr>& results,
                          std::chrono::steady_clock::time_point start) {
  auto fail = [&](const Failure& failure) {
    Fail(step, failure.error, failure.origin, failure.inherited);
    Landed(*step.compiled->device);
  };
  for (const BackendDataPtr& argument : step.arguments) {
    if (auto error = argument->error()) return fail({std::move(error), -1, true});
  }
  for (const BackendDataPtr& result : results) {
    if (auto error = result->error()) return fail(LateFailure(step, std::move(error)));
  }
  static metrics::Metric& time = metrics::GetMetric("ExecuteTime", metrics::Kind::kTime);
  auto end = std::chrono::steady_clock::now();
  auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(end - start).count();
  CountRun(*step.compiled, ns);
  time.AddSample(static_cast<double>(ns), end);
  results.clear();  // who takes over the memory looks who else has it
  Succeed(step);
  Landed(*step.compiled->device);
}

void StepExecutor::Landed(DeviceEntry& device) {
  if (!device.backend->IsAsynchronous()) return;
  device.in_flight.fetch_sub(1, std::memory_order_acq_rel);
  device.in_flight.notify_all();
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
    if (tracing::IsOn()) [[unlikely]]
      TracedRun::EnterSegment(static_cast<size_t>(&segment - compiled.segments.data()));
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
  {
    std::lock_guard lock(graph_mutex);
    for (const NodePtr& node : step.output_nodes) {
      NodeAccess::TakeOperands(node.get(), step.dropped);
    }
    for (const WriteUnitPtr& unit : step.units) --unit->in_flight;
  }
  step.arguments.clear();
  for (lazy::BackendData* placeholder : step.placeholders) placeholder->SetReady();
  for (Node* node : step.dropped) node->DropReference();
  step.dropped.clear();
  for (const WriteUnitPtr& unit : step.units) TrySettle(unit);
}

void StepExecutor::FailUnits(Step& step, const std::shared_ptr<const Error>& error, bool is_known) {
  for (const WriteUnitPtr& unit : step.units) {
    --unit->in_flight;
    if (unit->error) continue;
    // Where it is not known which op failed, it may be any.
    std::shared_ptr<const Error> failure = is_known ? FailureOf(*unit) : error;
    if (failure) FailUnit(*unit, std::move(failure));
  }
}

void StepExecutor::Fail(Step& step, std::shared_ptr<const Error> error, NodeId origin,
                        bool inherited) {
  static metrics::Counter& failures = metrics::GetCounter("FailedSteps");
  failures.Add();
  DeviceEntry& device = *step.compiled->device;
  if (!inherited) {
    step.own_failure = true;
    AddUnseen(device, step.owner, error);
  }
  std::vector<BackendDataPtr> held;  // until they have the error
  {
    std::lock_guard lock(graph_mutex);
    for (const NodePtr& node : step.output_nodes) {
      for (int i = 0; i < node->num_outputs(); ++i) {
        held.push_back(std::move(node->slots()[i].data));
      }
    }
    bool is_known = inherited;
    if (!inherited) {
      Node* culprit = nullptr;
      if (step.recipe && origin >= 0) {
        std::vector<bool> affected = OutputsThatNeed(step.compiled->traced, origin);
        for (size_t i = 0; i < step.output_nodes.size() && i < affected.size(); ++i) {
          if (affected[i]) NodeAccess::MakePayload(step.output_nodes[i].get()).error = error;
        }
      } else if (origin >= 0 && origin < static_cast<NodeId>(step.order.size())) {
        culprit = step.order[static_cast<size_t>(origin)];
      } else if (step.recipe) {
        culprit = step.recipe.get();
      } else {
        NoteFailure(device, step.output_nodes, error);
      }
      if (culprit && !culprit->IsLeaf()) NodeAccess::MakePayload(culprit).error = error;
      is_known = culprit || (step.recipe && origin >= 0);
    }
    FailUnits(step, error, is_known);
  }
  for (lazy::BackendData* placeholder : step.placeholders) placeholder->SetError(error);
}

namespace {

/// Which arguments of a replay die with it. With the graph mutex held.
std::vector<bool> Dying(const Step& step, const std::vector<bool>& released) {
  std::vector<bool> dying(step.arguments.size());
  auto operands = step.recipe->operands();
  for (size_t i = 0; i < released.size(); ++i) {
    if (!released[i]) continue;
    const Node* node = operands[i].node;
    auto uses = std::count_if(operands.begin(), operands.end(),
                              [&](const Node::Operand& operand) { return operand.node == node; });
    // The recipe and the tensor that lets go refer to the node; the node and the step to the data.
    dying[i] = node->references() == uses + 1 && step.arguments[i].use_count() == 2 &&
               MayDonate(*node, *step.arguments[i], *step.compiled->device);
  }
  return dying;
}

}  // namespace

void StepExecutor::Run(const CompiledStepPtr& compiled, std::vector<BackendDataPtr> arguments,
                       std::vector<NodePtr> outputs, NodePtr recipe,
                       const std::vector<bool>& released, const WriteUnitPtr& unit) {
  CheckNotForked();
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
    placeholders.push_back(device.backend->CreateDataPlaceholder(device.device, output->shape()));
    placeholders.back()->MakePending();
    step->placeholders.push_back(placeholders.back().get());
  }
  {
    std::lock_guard lock(graph_mutex);
    for (size_t i = 0; i < outputs.size(); ++i) outputs[i]->slots()[0].data = placeholders[i];
    step->turn = nested ? kNoTurn : device.claimed++;
    std::vector<Node*> operands;
    for (const Node::Operand& operand : step->recipe->operands()) operands.push_back(operand.node);
    bool is_own = context.step_depth == 0;  // of a step the unit may have other parts
    bool may = JoinUnits(*step, unit ? UnitSpan(&unit, 1) : UnitSpan(), operands, is_own);
    if (config::Get<config::kParamAliasing>() && (may || !is_own)) {
      step->donated = Dying(*step, released);
    }
  }
  step->output_nodes = std::move(outputs);
  bool wait = !config::Get<config::kAsync>() && !nested;
  if (!wait) placeholders.clear();
  Submit(device, step, false);
  for (const BackendDataPtr& placeholder : placeholders) placeholder->Wait();
}

}  // namespace hammock
