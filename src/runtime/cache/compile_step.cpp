/// From a miss to a compiled step: explain, lower, partition, compile, warn about fallbacks.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "backends/table.h"
#include "base/log.h"
#include "base/throw.h"
#include "compiler/facts/effects.h"
#include "hammock/config.h"
#include "hammock/metric.h"
#include "ir/primitives.h"
#include "runtime/cache/compile_step.h"
#include "runtime/cache/general_step.h"
#include "runtime/cache/saved_step.h"
#include "runtime/cache/walk.h"
#include "runtime/devices/backend_calls.h"
#include "runtime/diagnose/explain.h"
#include "runtime/diagnose/profile_points.h"
#include "runtime/step/executor.h"
#include "runtime/step/step_collectives.h"

namespace hammock {

constinit config::Option<bool> config::kFallback({
    .name = "fallback",
    .default_value = true,
    .doc = "Run ops that a backend cannot lower on `fallback_device`; off: they are errors.",
    .affects_code = true,
});

constinit config::Option<std::string> config::kFallbackDevice({
    .name = "fallback_device",
    .default_value = "",
    .doc = "Device that runs what a backend cannot lower; empty: the one that the backend names.",
    .affects_code = true,
});

constinit config::Option<std::string> config::kForceFallback({
    .name = "force_fallback",
    .default_value = "",
    .doc = "Ops that run on `fallback_device` in any case, separated by colons or commas.",
    .affects_code = true,
    .upstream = "LTC_FORCE_FALLBACK",
});

namespace {

constinit const metrics::DeclaredMetric kLowerTime({
    .name = "LowerTime",
    .kind = metrics::Kind::kTime,
    .doc = "Passes over new graphs.",
});

constinit const metrics::DeclaredMetric kCompileTime({
    .name = "CompileTime",
    .kind = metrics::Kind::kTime,
    .doc = "Compilations by backends; the CPU's kernels follow in the background.",
});

constinit const metrics::DeclaredCounter kFallbackCompile({
    .name = "fallback::compile",
    .doc = "Segments of steps that moved to the fallback device because they did not compile.",
});

constinit const metrics::DeclaredCounter kUncachedCompile({
    .name = "UncachedCompile",
    .doc = "Graphs that were compiled.",
});

constinit const metrics::DeclaredMetric kTensorsGraphSize({
    .name = "TensorsGraphSize",
    .kind = metrics::Kind::kValue,
    .doc = "Nodes of graphs that were compiled.",
});

using Verdict = lazy::Capability::Verdict;

void CheckHasNode(const std::string& name) {
  std::vector<const OpDef*> overloads = op_registry::Overloads(name);
  if (overloads.empty()) overloads.push_back(&op_registry::Get(name));  // or the nearest name
  for (const OpDef* op : overloads) {
    if (op->IsNode()) return;
  }
  Throw(ErrorCode::kUnknownName,
        "force_fallback: {} has no node of its own; name the ops that it records, which a dump of "
        "its result shows",
        name);
}

std::set<std::string> ForcedNames() {
  std::set<std::string> names;
  std::string name;
  for (char c : config::Get<config::kForceFallback>() + ",") {
    if (c == ',' || c == ':') {
      if (!name.empty()) {
        CheckHasNode(name);
        names.insert(name);
      }
      name.clear();
    } else if (!std::isspace(static_cast<unsigned char>(c))) {
      name += c;
    }
  }
  return names;
}

bool IsForced(const std::set<std::string>& forced, const GraphNode& node) {
  return forced.contains(node.op->info().name) || forced.contains(node.op->info().schema.name());
}

std::string TextOf(const Refusal& refusal) {
  return fmt::format("{} [at {}]", refusal.op, WhereText(refusal.location));
}

/// `what` needs it.
DeviceEntry& FallbackOf(DeviceEntry& device, const std::string& what) {
  std::string name = config::Get<config::kFallbackDevice>();
  if (name.empty()) {
    name = CallBackend(device, "EagerFallbackDeviceType",
                       [](auto& backend) { return backend.EagerFallbackDeviceType(); });
  }
  try {
    return EntryOf(Device(name).id());
  } catch (Error& error) {
    error.SetMessage(fmt::format("{}: not run by {}, and its fallback device cannot be used: {}",
                                 what, device.name(), error.message()));
    throw;
  }
}

Optimiser OptimiserFor(const DeviceEntry& device) {
  bool wanted = CallBackend(device, "WantsOptimisedGraphs", [&](auto& backend) {
    return backend.WantsOptimisedGraphs(device.device);
  });
  if (!wanted) return nullptr;
  return [](Graph graph) { return Optimise(std::move(graph), EvaluateOnHost); };
}

Graph LowerForFallback(const Graph& graph, DeviceEntry& fallback) {
  auto query = [&](const Graph& whole, NodeId node) { return CapabilityOf(fallback, whole, node); };
  LoweredStep lowered = LowerGraph(graph, query, OptimiserFor(fallback));
  if (!lowered.refusals.empty()) {
    Throw<CompileError>(ErrorCode::kCompile, "{}: the fallback device {} cannot run it either: {}",
                        TextOf(lowered.refusals[0]), fallback.name(), lowered.refusals[0].reason);
  }
  return lowered.graph;
}

void WarnOfRefusals(const CompiledStep& step) {
  for (const Refusal& refusal : step.refusals) {
    LogOnce("fallback:" + step.device->type + ":" + refusal.op, LogLevel::kWarn,
            "{} [at {}] runs on {} instead of {}: {}; each run takes up to {} through the host",
            refusal.op, LocationText(refusal.location), step.fallback->name(), step.device->name(),
            refusal.reason,
            metrics::Repr(metrics::Kind::kBytes, static_cast<double>(refusal.bytes)));
  }
}

int64_t BytesOfValues(const Graph& graph, bool inputs) {
  int64_t bytes = 0;
  if (inputs) {
    for (NodeId id : graph.inputs()) bytes += graph[id].type().bytes();
  } else {
    for (GraphValue value : graph.outputs()) bytes += graph.TypeOf(value).bytes();
  }
  return bytes;
}

/// Types are those of many nodes.
int64_t SizeOfGraph(const Graph& graph) {
  int64_t bytes = 0;
  for (const GraphNode& node : graph.nodes()) {
    bytes += static_cast<int64_t>(sizeof(GraphNode) + node.inputs.size() * sizeof(GraphValue) +
                                  node.attrs.size() * sizeof(Attr));
  }
  return bytes;
}

}  // namespace

LoweredStep LowerStep(DeviceEntry& device, const Graph& traced) {
  std::set<std::string> forced = ForcedNames();
  auto start = std::chrono::steady_clock::now();
  profile::Span span("lower", "compile");
  auto query = [&](const Graph& graph, NodeId node) -> lazy::Capability {
    if (IsForced(forced, graph[node])) return {Verdict::kRefuse, kForcedFallback};
    return CapabilityOf(device, graph, node);
  };
  LoweredStep lowered = LowerGraph(traced, query, OptimiserFor(device));
  metrics::Get<kLowerTime>().AddSample(static_cast<double>(
      std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count()));
  if (!lowered.refusals.empty() && !config::Get<config::kFallback>()) {
    const Refusal& refusal = lowered.refusals[0];
    Throw<NotSupported>(ErrorCode::kNotSupported,
                        "{}: not run by {}: {} (config `fallback` is off)", TextOf(refusal),
                        device.name(), refusal.reason);
  }
  return lowered;
}

namespace {

/// Whether this thread compiles for mark_step.
constinit thread_local bool in_mark_step = false;

class MarkStepScope {
 public:
  explicit MarkStepScope(bool on) : before_(std::exchange(in_mark_step, on)) {}
  ~MarkStepScope() { in_mark_step = before_; }
  MarkStepScope(const MarkStepScope&) = delete;
  MarkStepScope& operator=(const MarkStepScope&) = delete;

