/// Running a claimed step: inline or queued, segment by segment.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "backends/common/collectives.h"
#include "base/location_scope.h"
#include "base/log.h"
#include "base/process_exit.h"
#include "base/throw.h"
#include "base/tools.h"
#include "distributed/running_step.h"
#include "hammock/config.h"
#include "hammock/metric.h"
#include "ir/node_access.h"
#include "runtime/cache/general_step.h"
#include "runtime/devices/backend_calls.h"
#include "runtime/diagnose/anomaly.h"
#include "runtime/diagnose/profile_points.h"
#include "runtime/step/executor.h"
#include "runtime/step/replay.h"
#include "runtime/step/running_step.h"
#include "runtime/step/under_way.h"
#include "runtime/step/wait.h"
#include "trace/record.h"

namespace hammock {

constinit config::Option<bool> config::kAsync({
    .name = "async",
    .default_value = true,
    .doc = "Execute on another thread while the program goes on; off: a sync returns when all "
           "results are ready.",
    .upstream = "torch_lazy_use_thread_pool",
});

constinit config::Option<int64_t> config::kMaxAsyncQueue({
    .name = "max_async_queue",
    .default_value = 100,
    .doc = "Steps and closures that may wait for execution before the program waits for them.",
    .min = 1,
    .upstream = "LTC_MAX_ASYNC_QUEUE",
});

constinit thread_local LocationId running_step_location = 0;

namespace {

constinit const metrics::DeclaredMetric kFallbackTransferBytes({
    .name = "FallbackTransferBytes",
    .kind = metrics::Kind::kBytes,
    .doc = "Bytes copied between a device and the fallback device.",
});

constinit const metrics::DeclaredCounter kFallbacks({
    .name = "fallback::<op>",
    .doc = "Runs of ops that a device left to the fallback device.",
});

constinit const metrics::DeclaredMetric kExecuteTime({
    .name = "ExecuteTime",
    .kind = metrics::Kind::kTime,
    .doc = "Runs of compiled steps.",
});

constexpr int64_t kTinyBytes = 1 << 16;

struct Failure {
  std::shared_ptr<const Error> error;
  NodeId origin = {};      // of the traced graph
  bool inherited = false;  // of an argument
};

/// Waits for the arguments; an error that one of them carries becomes the step's.
void WaitForArguments(const Step& step, bool async) {
  for (const BackendDataPtr& argument : step.arguments) {
    // An asynchronous backend orders its own work: it only needs to know the memory.
    if (!argument->IsReady() && !(async && argument->HasValue())) {
      WaitFor(*argument, "wait for arguments");
    }
    if (auto error = argument->error()) throw Failure{error, {}, true};
  }
}

/// Copies a value of one device to another through the host.
BackendDataPtr CopyTo(DeviceEntry& to, DeviceEntry& from, const BackendDataPtr& data) {
  if (&to == &from) return data;
  profile::Span span("copy between devices", "transfer");
  if (span.on()) [[unlikely]]
    span.Set("bytes", data->shape().bytes());
  std::vector<HostTensor> host = Download(from, std::span(&data, 1));
  metrics::Get<kFallbackTransferBytes>().AddSample(static_cast<double>(host[0].bytes()));
  return Upload(to, host)[0];
}

/// Where this step recorded the op that `node` was made from. The graph knows the line where it was
/// first recorded.
LocationId LocationIn(const Step& step, const GraphNode& node) {
  const Node* traced = step.recipe ? nullptr : step.TracedNode(node.origin);
  LocationId own = traced ? traced->location() : 0;
  return own ? own : node.location;
}

/// Finds the traced op of an error that names a node of the segment.
Failure Located(const lazy::ExecutionError& error, const CompiledSegment& segment,
                const Step& step) {
  const Graph& graph = segment.computation->graph();
  std::shared_ptr<Error> located = error.Clone();
  if (!graph.Contains(error.node())) return {std::move(located)};
  const GraphNode& node = graph[error.node()];
  // A custom call's own code may have told its line.
  if (located->where().empty() || located->where() == WhereText(node.location)) {
    located->SetWhere(WhereText(LocationIn(step, node)));
  }
  NameCaller(*located, *node.op, node.location);
  return {std::move(located), node.origin};
}

/// An error that came by a result's event.
Failure LateFailure(const Step& step, std::shared_ptr<const Error> error) {
  auto* execution = dynamic_cast<const lazy::ExecutionError*>(error.get());
  if (!execution || step.compiled->segments.size() != 1) return {std::move(error)};
  return Located(*execution, step.compiled->segments[0], step);
}

std::vector<BackendDataPtr> RunSegment(const Step& step, const CompiledSegment& segment,
                                       std::span<const BackendDataPtr> arguments,
                                       const std::vector<bool>& donated,
                                       RunningMemory::Use& memory) {
  const lazy::RunContext run = {.donated = donated,
                                .location = running_step_location,
                                .profile = ProfiledRun::OfSegment(segment),
                                .cancel = process_exit::Run::CancelFlag(),
                                .collectives = step.agreements.get()};
  // It may run several times: what is donated is written only when nothing can fail any more.
  auto execute = [&] { return Execute(*segment.device, segment.computation, arguments, run); };
  auto execute_alone_if_needed = [&] {
    try {
      return execute();
    } catch (const OutOfMemory&) {
      // Other ranks would not run collectives again.
      if (step.agreements || !memory.BecomeAlone()) throw;
    }
    return execute();
  };
  try {
    return execute_alone_if_needed();
  } catch (const process_exit::Cancelled& error) {
    throw Failure{error.Clone(), {}, true};
  } catch (const lazy::ExecutionError& error) {
    throw Located(error, segment, step);
  } catch (...) {
    throw Failure{
        CurrentError(ErrorCode::kExecute, fmt::format("execution on {}", segment.device->name()))};
  }
}

void AssignAll(const Step& step, const std::vector<BackendDataPtr>& results) {
  CallBackend(
      *step.compiled->device, "BackendData::Assign",
      [&](auto&) {
        for (size_t i = 0; i < results.size(); ++i) step.placeholders[i]->Assign(*results[i]);
      },
      ErrorCode::kExecute);
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

/// Whether it is run by the body of a custom call.
bool IsInside(const Step& step) {
  return step.turn == kNoTurn || (running_here && running_here->outer);
}

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
  const WithoutHostLock no_lock;
  std::unique_lock running(LaneOf(device).running, std::defer_lock);
  const bool nested = RunsHere(device);
  if (!device.backend->IsAsynchronous() && !nested) running.lock();
  RunningMemory::Use memory(device, computation->run_bytes, nested);
  Running here(device);
  process_exit::Run run;
  std::vector<BackendDataPtr> results =
      hammock::Execute(device, computation, arguments,
                       {.location = running_step_location,
                        .cancel = process_exit::Run::CancelFlag(),
                        .collectives = CollectiveScope::Current()});  // a custom call's step
  for (const BackendDataPtr& result : results) result->WaitReady();
  return results;
}

void StepExecutor::TakeTurns(DeviceEntry& device, Step& step, bool nested) {
  step.lane = &LaneOf(device);
  // At exit a lane may be stuck for ever; what destructors ask for does not need it.
  const bool at_once = nested || (step.lane != &device.lane && process_exit::Begun());
  step.turn = at_once ? kNoTurn : step.lane->submitting.Take();
  step.ordered = at_once || !step.compiled->ordered ? kNoTurn : device.ordered.Take();
}

bool StepExecutor::Submit(DeviceEntry& device, const StepPtr& step, bool wait) {
  Lane& lane = *step->lane;
  std::unique_lock running(lane.running, std::defer_lock);
  if (step->turn != kNoTurn) {
    Turns::Turn turn(lane.submitting, step->turn);
    if (device.backend->IsAsynchronous()) {
      if (device.in_flight.fetch_add(1, std::memory_order_acq_rel) > 0) {
        std::vector<BackendDataPtr> unused;  // goes when the mutex is free
        GraphLock lock(graph_mutex);
        AwaitSettling(device, lock);
        unused = TakeUnused(device);
      }
    } else {
      bool tiny = step->compiled->result_bytes + step->compiled->argument_bytes <= kTinyBytes;
      bool here = !config::Get<config::kAsync>() || wait || tiny;
      // All steps of the lane before this one were submitted: none may be queued or running.
      here = here && lane.queued.load(std::memory_order_acquire) == 0 && running.try_lock();
      if (!here) {
        Enqueue(device, step);
        return false;
      }
    }
  }
  process_exit::Run run;
  if (!running) {
    Execute(step);
    return false;
  }
  Running here(device);
  Execute(step);
  return true;
}

void StepExecutor::Enqueue(DeviceEntry& device, const StepPtr& step) {
  Lane& lane = *step->lane;
  // It may have changed since the last time.
  lane.queue.SetCapacity(static_cast<size_t>(config::Get<config::kMaxAsyncQueue>()));
  lane.queued.fetch_add(1, std::memory_order_acq_rel);
  try {
    lane.queue.Push([this, &device, &lane, step, before_exit = !process_exit::Begun()] {
      {
        std::lock_guard running(lane.running);
        Running here(device);
        process_exit::Run run(before_exit);
        Execute(step);
      }
      lane.queued.fetch_sub(1, std::memory_order_acq_rel);
    });
  } catch (...) {
    lane.queued.fetch_sub(1, std::memory_order_acq_rel);
    Fail(*step, CurrentError(ErrorCode::kExecute, "execution on " + device.name()), {}, false);
  }
}

void StepExecutor::Execute(const StepPtr& step) {
  ProfiledRun profiled_run(*step->compiled);
  LineOfStep line(*step);
  OutsideOfCalls outside;
  auto start = std::chrono::steady_clock::now();
  std::vector<BackendDataPtr> results;
  DeviceEntry& device = *step->compiled->device;
  tools::Range range(
      [&] { return device.name() + " step at " + WhereText(running_step_location); });
  std::optional<Turns::Turn> ordered;  // taken and passed on also where the step fails
  if (step->ordered != kNoTurn) ordered.emplace(device.ordered, step->ordered);
  try {
    WaitForArguments(*step, device.backend->IsAsynchronous());
    if (process_exit::Run::IsCancelled()) {
      throw Failure{std::make_shared<process_exit::Cancelled>(), {}, true};
    }
    const bool check = ChecksValues();
    if (check) [[unlikely]]
      step->donated.clear();  // the search needs the arguments afterwards
    ExecuteSegments(*step, results);
    if (check) [[unlikely]] {
      Running here(device);  // the search runs steps; see Note [Nested steps]
      if (auto anomaly = FindAnomaly(*step, results)) {
        throw Failure{anomaly->error, anomaly->origin};
      }
    }
    AssignAll(*step, results);
  } catch (const Failure& failure) {
    const bool cancelled = process_exit::Run::IsCancelled();  // whatever a custom call made of it
    Fail(*step, failure.error, failure.origin, failure.inherited || cancelled);
    Landed(*step->compiled->device);
    return;
  } catch (...) {
    Fail(*step, CurrentError(ErrorCode::kExecute, "execution"), {}, false);
    Landed(*step->compiled->device);
    return;
  }
  // Results of an asynchronous backend count when they are ready and the arguments that they were
  // computed from are known not to have failed.
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
  // One that fails just now stays: it is what tells that the step has failed.
  std::erase_if(results,
                [](const BackendDataPtr& result) { return result->IsReady() && !result->error(); });
  auto flight = std::make_shared<Flight>(step, std::move(results), pending.size());
  {
    std::lock_guard lock(graph_mutex);
    device.flights.push_back(step.get());
  }
  for (const BackendDataPtr& data : pending) {
    data->OnReady([this, flight, start] {
      if (flight->left.fetch_sub(1) == 1) Finish(*flight->step, flight->results, start);
    });
  }
}

namespace {

/// Whether it is the first run of the step. Runs of instances are counted for their general step
/// too, since they have no entry that lives on.
bool CountRun(CompiledStep& compiled, int64_t ns) {
  if (!compiled.sizes.empty()) {
    compiled.general->executions.fetch_add(1, std::memory_order_relaxed);
    compiled.general->execute_ns.fetch_add(ns, std::memory_order_relaxed);
  }
  compiled.execute_ns.fetch_add(ns, std::memory_order_relaxed);
  return compiled.executions.fetch_add(1, std::memory_order_relaxed) == 0;
}

}  // namespace

void StepExecutor::Finish(Step& step, std::vector<BackendDataPtr>& results,
                          std::chrono::steady_clock::time_point start) {
  auto fail = [&](const Failure& failure) {
    Fail(step, failure.error, failure.origin, failure.inherited);
    Landed(*step.compiled->device);
  };
  for (const BackendDataPtr& argument : step.arguments) {
    if (auto error = argument->error()) return fail({std::move(error), {}, true});
  }
  for (const BackendDataPtr& result : results) {
    if (auto error = result->error()) return fail(LateFailure(step, std::move(error)));
  }
  auto end = std::chrono::steady_clock::now();
  auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(end - start).count();
  const bool first = CountRun(*step.compiled, ns);
  metrics::Get<kExecuteTime>().AddSample(static_cast<double>(ns), end);
  results.clear();  // who takes over the memory looks who else has it
  Succeed(step);
  if (first) process_exit::ComeFirst();  // libraries set themselves up when they are first used
  Landed(*step.compiled->device);
}

void StepExecutor::Landed(DeviceEntry& device) {
  if (!device.backend->IsAsynchronous()) return;
  device.in_flight.fetch_sub(1, std::memory_order_acq_rel);
  device.in_flight.notify_all();
}

void StepExecutor::ExecuteSegments(Step& step, std::vector<BackendDataPtr>& results) {
  const CompiledStep& compiled = *step.compiled;
  RunningMemory::Use memory(*compiled.device, compiled.run_bytes, IsInside(step));
  if (compiled.simple) {
    results = RunSegment(step, compiled.segments[0], step.arguments, step.donated, memory);
    return;
  }
  for (const Refusal& refusal : compiled.refusals) {
    metrics::Get<kFallbacks>(refusal.op).Add();
  }
  // Values by number, on the device that made them.
  std::vector<BackendDataPtr> values(static_cast<size_t>(compiled.num_values));
  std::vector<DeviceEntry*> devices(values.size(), compiled.device);
  std::copy(step.arguments.begin(), step.arguments.end(), values.begin());
  for (const CompiledSegment& segment : compiled.segments) {
    std::vector<BackendDataPtr> arguments;
    for (int input : segment.inputs) {
      const BackendDataPtr& value = values[input];
      value->WaitReady();
      arguments.push_back(CopyTo(*segment.device, *devices[input], value));
    }
    auto outputs = RunSegment(step, segment, arguments, {}, memory);
    for (size_t i = 0; i < outputs.size(); ++i) {
      values[static_cast<size_t>(segment.first_output) + i] = outputs[i];
      devices[static_cast<size_t>(segment.first_output) + i] = segment.device;
    }
  }
  for (int result : compiled.results) {
    const BackendDataPtr& value = values[result];
    value->WaitReady();
    results.push_back(CopyTo(*compiled.device, *devices[result], value));
  }
}

}  // namespace hammock
