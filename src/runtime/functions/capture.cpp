/// Capturing a function as a compiled graph that is replayed without tracing.

#include <fmt/format.h>

#include <algorithm>

#include "base/throw.h"
#include "ir/primitives.h"
#include "runtime/functions/direct_call_plan.h"
#include "runtime/functions/trace_function.h"
#include "runtime/step/replay.h"
#include "runtime/step/settle_units.h"
#include "trace/hooks.h"
#include "trace/layout.h"
#include "trace/record.h"
#include "trace/rng.h"
#include "trace/write.h"

namespace hammock {

namespace {

constexpr char kOp[] = "compiled graph";

std::optional<Generator> GeneratorOf(const ParameterSource& binding) {
  if (!binding.generator) return std::nullopt;
  return *binding.generator;
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

CompiledStepPtr CompileTraced(TracedFunction& traced) {
  CompiledStepPtr step = Executor().cache.Find(traced.hash, traced.key);
  if (!step) {
    step = Executor().Compile(*traced.device, traced.hash, std::move(traced.key), traced.graph,
                              traced.kept, {.trigger = "capture"});
  }
  RefuseFallback(*step);
  return step;
}

}  // namespace

struct CompiledGraph::State {
  ~State() {
    if (recital) recital->step->pins.fetch_sub(1);
  }

  Hash128 hash;
  Graph traced;
  DeviceEntry* device = nullptr;
  std::optional<Recital> recital;  // none if nothing is computed; its step is pinned
  std::vector<Shape> input_types;
  std::vector<ParameterSource> parameters;
  std::vector<ResultSource> outputs;
  std::vector<std::pair<size_t, ResultSource>> writes;
  std::vector<bool> replaced;  // arguments that are updated, and whose value goes nowhere else

