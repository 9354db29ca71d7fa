#include "backends/cpu/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "backends/cpu/code/llvm_compiler.h"
#include "backends/cpu/emit/emit_llvm.h"
#include "backends/cpu/host_cpu.h"
#include "backends/cpu/passes/expand_short_attention.h"
#include "backends/cpu/passes/keep_channels_last.h"
#include "backends/cpu/sized_program.h"
#include "backends/cpu/step_groups.h"
#include "backends/cpu/thread_pool.h"
#include "base/process_exit.h"
#include "base/throw.h"
#include "base/tools.h"
#include "compiler/loops/describe_schedule.h"
#include "compiler/loops/kernel_builder.h"
#include "compiler/passes/split_reductions.h"
#include "hammock/config.h"
#include "hammock/lazy/backend_interface.h"
#include "hammock/lazy/run_context.h"
#include "hammock/metric.h"

namespace hammock::cpu {

using compiler::Kernel;
using compiler::Launch;

namespace {

constinit config::Option<bool> kTimeSteps({
    .name = "cpu.time_steps",
    .default_value = false,
    .doc = "Measure the time of every kernel and call of the CPU backend: metrics `cpu::step::*`.",
});

constinit const metrics::DeclaredMetric kStepTimes({
    .name = "cpu::step::<ops>",
    .kind = metrics::Kind::kTime,
    .doc = "Runs of each kernel and call, with the option `cpu.time_steps`.",
});

size_t Index(int i) { return static_cast<size_t>(i); }

/// By step: in element instructions; -1 for calls.
std::vector<int64_t> WorkOf(std::span<const std::shared_ptr<const PreparedStep>> steps) {
  std::vector<int64_t> work;
  work.reserve(steps.size());
  for (const auto& step : steps) work.push_back(step->kernel ? step->kernel->work() : -1);
  return work;
}

}  // namespace

std::vector<Pass> CpuPasses() {
  return {
      {"expand_short_attention", ExpandShortAttention},
      {"split_reductions", SplitReductions},
      {"keep_channels_last", KeepChannelsLast},
  };
}

Graph RewriteForCpu(const Graph& graph) {
  return RunPasses(CpuPasses(), compiler::WithOrigins(graph));
}

std::vector<int> GroupsOf(const compiler::Schedule& schedule) {
  std::vector<int64_t> work;
  for (const compiler::Step& step : schedule.steps) {
    work.push_back(step.is_call() ? -1 : KernelStep(step.launch, nullptr).work());
  }
  return GroupSteps(schedule, work);
}

Program::Program(const Graph& graph)
    : Program(std::make_shared<const Graph>(RewriteForCpu(graph)), /*aligned_outputs=*/true) {}

Program::Program(std::shared_ptr<const Graph> rewritten, bool aligned_outputs)
    : graph_(std::move(rewritten)),
      schedule_(std::make_shared<const compiler::Schedule>(
          compiler::MakeSchedule(*graph_, aligned_outputs))) {
  PrepareSteps();
  facts_ =
      std::make_shared<const Facts>(*graph_, *schedule_, GroupSteps(*schedule_, WorkOf(steps_)));
  Finish(compiler::BytesOf(*schedule_));
}

Program::Program(SavedProgram saved)
    : graph_(std::move(saved.graph)), schedule_(std::move(saved.schedule)) {
  PrepareSteps();
  facts_ = std::make_shared<const Facts>(*graph_, *schedule_, saved.group_last);
  Finish(compiler::BytesOf(*schedule_), &saved);
}

SavedProgram Program::Save() const {
  return {graph_, schedule_, facts_->group_last, ScratchOfSteps(), plan_};
}

void Program::PrepareSteps() {
  std::vector<std::shared_ptr<KernelCode>> codes;
  for (size_t i = 0; i < schedule_->steps.size(); ++i) {
    const Launch& launch = schedule_->steps[i].launch;
    std::shared_ptr<KernelCode> code = launch.kernel ? KernelCode::Get(launch.kernel) : nullptr;
    if (code) codes.push_back(code);
    steps_.push_back(std::make_shared<const PreparedStep>(
        *graph_, *schedule_, i, PreparedStep::Sized{launch, nullptr}, std::move(code)));
  }
  if (config::Get<kWaitForCode>()) KernelCode::WaitFor(codes);
#ifndef NDEBUG
  std::vector<int64_t> sizes;
  for (const compiler::BufferType& type : schedule_->buffers) sizes.push_back(type.numel());
  for (const compiler::Step& step : schedule_->steps) {
    if (step.launch.kernel) CheckBounds(step.launch, sizes);
  }
#endif
}

Program::Facts::Facts(const Graph& graph, const compiler::Schedule& schedule,
                      std::vector<int> groups)
    : group_last(std::move(groups)),
      outputs(compiler::FindOutputSources(schedule)),
      donations(graph, schedule, group_last),
      seen(std::make_unique<std::atomic<const void*>[]>(schedule.steps.size())) {
  const size_t steps = schedule.steps.size();
  std::vector<size_t> of_buffer(schedule.buffers.size(), steps);
  for (size_t i = steps; i-- > 0;) {
    for (int buffer : schedule.steps[i].writes) of_buffer[Index(buffer)] = i;
  }
  for (int buffer : schedule.outputs) first_write.push_back(of_buffer[Index(buffer)]);
}

size_t Program::FirstWriteInPlace(std::span<const int> taken) const {
  size_t first = steps_.size();
  for (size_t i = 0; i < taken.size(); ++i) {
    if (taken[i] >= 0) first = std::min(first, facts_->first_write[i]);
  }
  return first;
}

Program::Program(std::shared_ptr<const SizedProgram> sized, const std::vector<int64_t>& sizes)
    : sized_(std::move(sized)),
      sizes_(sizes),
      graph_(sized_, &sized_->schedule().graph()),
      schedule_(sized_, &sized_->schedule().schedule()),
      facts_(sized_, &sized_->facts()) {
  const compiler::SizedSchedule& schedule = sized_->schedule();
  const compiler::SizedSchedule::Basis basis = schedule.BasisAt(sizes);
  const std::vector<int64_t> bytes = schedule.BytesAt(basis);
  steps_.reserve(schedule_->steps.size());
  for (size_t i = 0; i < schedule_->steps.size(); ++i) {
    steps_.push_back(sized_->StepAt(i, basis, bytes));
  }
  Finish(bytes);
#ifndef NDEBUG
  const compiler::ScheduledGraph at = AtOwnSizes();
  std::vector<int64_t> elements;
  for (const compiler::BufferType& type : at.schedule.buffers) elements.push_back(type.numel());
  for (const compiler::Step& step : at.schedule.steps) {
    if (step.launch.kernel) CheckBounds(step.launch, elements);
  }
#endif
}

void Program::Finish(const std::vector<int64_t>& bytes, const SavedProgram* saved) {
  ChooseWorkers();
  std::vector<int64_t> scratch = ScratchOfSteps();
  // Threads that share a kernel have scratch memory each, so their number may change the plan.
  plan_ = saved && saved->scratch == scratch
              ? saved->plan
              : compiler::PlanMemory(*schedule_, bytes, scratch, facts_->group_last);
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (steps_[i]->packed_input >= 0)
      weights_.push_back({steps_[i]->packed_input, i, &steps_[i]->packed_weight});
  }
}