 private:
  const bool before_;
};

// Which argument is donated is known only when a step runs; what could be overwritten by what is
// known here. Each parameter receives at most one result.
void SetUpAliases(lazy::LoweringContext& context) {
  const Graph& graph = context.graph();
  auto key = [](const Shape& type) { return std::pair(type.dtype(), type.sizes().vec()); };
  std::map<std::pair<DType, std::vector<int64_t>>, std::vector<int>> free;  // last one first
  for (size_t i = graph.inputs().size(); i-- > 0;) {
    const Shape& type = graph[graph.inputs()[i]].type();
    if (type.rank() > 0) free[key(type)].push_back(static_cast<int>(i));
  }
  for (size_t result = 0; result < graph.outputs().size(); ++result) {
    auto found = free.find(key(graph.TypeOf(graph.outputs()[result])));
    if (found == free.end() || found->second.empty()) continue;
    context.SetUpAlias(static_cast<int>(result), found->second.back());
    found->second.pop_back();
  }
}

}  // namespace

bool InMarkStep() { return in_mark_step; }

lazy::ComputationPtr CompileGraph(DeviceEntry& device, std::span<const std::string> devices,
                                  Graph graph, std::vector<lazy::DerivedSize> derived) {
  auto context = CallBackend(device, "CreateLoweringContext", [&](auto& backend) {
    return backend.CreateLoweringContext("SyncTensorsGraph", device.device);
  });
  HAMMOCK_CHECK(context, "CreateLoweringContext of {} returned null", device.name());
  context->SetGraph(std::move(graph));
  if (config::Get<config::kParamAliasing>()) SetUpAliases(*context);
  lazy::ComputationPtr computation = CallBackend(
      device, "LoweringContext::Build", [&](auto&) { return context->Build(); },
      ErrorCode::kCompile);
  HAMMOCK_CHECK(computation, "LoweringContext::Build of {} returned null", device.name());
  computation->in_mark_step = InMarkStep();
  computation->derived_sizes = std::move(derived);
  const std::string own = device.name();
  computation->devices = CallBackend(device, "GetCompilationDevices", [&](auto& backend) {
    return backend.GetCompilationDevices(own, devices.empty() ? std::span(&own, 1) : devices);
  });
  metrics::ScopedTimer timer(metrics::Get<kCompileTime>());
  profile::Span span("compile for device", "compile");
  if (span.on()) [[unlikely]]
    span.Set("device", own);
  return Compile(device, computation);
}

CompiledStepPtr BuildStep(DeviceEntry& device, const Graph& traced, LoweredStep lowered,
                          const SegmentCompiler& compile) {
  auto step = std::make_shared<CompiledStep>();
  step->device = &device;
  step->num_parameters = static_cast<int>(lowered.graph.inputs().size());
  std::map<GraphValue, int> numbers;
  for (NodeId id : lowered.graph.inputs()) {
    int number = static_cast<int>(numbers.size());
    numbers[{id, 0}] = number;
  }
  // A large graph is not kept while its segments are compiled.
  const std::vector<GraphValue> outputs = lowered.graph.outputs();
  lowered.graph = Graph();
  DeviceEntry* fallback =
      lowered.refusals.empty() ? nullptr : &FallbackOf(device, TextOf(lowered.refusals[0]));
  step->refusals = lowered.refusals;
  step->fallback = fallback;
  step->num_values = step->num_parameters;
  for (size_t i = 0; i < lowered.segments.size(); ++i) {
    Segment& segment = lowered.segments[i];
    CompiledSegment compiled;
    compiled.fallback = segment.target != 0;
    compiled.device = compiled.fallback ? fallback : &device;
    Graph graph =
        compiled.fallback ? LowerForFallback(segment.graph, *fallback) : std::move(segment.graph);
    try {
      compiled.computation = compiled.fallback ? CompileGraph(*fallback, {}, std::move(graph))
                                               : compile(std::move(graph));
    } catch (const CompileError& error) {
      if (compiled.fallback || !config::Get<config::kFallback>()) throw;
      DeviceEntry& other = FallbackOf(device, "a graph that could not be compiled");
      if (&other == &device) throw;
      LogOnce("compile fallback:" + device.type, LogLevel::kWarn,
              "{} could not compile a graph, {} runs it: {}", device.name(), other.name(),
              error.what());
      metrics::Get<kFallbackCompile>().Add();
      step->compile_failed = true;
      compiled.device = &other;
      compiled.fallback = true;
      // The graph is gone: while a large one is compiled, no copy of it is kept for this.
      graph = LowerForFallback(LowerStep(device, traced).segments.at(i).graph, other);
      compiled.computation = CompileGraph(other, {}, std::move(graph));
    }
    for (GraphValue input : segment.inputs) compiled.inputs.push_back(numbers.at(input));
    compiled.first_output = step->num_values;
    for (GraphValue output : segment.outputs) numbers.try_emplace(output, step->num_values++);
    step->segments.push_back(std::move(compiled));
  }
  for (GraphValue output : outputs) step->results.push_back(numbers.at(output));
  FinishStep(*step, traced);
  return step;
}

void FinishStep(CompiledStep& step, const Graph& traced) {
  step.bytes = SizeOfGraph(traced) + static_cast<int64_t>(sizeof(CompiledStep));
  std::vector<int64_t> run_bytes;  // of the device's own segments
  for (const CompiledSegment& segment : step.segments) {
    step.bytes += segment.computation->bytes() + SizeOfGraph(segment.computation->graph());
    if (segment.device == step.device) run_bytes.push_back(segment.computation->run_bytes);
  }
  if (std::ranges::count(run_bytes, 0) == 0) {
    step.run_bytes = std::accumulate(run_bytes.begin(), run_bytes.end(), int64_t{0});
  }
  step.simple = step.segments.size() == 1 && !step.segments[0].fallback;
  step.ordered = std::ranges::any_of(
      traced.nodes(), [](const GraphNode& node) { return EffectOf(node) == Effect::kOrdered; });
  step.argument_bytes = BytesOfValues(traced, true);
  step.result_bytes = BytesOfValues(traced, false);
}

CompiledStepPtr CompileStep(DeviceEntry& device, const Graph& traced) {
  CompiledStepPtr step = BuildStep(device, traced, LowerStep(device, traced), [&](Graph graph) {
    return CompileGraph(device, {}, std::move(graph));
  });
  step->traced = traced;
  return step;
}

CompiledStepPtr StepExecutor::CompileNow(DeviceEntry& device, const Hash128& hash,
                                         const std::vector<uint64_t>& key, Graph traced,
                                         int64_t kept, const SyncOptions& options) {
  auto start = std::chrono::steady_clock::now();
  MarkStepScope mark_step(options.full_step);
  std::string where = LocationText(CurrentLocation());
  profile::Span span("compile", "compile");
  span.Set("nodes", traced.size());
  span.Set("where", where);
  CompilingCollectives compiling(traced);
  auto finish = [&](CompiledStepPtr step) {
    span.Set("graph", step->number);
    step->hash = hash;
    step->key = key;
    step->traced = std::move(traced);
    step->bytes += static_cast<int64_t>(step->key.size() * sizeof(uint64_t));
    step->where = where;
    step->compile_ns = std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count();
    return cache.Add(std::move(step));
  };
  Generaliser generaliser(cache, device, key, traced);
  if (CompiledStepPtr instance = generaliser.FindInstance()) return finish(std::move(instance));
  if (CompiledStepPtr loaded = generaliser.Load(options.devices)) {
    WarnOfRefusals(*loaded);
    return finish(std::move(loaded));
  }
  CompileMiss miss;
  {
    profile::Span explaining("explain", "compile");
    miss = ExplainMiss(*this, device, hash, SettingsIn(key), traced, where);
  }
  miss.trigger = options.trigger;
  miss.where = where;
  miss.outputs_kept = kept;
  ThreadContext& context = Context();
  if (!context.forbid_recompile.empty()) {
    Throw<CompileError>(ErrorCode::kRecompileForbidden,
                        "a graph would be compiled where none was expected{}{}\n{}",
                        context.forbid_recompile.back().empty() ? "" : ": ",
                        context.forbid_recompile.back(), miss.ToText());
  }
  CompiledStepPtr step = generaliser.Compile(options.devices, &miss.generalised);
  WarnOfRefusals(*step);
  metrics::Get<kUncachedCompile>().Add();
  ++context.compiled_graphs;
  cache.CountMiss();
  metrics::Get<kTensorsGraphSize>().AddSample(static_cast<double>(traced.size()));
  AddMiss(std::move(miss));
  return finish(std::move(step));
}

}  // namespace hammock