  void FindReplaced();
  std::vector<Value> Run(std::vector<Value>& arguments, const std::vector<Tensor>& tensors,
                         const WriteUnitPtr& unit) const;
  /// Whether a call leaves nothing that needs the value which this argument has now. A step that
  /// has other parts needs the values from before it.
  bool Releases(size_t argument, const std::vector<Tensor>& tensors,
                const WriteUnitPtr& unit) const {
    if (!replaced[argument] || tensors[argument].impl()->SharesMemory()) return false;
    return Context().step_depth == 0 || IsWrittenBy(*tensors[argument].impl(), unit);
  }
  void CheckAliases(const std::vector<Tensor>& arguments) const;
};

void CompiledGraph::State::FindReplaced() {
  replaced.resize(input_types.size());
  for (const auto& [written, source] : writes) replaced[written] = true;
  auto keep = [&](const ResultSource& source) {
    if (source.kind == ResultSource::kInput) replaced[source.index] = false;
  };
  for (const auto& [written, source] : writes) keep(source);
  for (const ResultSource& source : outputs) keep(source);
}

std::vector<Value> CompiledGraph::State::Run(std::vector<Value>& arguments,
                                             const std::vector<Tensor>& tensors,
                                             const WriteUnitPtr& unit) const {
  if (!recital) return {};
  std::vector<Value> values;
  std::vector<bool> released(parameters.size());
  for (const ParameterSource& binding : parameters) {
    switch (binding.kind) {
      case ParameterSource::kInput:
        released[values.size()] = Releases(binding.input, tensors, unit);
        values.push_back(arguments[binding.input]);
        break;
      case ParameterSource::kConstant:
        values.push_back(binding.constant);
        break;
      case ParameterSource::kRandom:
        values.push_back(
            MakeRngState(GeneratorOf(binding), binding.blocks, Device::FromId(device->id)).value());
        break;
    }
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (Releases(i, tensors, unit)) arguments[i] = {};
  }
  return Replay(*recital, std::move(values), kOp, released, unit);
}

// The function was traced on inputs that share no memory; that matters where one is written.
void CompiledGraph::State::CheckAliases(const std::vector<Tensor>& arguments) const {
  if (writes.empty()) return;
  std::vector<const TensorImpl*> impls;
  impls.reserve(arguments.size());
  bool views = false;
  for (const Tensor& argument : arguments) {
    impls.push_back(argument.impl());
    views |= argument.impl()->SharesMemory();
  }
  std::sort(impls.begin(), impls.end());
  if (!views && std::adjacent_find(impls.begin(), impls.end()) == impls.end()) return;
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

namespace {

// Outside of steps a call's writes are a unit of their own: the call starts them at once.
WriteUnitPtr UnitOfCall(ThreadContext& context) {
  if (context.step_depth == 0) SealUnit(context);
  return CurrentUnit(context);
}

/// In a step: a call may have failed before the unit knew what it writes.
void NoteFailure(const WriteUnitPtr& unit, std::span<const Value> results) {
  std::lock_guard lock(Executor().graph_mutex);
  auto is_lost = [](const Value& value) { return !IsAvailable(*value.node); };
  if (unit->error || std::ranges::none_of(results, is_lost)) return;
  if (auto failure = FailureOf(*unit)) FailUnit(*unit, std::move(failure));
}

void CloseCall(ThreadContext& context, const WriteUnitPtr& unit) {
  SealUnit(context);
  {
    std::lock_guard lock(Executor().graph_mutex);
    MarkWritten(UnitSpan(&unit, 1));
  }
  if (Executor().Close(unit)) std::erase(context.units, unit);
}

}  // namespace

std::vector<Tensor> CompiledGraph::operator()(const std::vector<Tensor>& inputs,
                                              Location at) const {
  LocationScope scope(at);
  if (!state_) Throw(ErrorCode::kUninitializedTensor, "{}: it is empty; capture one first", kOp);
  const State& state = *state_;
  Executor().RaiseUnseenOf(Context());
  CheckArgumentCount(kOp, inputs.size(), state.input_types.size());
  std::vector<Value> arguments;
  for (size_t i = 0; i < inputs.size(); ++i) {
    CheckArgument(kOp, i, inputs[i], state.input_types[i], *state.device);
    arguments.push_back(ValueOf(kOp, inputs[i]));
  }
  state.CheckAliases(inputs);
  ThreadContext& context = Context();
  WriteUnitPtr unit = state.writes.empty() ? nullptr : UnitOfCall(context);
  std::vector<Value> results = state.Run(arguments, inputs, unit);
  auto value_of = [&](const ResultSource& source) -> const Value& {
    if (source.kind == ResultSource::kResult) return results[source.index];
    if (source.kind == ResultSource::kInput) return arguments[source.index];
    return source.value;
  };
  for (const auto& [argument, source] : state.writes) {
    Write(kOp, inputs[argument], value_of(source), source.kind != ResultSource::kResult);
  }
  if (unit) context.step_depth == 0 ? CloseCall(context, unit) : NoteFailure(unit, results);
  std::vector<Tensor> outputs;
  for (const ResultSource& source : state.outputs) {
    if (source.kind == ResultSource::kArgument) {
      outputs.push_back(inputs[source.index]);
    } else if (source.kind == ResultSource::kOutput) {
      outputs.push_back(outputs[source.index]);
    } else {
      outputs.push_back(Tensor::FromValue(value_of(source)));
      if (!source.strides.empty()) SetStrides(*outputs.back().impl(), source.strides);
    }
  }
  return outputs;
}

Hash128 CompiledGraph::hash(Location at) const {
  LocationScope scope(at);
  if (!state_) Throw(ErrorCode::kUninitializedTensor, "{}: it is empty; capture one first", kOp);
  return state_->hash;
}

std::string CompiledGraph::text(Location at) const {
  LocationScope scope(at);
  if (!state_) Throw(ErrorCode::kUninitializedTensor, "{}: it is empty; capture one first", kOp);
  return ToText(state_->traced, {.locations = true});
}

CompiledGraph TracedFunction::Compile(Location at) && {
  LocationScope scope(at);
  auto state = std::make_shared<CompiledGraph::State>();
  state->hash = hash;
  state->device = device;
  state->input_types = std::move(input_types);
  if (!graph.outputs().empty()) {
    CompiledStepPtr step = CompileTraced(*this);
    step->pins.fetch_add(1);
    state->recital.emplace(step);
    state->parameters = std::move(parameters);
  }
  state->traced = std::move(graph);
  state->outputs = std::move(outputs);
  state->writes = std::move(writes);
  state->FindReplaced();
  CompiledGraph result;
  result.state_ = std::move(state);
  return result;
}

namespace {

/// Why a captured function does more than compute results, or null.
const char* WhyNotDirect(const CompiledStep* step, const std::vector<ParameterSource>& parameters,
                         bool writes) {
  if (writes) return "it updates its inputs";
  if (step && !step->simple) return "it does not run as one computation";
  if (step && step->ordered) return "its effects are ordered";
  bool random = std::ranges::any_of(parameters, [](const ParameterSource& parameter) {
    return parameter.kind == ParameterSource::kRandom;
  });
  return random ? "it draws random numbers" : nullptr;
}

}  // namespace

std::shared_ptr<const DirectPlan> TracedFunction::PlanDirectCall(const CompiledGraph& graph) {
  if (!graph.state_) Throw(ErrorCode::kUninitializedTensor, "{}: it is empty", kOp);
  const CompiledGraph::State& state = *graph.state_;
  CompiledStepPtr step = state.recital ? state.recital->step : nullptr;
  if (const char* why = WhyNotDirect(step.get(), state.parameters, !state.writes.empty())) {
    Throw<NotSupported>(ErrorCode::kNotSupported, "direct call: {}", why);
  }
  auto plan = std::make_shared<DirectPlan>();
  plan->device = state.device;
  plan->public_device = Device::FromId(state.device->id);
  plan->input_types = state.input_types;
  auto constant = [&](const Value& value) {
    return ReadyData(*state.device, std::span(&value, 1), kOp)[0];
  };
  using Source = DirectPlan::Source;
  for (const ParameterSource& from : state.parameters) {
    plan->parameters.push_back(from.kind == ParameterSource::kInput
                                   ? Source{Source::kInput, from.input}
                                   : Source{Source::kConstant, 0, constant(from.constant)});
  }
  for (const ResultSource& from : state.outputs) {
    if (from.kind == ResultSource::kResult) {
      plan->outputs.push_back({Source::kResult, from.index});
    } else if (from.kind == ResultSource::kOutput) {
      plan->outputs.push_back(Source(plan->outputs[from.index]));
    } else if (from.kind == ResultSource::kConstant) {
      plan->outputs.push_back({Source::kConstant, 0, constant(from.value)});
    } else {
      plan->outputs.push_back({Source::kInput, from.index});
    }
  }
  if (step) step->pins.fetch_add(1);
  plan->step = std::move(step);
  return plan;
}

CompiledGraph LazyGraphExecutor::Capture(const TensorFn& fn,
                                         const std::vector<Tensor>& example_inputs, Location at) {
  return TraceFunction("capture", fn, example_inputs, at).Compile(at);
}

CompiledGraph extract_compiled_graph(const TensorFn& fn, const std::vector<Tensor>& example_inputs,
                                     Location at) {
  return LazyGraphExecutor::Get()->Capture(fn, example_inputs, at);
}

}  // namespace hammock