std::vector<int64_t> Program::ScratchOfSteps() const {
  std::vector<int64_t> scratch;
  scratch.reserve(steps_.size());
  for (size_t i = 0; i < steps_.size(); ++i) {
    scratch.push_back(steps_[i]->scratch_bytes(workers_[i]));
  }
  return scratch;
}

void Program::AddKernels(std::vector<std::shared_ptr<KernelCode>>& kernels) const {
  for (const auto& step : steps_) step->AddKernels(kernels);
}

void Program::PackWeight(const Weight& weight, const char* input, char* packed) const {
  steps_[weight.step]->call->PackWeight(input, packed);
}

/// Steps of a group have one number of threads.
void Program::ChooseWorkers() {
  const std::vector<int64_t> work = WorkOf(steps_);
  workers_.resize(steps_.size(), 1);
  for (size_t first = 0; first < steps_.size();) {
    size_t end = Index(facts_->group_last[first]) + 1;
    int64_t total = std::accumulate(work.begin() + static_cast<ptrdiff_t>(first),
                                    work.begin() + static_cast<ptrdiff_t>(end), int64_t{0});
    int workers = total <= kSerialWork ? 1 : ThreadPool::threads();
    std::fill_n(workers_.begin() + static_cast<ptrdiff_t>(first), end - first, workers);
    first = end;
  }
}

Program::~Program() = default;

int Program::kernels() const {
  return static_cast<int>(
      std::count_if(schedule_->steps.begin(), schedule_->steps.end(),
                    [](const compiler::Step& step) { return step.launch.kernel != nullptr; }));
}

int64_t Program::bytes() const {
  int64_t steps = 0;
  for (const auto& step : steps_) steps += step.use_count() > 1 ? 0 : step->bytes();
  size_t lists = steps_.size() * (sizeof(steps_[0]) + sizeof(int) + sizeof(int64_t)) +
                 plan_.offset.size() * sizeof(int64_t) + weights_.size() * sizeof(Weight);
  size_t shared = graph_->nodes().size() * sizeof(GraphNode) +
                  schedule_->steps.size() * sizeof(compiler::Step) +
                  schedule_->buffers.size() * sizeof(compiler::BufferType);
  return steps + static_cast<int64_t>(sizeof *this + lists + (sized_ ? 0 : shared));
}

compiler::ScheduledGraph Program::AtOwnSizes() const {
  if (!sized_) return {*graph_, *schedule_};
  return sized_->schedule().At(sized_->schedule().BasisAt(sizes_));
}

