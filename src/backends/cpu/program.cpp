#include "backends/cpu/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "backends/common/collectives.h"
#include "backends/cpu/code/host_cpu.h"
#include "backends/cpu/code/llvm_compiler.h"
#include "backends/cpu/command_groups.h"
#include "backends/cpu/emit/emit_llvm.h"
#include "backends/cpu/host/thread_pool.h"
#include "backends/cpu/passes/expand_short_attention.h"
#include "backends/cpu/passes/keep_channels_last.h"
#include "backends/cpu/running_collectives.h"
#include "backends/cpu/sized_program.h"
#include "base/process_exit.h"
#include "base/throw.h"
#include "base/tools.h"
#include "compiler/facts/effects.h"
#include "compiler/loops/kernel_builder.h"
#include "compiler/loops/rematerialise.h"
#include "compiler/loops/show_groups.h"
#include "compiler/passes/narrow_matmuls.h"
#include "compiler/passes/remove_dead.h"
#include "compiler/passes/split_reductions.h"
#include "hammock/compiler/describe_schedule.h"
#include "hammock/config.h"
#include "hammock/lazy/backend_interface.h"
#include "hammock/lazy/run_context.h"
#include "hammock/metric.h"

namespace hammock::cpu {

using compiler::BufferId;
using compiler::BufferMap;
using compiler::BufferSpan;
using compiler::Kernel;
using compiler::Launch;

namespace {

constinit config::Option<bool> kTimeKernels({
    .name = "cpu.time_kernels",
    .default_value = false,
    .doc =
        "Measure the time of every kernel and call of the CPU backend: metrics `cpu::kernel::*`.",
    .old_name = "cpu.time_steps",
});

constinit const metrics::DeclaredCounter kSchedulesMade({
    .name = "cpu::SchedulesMade",
    .doc = "Schedules that were made of graphs, also of branches and of bodies of loops.",
});

constinit const metrics::DeclaredMetric kKernelTimes({
    .name = "cpu::kernel::<ops>",
    .kind = metrics::Kind::kTime,
    .doc = "Runs of each kernel and call, with the option `cpu.time_kernels`.",
    .old_name = "cpu::step::<ops>",
});

/// By command: in element instructions; -1 for calls.
std::vector<int64_t> WorkOf(std::span<const std::shared_ptr<const PreparedCommand>> commands) {
  std::vector<int64_t> work;
  work.reserve(commands.size());
  for (const auto& command : commands)
    work.push_back(command->kernel ? command->kernel->work() : -1);
  return work;
}

}  // namespace

std::vector<Pass> CpuPasses() {
  std::vector<Pass> passes = {
      {"expand_short_attention", ExpandShortAttention},
      {"split_reductions", SplitReductions},
      {"narrow_matmuls",
       [](Graph g) { return NarrowMatMuls(std::move(g), GainsByNarrowOperands); }},
      {"remove_dead", RemoveDead},
      {"keep_channels_last", KeepChannelsLast},
      {"narrow_convolutions", NarrowByteConvolutions},
      {"remove_dead", RemoveDead},
  };
  for (Pass& pass : compiler::RematerialisePasses(/*epilogues=*/true)) {
    passes.push_back(std::move(pass));
  }
  return passes;
}

Graph RewriteForCpu(const Graph& graph) {
  return RunPasses(CpuPasses(), compiler::WithOrigins(graph));
}

compiler::Schedule ScheduleForCpu(const Graph& rewritten, bool aligned_outputs) {
  metrics::Get<kSchedulesMade>().Add();
  compiler::Schedule schedule = compiler::MakeSchedule(rewritten, aligned_outputs);
  compiler::ShowSchedule("schedule", rewritten, schedule);
  return schedule;
}

std::vector<int> GroupsOf(const compiler::Schedule& schedule) {
  std::vector<int64_t> work;
  for (const compiler::Command& command : schedule.commands) {
    work.push_back(command.is_call() ? -1 : KernelCommand(command.launch, nullptr).work());
  }
  return GroupCommands(schedule, work);
}

Program::Program(const Graph& graph)
    : Program(std::make_shared<const Graph>(RewriteForCpu(graph)), /*aligned_outputs=*/true) {}

Program::Program(std::shared_ptr<const Graph> rewritten, bool aligned_outputs)
    : graph_(std::move(rewritten)),
      schedule_(
          std::make_shared<const compiler::Schedule>(ScheduleForCpu(*graph_, aligned_outputs))) {
  PrepareCommands();
  facts_ = std::make_shared<const Facts>(*graph_, *schedule_,
                                         GroupCommands(*schedule_, WorkOf(commands_)));
  compiler::ShowGroups(*graph_, *schedule_, facts_->group_last);
  Finish(compiler::BytesOf(*schedule_));
}

Program::Program(SavedProgram saved)
    : graph_(std::move(saved.graph)), schedule_(std::move(saved.schedule)) {
  PrepareCommands();
  facts_ = std::make_shared<const Facts>(*graph_, *schedule_, saved.group_last);
  Finish(compiler::BytesOf(*schedule_), &saved);
}

SavedProgram Program::Save() const {
  return {graph_, schedule_, facts_->group_last, ScratchOfCommands(), plan_};
}

void Program::PrepareCommands() {
  std::vector<std::shared_ptr<KernelCode>> codes;
  for (size_t i = 0; i < schedule_->commands.size(); ++i) {
    const Launch& launch = schedule_->commands[i].launch;
    std::shared_ptr<KernelCode> code = launch.kernel ? KernelCode::Get(launch.kernel) : nullptr;
    if (code) codes.push_back(code);
    commands_.push_back(std::make_shared<const PreparedCommand>(
        *graph_, *schedule_, i, PreparedCommand::Sized{}, std::move(code)));
  }
  if (config::Get<kWaitForCode>()) KernelCode::WaitFor(codes);
#ifndef NDEBUG
  const BufferMap<int64_t> sizes = compiler::BytesOf(*schedule_);
  for (const compiler::Command& command : schedule_->commands) {
    if (command.launch.kernel) CheckBounds(command.launch, sizes);
  }
#endif
}

Program::Facts::Facts(const Graph& graph, const compiler::Schedule& schedule,
                      std::vector<int> groups)
    : group_last(std::move(groups)),
      outputs(compiler::FindOutputSources(schedule)),
      donations(graph, schedule, group_last),
      seen(std::make_unique<std::atomic<const void*>[]>(schedule.commands.size())) {
  const size_t commands = schedule.commands.size();
  BufferMap<size_t> of_buffer(schedule.buffers.size(), commands);
  for (size_t i = commands; i-- > 0;) {
    for (BufferId buffer : schedule.commands[i].writes) of_buffer[buffer] = i;
  }
  for (BufferId buffer : schedule.outputs) first_write.push_back(of_buffer[buffer]);
  for (size_t i = 0; i < commands; ++i) {
    const compiler::Command& command = schedule.commands[i];
    if (command.is_call() && StartInput(graph, graph[command.node])) checked_first.push_back(i);
  }
}

size_t Program::FirstWriteInPlace(std::span<const int> taken) const {
  size_t first = commands_.size();
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
  const BufferMap<int64_t> bytes = schedule.BytesAt(basis);
  commands_.reserve(schedule_->commands.size());
  for (size_t i = 0; i < schedule_->commands.size(); ++i) {
    commands_.push_back(sized_->CommandAt(i, basis, bytes));
  }
  Finish(bytes);
#ifndef NDEBUG
  const compiler::ScheduledGraph at = AtOwnSizes();
  const BufferMap<int64_t> at_sizes = compiler::BytesOf(at.schedule);
  for (const compiler::Command& command : at.schedule.commands) {
    if (command.launch.kernel) CheckBounds(command.launch, at_sizes);
  }
#endif
}

void Program::Finish(const BufferMap<int64_t>& bytes, const SavedProgram* saved) {
  ChooseWorkers();
  std::vector<int64_t> scratch = ScratchOfCommands();
  // Threads that share a kernel have scratch memory each, so their number may change the plan.
  if (saved && saved->scratch == scratch) {
    plan_ = saved->plan;
  } else if (sized_) {
    plan_ = compiler::PlanMemory(*schedule_, bytes, scratch, facts_->group_last);
  } else {
    plan_ = compiler::PlanMemory(*schedule_, scratch, facts_->group_last);
  }
  FindOverlap(bytes);
  for (size_t i = 0; i < commands_.size(); ++i) {
    if (commands_[i]->packed_input >= 0)
      weights_.push_back({commands_[i]->packed_input, i, &commands_[i]->packed_weight});
  }
  if (!weights_.empty()) weight_casts_ = FindWeightCasts();
}

std::vector<int64_t> Program::ScratchOfCommands() const {
  std::vector<int64_t> scratch;
  scratch.reserve(commands_.size());
  for (size_t i = 0; i < commands_.size(); ++i) {
    scratch.push_back(commands_[i]->scratch_bytes(workers_[i]));
  }
  return scratch;
}

void Program::AddKernels(std::vector<std::shared_ptr<KernelCode>>& kernels) const {
  for (const auto& command : commands_) command->AddKernels(kernels);
}

void Program::AddBodies(std::vector<const Program*>& bodies) const {
  for (const auto& command : commands_) command->AddBodies(bodies);
}

void Program::PackWeight(const Weight& weight, const HostTensor& input, char* packed) const {
  const PreparedCommand& command = *commands_[weight.command];
  const HostTensor operand = input.To(command.packed_dtype);
  command.call->PackWeight(static_cast<const char*>(operand.data()), packed);
}

std::vector<Program::WeightCast> Program::FindWeightCasts() const {
  const compiler::Schedule& schedule = *schedule_;
  BufferMap<int> reads(schedule.buffers.size(), 0);  // by commands, and as outputs
  for (const compiler::Command& command : schedule.commands) {
    for (BufferId buffer : command.reads) ++reads[buffer];
  }
  for (BufferId buffer : schedule.outputs) ++reads[buffer];
  BufferMap<std::vector<size_t>> packed(schedule.buffers.size());
  for (size_t i = 0; i < weights_.size(); ++i) {
    const PreparedCommand& command = *commands_[weights_[i].command];
    const BufferId weight = command.operands[command.packed_weight.operand];
    if (std::ranges::count(command.operands, weight) == 1) packed[weight].push_back(i);
  }
  std::vector<WeightCast> casts;
  for (size_t i = 0; i < commands_.size(); ++i) {
    const std::vector<BufferId>& writes = schedule.commands[i].writes;
    if (commands_[i]->call || writes.size() != 1) continue;
    std::vector<size_t>& weights = packed[writes[0]];
    if (!weights.empty() && static_cast<int>(weights.size()) == reads[writes[0]]) {
      casts.push_back({writes[0], std::move(weights)});
    }
  }
  return casts;
}

/// Commands of a group have one number of threads.
void Program::ChooseWorkers() {
  const std::vector<int64_t> work = WorkOf(commands_);
  workers_.resize(commands_.size(), 1);
  for (size_t first = 0; first < commands_.size();) {
    size_t end = facts_->group_last[first] + 1;
    int64_t total = std::accumulate(work.begin() + static_cast<ptrdiff_t>(first),
                                    work.begin() + static_cast<ptrdiff_t>(end), int64_t{0});
    int workers = total <= kSerialWork ? 1 : ThreadPool::threads();
    std::fill_n(workers_.begin() + static_cast<ptrdiff_t>(first), end - first, workers);
    first = end;
  }
}

Program::~Program() = default;

int Program::kernels() const {
  return static_cast<int>(std::count_if(
      schedule_->commands.begin(), schedule_->commands.end(),
      [](const compiler::Command& command) { return command.launch.kernel != nullptr; }));
}

int64_t Program::bytes() const {
  int64_t commands = 0;
  for (const auto& command : commands_) commands += command.use_count() > 1 ? 0 : command->bytes();
  size_t lists = commands_.size() * (sizeof(commands_[0]) + sizeof(int) + sizeof(int64_t)) +
                 plan_.offset.size() * sizeof(int64_t) + weights_.size() * sizeof(Weight);
  size_t shared = graph_->nodes().size() * sizeof(GraphNode) +
                  schedule_->commands.size() * sizeof(compiler::Command) +
                  schedule_->buffers.size() * sizeof(compiler::BufferType);
  return commands + static_cast<int64_t>(sizeof *this + lists + (sized_ ? 0 : shared));
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
  BufferSpan buffers(inline_buffers);
  if (schedule_->buffers.size() + commands_.size() > kInline) {
    more.resize(schedule_->buffers.size() + commands_.size());
    buffers = BufferSpan(more.data());
  }
  for (size_t i = 0; i < weights_.size(); ++i) {
    buffers[PreparedCommand::PackedBuffer(*schedule_, weights_[i].command)] =
        packed_weights.empty() ? nullptr : packed_weights[i];
  }
  compiler::SetBuffers<char*>(*schedule_, plan_, facts_->outputs, inputs, outputs, arena, buffers);
  for (const WeightCast& cast : weight_casts_) {
    auto is_packed = [&](size_t i) { return !packed_weights.empty() && packed_weights[i]; };
    if (std::ranges::all_of(cast.weights, is_packed)) buffers[cast.value] = nullptr;
  }
  for (size_t command : facts_->checked_first) commands_[command]->CheckCall(buffers);
  const size_t in_place = FirstWriteInPlace(taken);
  if (profile) [[unlikely]] {
    const bool any = in_place < commands_.size();
    std::optional<process_exit::Writing> writing;
    if (any && calls_libraries_) writing.emplace();
    ThreadPool::Cancellable cancellable(any ? nullptr : ThreadPool::Cancellable::Flag());
    return RunProfiled(buffers, arena, in_place, *profile);
  }
  std::optional<process_exit::Writing> writing;
  std::optional<RunningCollectives> collectives;
  if (!overlap_.empty()) [[unlikely]]
    collectives.emplace();
  const bool timed = config::Get<kTimeKernels>();
  const std::atomic<bool>* cancel = ThreadPool::Cancellable::Flag();
  for (size_t i = 0; i < commands_.size();) {
    size_t end = timed ? i + 1 : facts_->group_last[i] + 1;
    if (end > in_place) {
      cancel = nullptr;
      if (collectives) collectives->AwaitAll();  // what can fail does so before
      if (calls_libraries_ && !writing) writing.emplace();
    }
    ThreadPool::Cancellable cancellable(cancel);
    std::optional<metrics::ScopedTimer> timer;
    if (timed) {
      timer.emplace(metrics::Get<kKernelTimes>(CommandName(i)));
    }
    if (collectives) [[unlikely]] {
      RunOverlapped(i, end, buffers, arena, *collectives);
    } else {
      RunCommands(i, end, buffers, arena);
    }
    if (cancel && cancel->load(std::memory_order_relaxed)) [[unlikely]]
      throw process_exit::Cancelled();
    i = end;
  }
  if (collectives) collectives->AwaitAll();
}

void Program::FindOverlap(const BufferMap<int64_t>& bytes) {
  // Below this a second thread costs more than it saves.
  constexpr int64_t kLeastBytes = int64_t{16} << 10;
  std::vector<Overlap> overlap(commands_.size(), Overlap::kNone);
  bool any = false;
  for (size_t i = 0; i < commands_.size(); ++i) {
    const compiler::Command& command = schedule_->commands[i];
    if (!command.is_call()) continue;
    const GraphNode& node = (*graph_)[command.node];
    if (std::ranges::any_of(node.attrs,
                            [](const Attr& attr) { return attr.kind() == Attr::Kind::kGraph; })) {
      overlap[i] = Overlap::kWaitsForAll;  // its body may have collectives
    }
    if (std::ranges::count(CollectiveOps(), node.op) == 0) continue;
    if (node.attr("size").integer() == 1) continue;
    any = true;
    overlap[i] = Overlap::kCollective;
    int64_t most = 0;
    for (BufferId buffer : command.reads) most = std::max(most, bytes[buffer]);
    for (BufferId buffer : command.writes) most = std::max(most, bytes[buffer]);
    // The last command, or one whose result the next needs, has nothing to run beside it.
    bool awaited_at_once = i + 1 == commands_.size();
    for (BufferId buffer : command.writes) {
      awaited_at_once =
          awaited_at_once || std::ranges::count(schedule_->commands[i + 1].reads, buffer) > 0;
    }
    if (most >= kLeastBytes && !awaited_at_once) overlap[i] = Overlap::kStarts;
  }
  if (!any) return;
  overlap_ = std::move(overlap);
  bytes_ = bytes;
}

void Program::RunOverlapped(size_t first, size_t end, BufferSpan<char*> buffers, char* arena,
                            RunningCollectives& collectives) const {
  using Range = RunningCollectives::Range;
  const Overlap own = overlap_[first];
  const bool is_collective = own == Overlap::kCollective || own == Overlap::kStarts;
  if (own != Overlap::kStarts && !collectives.any()) {
    return RunCommands(first, end, buffers, arena);
  }
  if (own == Overlap::kWaitsForAll) {
    collectives.AwaitAll();
    return RunCommands(first, end, buffers, arena);
  }
  std::vector<Range> reads, writes;
  auto add = [&](std::vector<Range>& ranges, BufferId buffer) {
    if (const char* begin = buffers[buffer]) ranges.push_back({begin, begin + bytes_[buffer]});
  };
  for (size_t i = first; i < end; ++i) {
    const compiler::Command& command = schedule_->commands[i];
    for (BufferId buffer : command.reads) add(reads, buffer);
    for (BufferId buffer : command.writes) add(writes, buffer);
    const int64_t scratch = commands_[i]->scratch_bytes(workers_[i]);
    if (char* at = ScratchOf(i, arena)) writes.push_back({at, at + scratch});
  }
  collectives.AwaitBefore(reads, writes);
  if (!is_collective || (own == Overlap::kCollective && !collectives.any())) {
    return RunCommands(first, end, buffers, arena);
  }
  // Buffers are those of the run, which waits for it.
  collectives.Start(first, std::move(reads), std::move(writes), [this, first, buffers, arena] {
    commands_[first]->RunCall(buffers, ScratchOf(first, arena));
  });
}

void Program::RunCommands(size_t first, size_t end, BufferSpan<char*> buffers, char* arena) const {
  tools::Range range([&] { return CommandName(first); });
  if (commands_[first]->call) {
    commands_[first]->RunCall(buffers, ScratchOf(first, arena));
  } else {
    RunKernels(first, end, buffers, arena);
  }
}

/// Commands that could run concurrently run one after another, so that each has a time.
void Program::RunProfiled(BufferSpan<char*> buffers, char* arena, size_t in_place,
                          const lazy::RunProfile& profile) const {
  RunningCollectives collectives;
  for (size_t i = 0; i < commands_.size(); ++i) {
    if (i >= in_place) collectives.AwaitAll();
    const int64_t begin = lazy::RunProfile::Now();
    if (overlap_.empty()) {
      RunCommands(i, i + 1, buffers, arena);
    } else {
      RunOverlapped(i, i + 1, buffers, arena, collectives);
      if (overlap_[i] == Overlap::kStarts) continue;  // its times are known at the end
    }
    profile.AddKernel(i, CommandName(i), begin, lazy::RunProfile::Now());
  }
  collectives.AwaitAll();
  for (const auto& [command, begin, end] : collectives.times()) {
    if (overlap_[command] == Overlap::kStarts) {
      profile.AddKernel(command, CommandName(command), begin, end);
    }
  }
}

char* Program::ScratchOf(size_t command, char* arena) const {
  int64_t at = plan_.scratch_offset[command];
  return at < 0 ? nullptr : arena + at;
}

std::string Program::CommandName(size_t i) const {
  return compiler::NameOfCommand(*graph_, schedule_->commands[i]);
}

std::string Program::LargestBuffers() const {
  const compiler::ScheduledGraph at = AtOwnSizes();
  return compiler::LargestBuffers(at.graph, at.schedule);
}

/// Commands [first, end), whose tiles are one list.
void Program::RunKernels(size_t first, size_t end, BufferSpan<char*> buffers, char* arena) const {
  auto tiles_of = [&](size_t i) {
    const std::vector<BufferId>& writes = schedule_->commands[i].writes;
    if (writes.size() == 1 && !buffers[writes[0]]) return int64_t{0};  // see WeightCast
    return commands_[i]->kernel->tiles();
  };
  int64_t tiles = 0;
  for (size_t i = first; i < end; ++i) {
    const int64_t own = tiles_of(i);
    if (own > 0) commands_[i]->kernel->code()->CountRun();
    tiles += own;
  }
  if (tiles == 0) return;
  auto run = [&](int64_t begin, int64_t until, int worker) {
    int64_t before = 0;  // tiles of the commands before
    for (size_t i = first; i < end && before < until; ++i) {
      const KernelCommand& command = *commands_[i]->kernel;
      int64_t from = std::max<int64_t>(begin - before, 0);
      const int64_t own = tiles_of(i);
      int64_t to = std::min(until - before, own);
      if (from < to) command.Run(buffers, ScratchOf(i, arena), from, to, worker);
      before += own;
    }
  };
  if (workers_[first] == 1) return run(0, tiles, 0);
  ThreadPool::Get().ParallelFor(tiles, 1, run, workers_[first]);
}

std::string Program::ToText(std::string_view what) const {
  const compiler::ScheduledGraph at = AtOwnSizes();
  std::string text = DescribePlan(at.graph, at.schedule, plan_);
  for (size_t i = 0; i < commands_.size(); ++i) {
    if (commands_[i]->call) {
      text += fmt::format("command {}: {}\n", i, commands_[i]->call->kernel());
    }
    if (std::string code = CodeText(i, what); !code.empty()) {
      text += fmt::format("command {}:\n{}", i, code);
    }
  }
  return text;
}

std::string Program::CodeText(size_t command, std::string_view what) const {
  const Kernel* kernel = schedule_->commands[command].launch.kernel.get();
  if (!kernel) return "";
  if (what == "llvm") return EmitLlvm(*kernel, HostTarget());
  if (what != "assembly" || !LlvmCompiler::WhyAbsent().empty()) return "";
  return LlvmCompiler::Get().Assembly(EmitLlvm(*kernel, HostTarget()));
}

const char* Program::CallName(size_t command) const {
  return commands_[command]->call ? commands_[command]->call->kernel() : nullptr;
}

}  // namespace hammock::cpu
