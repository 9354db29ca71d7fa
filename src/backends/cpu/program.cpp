#include "backends/cpu/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <numeric>
#include <optional>
#include <utility>

#include "backends/cpu/emit_llvm.h"
#include "backends/cpu/expand_short.h"
#include "backends/cpu/fused_product.h"
#include "backends/cpu/host_cpu.h"
#include "backends/cpu/keep_channels_last.h"
#include "backends/cpu/kernel_step.h"
#include "backends/cpu/llvm_compiler.h"
#include "backends/cpu/step_groups.h"
#include "backends/cpu/thread_pool.h"
#include "base/process_exit.h"
#include "base/throw.h"
#include "base/trace_file.h"
#include "compiler/describe_schedule.h"
#include "compiler/kernel_builder.h"
#include "compiler/split_reductions.h"
#include "hammock/config.h"
#include "hammock/lazy/backend_interface.h"
#include "hammock/metrics.h"

namespace hammock::cpu {

using compiler::Kernel;
using compiler::Launch;

namespace {

size_t Index(int i) { return static_cast<size_t>(i); }

/// The graph as it is scheduled. One pass after another, so that no two of its forms live long.
Graph Prepared(Graph graph) {
  graph = ExpandShort(std::move(graph));
  graph = SplitReductions(std::move(graph));
  return KeepChannelsLast(std::move(graph));
}

}  // namespace

struct Program::PreparedStep {
  std::optional<KernelStep> kernel;
  std::unique_ptr<Call> call;            // where there is no kernel
  std::shared_ptr<KernelCode> epilogue;  // of a call that runs a kernel on parts of its result
  std::vector<int> operands;             // of the call: buffers, -1 for absent ones
  std::vector<int> results;

  // For errors: of the graph as given.
  NodeId node = -1;
  LocationId location = 0;