void Program::Run(std::span<char* const> inputs, std::span<char* const> outputs, char* arena,
                  std::span<char* const> packed_weights, std::span<const int> taken,
                  const lazy::RunProfile* profile) const {
  constexpr size_t kInline = 64;
  char* inline_buffers[kInline];
  std::vector<char*> more;
  char** buffers = inline_buffers;
  if (schedule_->buffers.size() + steps_.size() > kInline) {
    more.resize(schedule_->buffers.size() + steps_.size());
    buffers = more.data();
  }
  for (size_t i = 0; i < weights_.size(); ++i) {
    buffers[PreparedStep::PackedBuffer(*schedule_, weights_[i].step)] =
        packed_weights.empty() ? nullptr : packed_weights[i];
  }
  SetBuffers<char*>(*schedule_, plan_, facts_->outputs, inputs, outputs, arena, buffers);
  const size_t in_place = FirstWriteInPlace(taken);
  if (profile) [[unlikely]] {
    const bool any = in_place < steps_.size();
    ThreadPool::Cancellable cancellable(any ? nullptr : ThreadPool::Cancellable::Flag());
    return RunProfiled(buffers, arena, *profile);
  }
  const bool timed = config::Get<kTimeSteps>();
  const std::atomic<bool>* cancel = ThreadPool::Cancellable::Flag();
  for (size_t i = 0; i < steps_.size();) {
    size_t end = timed ? i + 1 : Index(facts_->group_last[i]) + 1;
    if (end > in_place) cancel = nullptr;
    ThreadPool::Cancellable cancellable(cancel);
    std::optional<metrics::ScopedTimer> timer;
    if (timed) {
      timer.emplace(metrics::Get<kStepTimes>(StepName(i)));
    }
    RunSteps(i, end, buffers, arena);
    if (cancel && cancel->load(std::memory_order_relaxed)) [[unlikely]]
      throw process_exit::Cancelled();
    i = end;
  }
}

void Program::RunSteps(size_t first, size_t end, char* const* buffers, char* arena) const {
  tools::Range range([&] { return StepName(first); });
  if (steps_[first]->call) {
    steps_[first]->RunCall(buffers, ScratchOf(first, arena));
  } else {
    RunKernels(first, end, buffers, arena);
  }
}

/// Steps that could run concurrently run one after another, so that each has a time.
void Program::RunProfiled(char* const* buffers, char* arena,
                          const lazy::RunProfile& profile) const {
  for (size_t i = 0; i < steps_.size(); ++i) {
    const int64_t begin = lazy::RunProfile::Now();
    RunSteps(i, i + 1, buffers, arena);
    profile.AddKernel(i, StepName(i), begin, lazy::RunProfile::Now());
  }
}

char* Program::ScratchOf(size_t step, char* arena) const {
  int64_t at = plan_.scratch_offset[step];
  return at < 0 ? nullptr : arena + at;
}

std::string Program::StepName(size_t i) const {
  return compiler::NameOfStep(*graph_, schedule_->steps[i]);
}

std::string Program::LargestBuffers() const {
  const compiler::ScheduledGraph at = AtOwnSizes();
  return compiler::LargestBuffers(at.graph, at.schedule);
}

/// Steps [first, end), whose tiles are one list.
void Program::RunKernels(size_t first, size_t end, char* const* buffers, char* arena) const {
  int64_t tiles = 0;
  for (size_t i = first; i < end; ++i) {
    steps_[i]->kernel->code()->CountRun();
    tiles += steps_[i]->kernel->tiles();
  }
  auto run = [&](int64_t begin, int64_t until, int worker) {
    int64_t before = 0;  // tiles of the steps before
    for (size_t i = first; i < end && before < until; ++i) {
      const KernelStep& step = *steps_[i]->kernel;
      int64_t from = std::max<int64_t>(begin - before, 0);
      int64_t to = std::min(until - before, step.tiles());
      if (from < to) step.Run(buffers, ScratchOf(i, arena), from, to, worker);
      before += step.tiles();
    }
  };
  if (workers_[first] == 1) return run(0, tiles, 0);
  ThreadPool::Get().ParallelFor(tiles, 1, run, workers_[first]);
}

std::string Program::ToText(std::string_view what) const {
  const compiler::ScheduledGraph at = AtOwnSizes();
  std::string text = DescribePlan(at.graph, at.schedule, plan_);
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (steps_[i]->call) {
      text += fmt::format("step {}: {}\n", i, steps_[i]->call->kernel());
    }
    if (std::string code = CodeText(i, what); !code.empty()) {
      text += fmt::format("step {}:\n{}", i, code);
    }
  }
  return text;
}

std::string Program::CodeText(size_t step, std::string_view what) const {
  const Kernel* kernel = schedule_->steps[step].launch.kernel.get();
  if (!kernel) return "";
  if (what == "llvm") return EmitLlvm(*kernel, HostTarget());
  if (what != "assembly" || !LlvmCompiler::WhyAbsent().empty()) return "";
  return LlvmCompiler::Get().Assembly(EmitLlvm(*kernel, HostTarget()));
}

const char* Program::CallName(size_t step) const {
  return steps_[step]->call ? steps_[step]->call->kernel() : nullptr;
}

}  // namespace hammock::cpu