  explicit PreparedStep(const Launch& launch) { kernel.emplace(launch); }
  PreparedStep(const Graph& graph, const compiler::Schedule& schedule, const compiler::Step& step);
  int64_t scratch_bytes() const { return call ? call->scratch_bytes() : kernel->scratch_bytes(); }
};

Program::PreparedStep::PreparedStep(const Graph& graph, const compiler::Schedule& schedule,
                                    const compiler::Step& step)
    : node(graph[step.node].origin), location(graph[step.node].location) {
  const NodeId id = step.node;
  if (step.launch.kernel) {
    auto fused = std::make_unique<FusedProduct>(graph, schedule, step);
    operands = fused->operands();
    epilogue = fused->code();
    results = step.writes;
    call = std::move(fused);
    return;
  }
  call = MakeCall(graph, id);
  for (GraphValue input : graph[id].inputs) {
    operands.push_back(input.node < 0 ? -1 : schedule.BufferOf(compiler::StorageOf(graph, input)));
  }
  for (size_t i = 0; i < graph[id].types.size(); ++i) {
    results.push_back(schedule.BufferOf({id, static_cast<int32_t>(i)}));
  }
}

Program::Program(const Graph& graph, bool aligned_outputs)
    : graph_(Prepared(compiler::WithOrigins(graph))),
      schedule_(compiler::MakeSchedule(graph_, aligned_outputs)) {
  steps_.reserve(schedule_.steps.size());
  for (const compiler::Step& step : schedule_.steps) {
    if (step.is_call()) {
      steps_.emplace_back(graph_, schedule_, step);
    } else {
      steps_.emplace_back(step.launch);
      steps_.back().node = graph_[step.nodes.back()].origin;
    }
  }
  if (config::Get<config::kCpuWaitForCode>()) WaitForKernels();
  FindGroups();
  std::vector<int64_t> scratch;
  for (const PreparedStep& step : steps_) scratch.push_back(step.scratch_bytes());
  plan_ = compiler::PlanMemory(schedule_, scratch, group_last_);
#ifndef NDEBUG
  std::vector<int64_t> sizes;
  for (const Shape& type : schedule_.buffers) sizes.push_back(type.numel());
  for (const compiler::Step& step : schedule_.steps) {
    if (step.launch.kernel) CheckBounds(step.launch, sizes);
  }
#endif
  FindWeights();
  outputs_ = compiler::FindOutputSources(schedule_);
  donations_ = compiler::DonationPlan(graph_, schedule_, group_last_);
  FindFirstWrites();
}

void Program::FindFirstWrites() {
  std::vector<size_t> of_buffer(schedule_.buffers.size(), steps_.size());
  for (size_t i = steps_.size(); i-- > 0;) {
    for (int buffer : schedule_.steps[i].writes) of_buffer[Index(buffer)] = i;
  }
  for (int buffer : schedule_.outputs) first_write_.push_back(of_buffer[Index(buffer)]);
}

size_t Program::FirstWriteInPlace(std::span<const int> taken) const {
  size_t first = steps_.size();
  for (size_t i = 0; i < taken.size(); ++i) {
    if (taken[i] >= 0) first = std::min(first, first_write_[i]);
  }
  return first;
}

void Program::FindWeights() {
  std::vector<int> input_of(schedule_.buffers.size(), -1);  // by buffer
  for (size_t i = 0; i < schedule_.inputs.size(); ++i) {
    input_of[Index(schedule_.inputs[i])] = static_cast<int>(i);
  }
  for (size_t i = 0; i < steps_.size(); ++i) {
    PreparedStep& step = steps_[i];
    if (!step.call) continue;
    Call::Form form = step.call->form();
    if (form.operand < 0) continue;
    int input = input_of[Index(step.operands[Index(form.operand)])];
    if (input < 0) continue;
    size_t at = graph_[schedule_.steps[i].node].inputs.size();
    if (step.operands.size() == at) step.operands.push_back(-1);
    step.operands[at] = static_cast<int>(schedule_.buffers.size() + weights_.size());
    weights_.push_back({input, i, std::move(form)});
  }
  seen_ = std::make_unique<std::atomic<const void*>[]>(weights_.size());
}

void Program::MakeForm(const Weight& weight, const char* input, char* form) const {
  steps_[weight.step].call->MakeForm(input, form);
}

void Program::WaitForKernels() const {
  std::vector<std::shared_ptr<KernelCode>> kernels;
  for (const PreparedStep& step : steps_) {
    if (step.kernel) kernels.push_back(step.kernel->code());
    if (step.epilogue) kernels.push_back(step.epilogue);
  }
  KernelCode::WaitFor(kernels);
}

/// Steps of a group have one number of threads.
void Program::FindGroups() {
  std::vector<int64_t> work;
  for (const PreparedStep& step : steps_) work.push_back(step.kernel ? step.kernel->work() : -1);
  group_last_ = GroupSteps(schedule_, work);
  for (size_t first = 0; first < steps_.size();) {
    size_t end = static_cast<size_t>(group_last_[first]) + 1;
    if (end - first > 1) {
      int64_t total = std::accumulate(work.begin() + static_cast<ptrdiff_t>(first),
                                      work.begin() + static_cast<ptrdiff_t>(end), int64_t{0});
      int workers = total <= kSerialWork ? 1 : ThreadPool::threads();
      for (size_t i = first; i < end; ++i) steps_[i].kernel->SetWorkers(workers);
    }
    first = end;
  }
}

Program::~Program() = default;

int Program::kernels() const {
  return static_cast<int>(
      std::count_if(schedule_.steps.begin(), schedule_.steps.end(),
                    [](const compiler::Step& step) { return step.launch.kernel != nullptr; }));
}

int64_t Program::bytes() const {
  int64_t nested = 0;
  for (const PreparedStep& step : steps_) nested += step.call ? step.call->bytes() : 0;
  return nested +
         static_cast<int64_t>(graph_.nodes().size() * sizeof(GraphNode) +
                              steps_.size() * (sizeof(PreparedStep) + sizeof(compiler::Step)) +
                              schedule_.buffers.size() * sizeof(Shape));
}

void Program::Run(std::span<char* const> inputs, std::span<char* const> outputs, char* arena,
                  std::span<char* const> forms, std::span<const int> taken) const {
  constexpr size_t kInline = 64;
  char* inline_buffers[kInline];
  std::vector<char*> more;
  char** buffers = inline_buffers;
  if (schedule_.buffers.size() + weights_.size() > kInline) {
    more.resize(schedule_.buffers.size() + weights_.size());
    buffers = more.data();
  }
  for (size_t i = 0; i < weights_.size(); ++i) {
    buffers[schedule_.buffers.size() + i] = forms.empty() ? nullptr : forms[i];
  }
  for (size_t i = 0; i < schedule_.buffers.size(); ++i) {
    buffers[i] = plan_.offset[i] < 0 ? nullptr : arena + plan_.offset[i];
  }
  for (size_t i = 0; i < inputs.size(); ++i) buffers[Index(schedule_.inputs[i])] = inputs[i];
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs_[i].input < 0 && outputs_[i].same < 0) {
      buffers[Index(schedule_.outputs[i])] = outputs[i];
    }
  }
  const size_t in_place = FirstWriteInPlace(taken);
  if (const auto* graph = std::exchange(tracing::running_graph, nullptr)) [[unlikely]] {
    const bool any = in_place < steps_.size();
    ThreadPool::Cancellable cancellable(any ? nullptr : ThreadPool::Cancellable::Flag());
    return RunTraced(buffers, arena, *graph);
  }
  const bool timed = config::Get<config::kCpuTimeSteps>();
  const std::atomic<bool>* cancel = ThreadPool::Cancellable::Flag();
  for (size_t i = 0; i < steps_.size();) {
    size_t end = timed ? i + 1 : static_cast<size_t>(group_last_[i]) + 1;
    if (end > in_place) cancel = nullptr;
    ThreadPool::Cancellable cancellable(cancel);
    std::optional<metrics::ScopedTimer> timer;
    if (timed) {
      timer.emplace(metrics::GetMetric("cpu::step::" + StepName(i), metrics::Kind::kTime));
    }
    RunSteps(i, end, buffers, arena);
    if (cancel && cancel->load(std::memory_order_relaxed)) [[unlikely]]
      throw process_exit::Cancelled();
    i = end;
  }
}

void Program::RunSteps(size_t first, size_t end, char* const* buffers, char* arena) const {
  if (steps_[first].call) {
    RunCall(steps_[first], buffers, ScratchOf(first, arena));
  } else {
    RunKernels(first, end, buffers, arena);
  }
}

/// Steps that could run beside each other run one after another, so that each has a time.
void Program::RunTraced(char* const* buffers, char* arena,
                        const tracing::RunningGraph& graph) const {
  for (size_t i = 0; i < steps_.size(); ++i) {
    int64_t begin = tracing::Now();
    RunSteps(i, i + 1, buffers, arena);
    tracing::WriteSpan("kernel", StepName(i), begin, tracing::Now(),
                       fmt::format(R"({{"graph":{},"kernel":{}}})", graph.number,
                                   graph.first_kernel + static_cast<int64_t>(i)));
  }
}

char* Program::ScratchOf(size_t step, char* arena) const {
  int64_t at = plan_.scratch_offset[step];
  return at < 0 ? nullptr : arena + at;
}

std::string Program::StepName(size_t i) const {
  return compiler::NameOfStep(graph_, schedule_.steps[i]);
}

std::string Program::LargestBuffers() const { return compiler::LargestBuffers(graph_, schedule_); }

void Program::RunCall(const PreparedStep& step, char* const* buffers, char* scratch) const {
  std::vector<const char*> in;
  std::vector<char*> out;
  for (int buffer : step.operands) in.push_back(buffer < 0 ? nullptr : buffers[buffer]);
  for (int buffer : step.results) out.push_back(buffers[buffer]);
  try {
    step.call->Run(in, out, scratch);
  } catch (...) {
    RethrowAt(step);
  }
}

/// Gives the exception in flight the node that raised it.
void Program::RethrowAt(const PreparedStep& step) {
  const std::string place = WhereText(step.location);
  try {
    throw;
  } catch (const process_exit::Cancelled&) {
    throw;
  } catch (OutOfMemory& error) {
    if (error.where().empty()) error.SetWhere(place);
    throw;
  } catch (const Error& error) {
    lazy::ExecutionError at_node(error.code(), error.message(), step.node);
    at_node.SetWhere(error.where().empty() ? place : error.where());
    throw at_node;
  } catch (const std::bad_alloc&) {
    OutOfMemory error(ErrorCode::kOutOfMemory, "the host has no memory left");
    error.SetWhere(place);
    throw error;
  } catch (const std::exception& error) {
    lazy::ExecutionError at_node(ErrorCode::kExecute, error.what(), step.node);
    at_node.SetWhere(place);
    throw at_node;
  }
}

/// Steps [first, end), whose tiles are one list.
void Program::RunKernels(size_t first, size_t end, char* const* buffers, char* arena) const {
  static metrics::Counter& compiled = metrics::GetCounter("cpu::KernelRunsCompiled");
  static metrics::Counter& interpreted = metrics::GetCounter("cpu::KernelRunsInterpreted");
  int64_t tiles = 0;
  for (size_t i = first; i < end; ++i) {
    (steps_[i].kernel->code()->compiled() ? compiled : interpreted).Add();
    tiles += steps_[i].kernel->tiles();
  }
  auto run = [&](int64_t begin, int64_t until, int worker) {
    int64_t before = 0;  // tiles of the steps before
    for (size_t i = first; i < end && before < until; ++i) {
      const KernelStep& step = *steps_[i].kernel;
      int64_t from = std::max<int64_t>(begin - before, 0);
      int64_t to = std::min(until - before, step.tiles());
      if (from < to) step.Run(buffers, ScratchOf(i, arena), from, to, worker);
      before += step.tiles();
    }
  };
  const KernelStep& step = *steps_[first].kernel;
  if (step.workers() == 1) return run(0, tiles, 0);
  ThreadPool::Get().ParallelFor(tiles, 1, run, step.workers());
}

std::string Program::ToText(std::string_view what) const {
  std::string text = hammock::ToText(graph_) + "\n" + compiler::ToText(schedule_, graph_);
  text += fmt::format("arena {} bytes, outputs {} bytes\n", plan_.arena_bytes, plan_.output_bytes);
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (steps_[i].call) {
      text += fmt::format("step {}: {}\n", i, steps_[i].call->kernel());
    }
    if (std::string code = CodeText(i, what); !code.empty()) {
      text += fmt::format("step {}:\n{}", i, code);
    }
  }
  return text;
}

std::string Program::CodeText(size_t step, std::string_view what) const {
  const Kernel* kernel = schedule_.steps[step].launch.kernel.get();
  if (!kernel) return "";
  if (what == "llvm") return EmitLlvm(*kernel, HostTarget());
  if (what != "assembly" || !LlvmCompiler::WhyAbsent().empty()) return "";
  return LlvmCompiler::Get().Assembly(EmitLlvm(*kernel, HostTarget()));
}

const char* Program::CallName(size_t step) const {
  return steps_[step].call ? steps_[step].call->kernel() : nullptr;
}

}  // namespace hammock::cpu
