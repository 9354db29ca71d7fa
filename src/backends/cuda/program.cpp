#include "backends/cuda/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "backends/cuda/calls/call_kit.h"
#include "backends/cuda/calls/device_kernel.h"
#include "backends/cuda/concurrent_commands.h"
#include "backends/cuda/device/program_args.h"
#include "backends/cuda/driver/failure_dump.h"
#include "backends/cuda/emit/joint_kernel.h"
#include "backends/cuda/passes/arg_reductions.h"
#include "backends/cuda/passes/attention_views.h"
#include "backends/cuda/passes/chunk_attention.h"
#include "backends/cuda/passes/copies_to_where.h"
#include "backends/cuda/passes/expand_attention.h"
#include "backends/cuda/passes/fuse_random.h"
#include "backends/cuda/passes/late_writes.h"
#include "backends/cuda/passes/narrow_matmuls.h"
#include "backends/cuda/passes/scatter_rows.h"
#include "backends/cuda/passes/vector_matmuls.h"
#include "base/never_destroyed.h"
#include "base/throw.h"
#include "base/tools.h"
#include "compiler/effects.h"
#include "compiler/loops/describe_schedule.h"
#include "compiler/loops/fusion_facts.h"
#include "compiler/passes/remove_dead.h"
#include "compiler/passes/split_reductions.h"
#include "hammock/config.h"
#include "hammock/lazy/backend_interface.h"
#include "hammock/metric.h"
#include "ir/primitives.h"

namespace hammock::cuda {

using compiler::BufferId;
using compiler::BufferMap;

namespace {

constinit config::Option<bool> kTimeKernels({
    .name = "cuda.time_kernels",
    .default_value = false,
    .doc = "Measure the time of every kernel and call of the CUDA backend, one after another: "
           "metrics `cuda::kernel::*`.",
    .old_name = "cuda.time_steps",
});

constinit const metrics::DeclaredMetric kKernelTimes({
    .name = "cuda::kernel::<number>_<ops>",
    .kind = metrics::Kind::kTime,
    .doc = "Runs of each kernel and call, with the option `cuda.time_kernels`.",
    .old_name = "cuda::step::<step>_<ops>",
});

constexpr int64_t kFewBytes = 32 << 20;  // that concurrent kernels may take in addition

constexpr Address kCounters = 1;  // stands for the counters of the stream

const KernelSource& GatherSource() {
  static const auto& source =
      NeverDestroyed<KernelSource>(SourceOf({.file = "program.cuh",
                                             .function = "gather_faults",
                                             .argument_bytes = sizeof(GatherFaultsArgs)}));
  return source;
}

}  // namespace

struct Program::PreparedCommand {
  // For kernels.
  LaunchConfig config;
  Grid grid;
  // For the first of a group: its functions, plain and guarded. May be loaded late.
  mutable std::shared_ptr<Function> functions[2];
  // For the first of a group of concurrent kernels.
  std::unique_ptr<JointKernel> joint;
  // For calls.
  std::shared_ptr<Call> call;
  bool has_functions = false;  // from a program at other sizes
  NodeId shared_as;            // for such, once it has functions
  std::vector<BufferId> operands;
  std::vector<BufferId> results;
  int fault = -1;  // the index of its first fault word
  // For errors: of the graph as given.
  NodeId node;
  LocationId location = 0;
};

std::vector<Pass> CudaPasses() {
  return {
      {"copies_to_where", CopiesToWhere},
      {"chunk_attention", [](Graph g) { return ChunkAttention(std::move(g)); }},
      {"expand_attention", ExpandAttention},
      {"fold_attention_views", FoldAttentionViews},
      {"remove_dead", RemoveDead},
      {"pack_attention_gradients", PackAttentionGradients},
      {"vector_matmuls", VectorMatMuls},
      {"arg_reductions", ArgReductions},
      {"split_reductions", SplitReductions},
      {"narrow_matmuls", NarrowMatMuls},
      {"remove_dead", RemoveDead},
      {"round_matmuls", RoundMatMuls},
      {"remove_dead", RemoveDead},
      {"fuse_bias_and_relu", FuseBiasAndRelu},
      {"scatter_rows", ScatterRows},
      {"remove_dead", RemoveDead},
  };
}

Graph RewriteForCuda(const Graph& graph) {
  return RunPasses(CudaPasses(), compiler::WithOrigins(graph));
}

compiler::Schedule ScheduleForCuda(const Graph& rewritten) {
  return FuseRandom(rewritten, compiler::MakeSchedule(rewritten, /*aligned_outputs=*/false,
                                                      /*epilogues=*/false));
}

namespace {

/// Whether an order of the commands is not worth its memory.
bool TakesMuchMore(const compiler::MemoryPlan& plan, const compiler::MemoryPlan& before) {
  return plan.arena_bytes > before.arena_bytes + std::max(before.peak_bytes() / 8, kFewBytes);
}

std::vector<int> Inverse(const std::vector<int>& order) {
  std::vector<int> back(order.size());
  for (size_t i = 0; i < order.size(); ++i) back[order[i]] = static_cast<int>(i);
  return back;
}

}  // namespace

compiler::ScheduledGraph ScheduledForCuda(Graph rewritten) {
  compiler::Schedule schedule = ScheduleForCuda(rewritten);
  return {std::move(rewritten), std::move(schedule)};
}

Program::Program(const Graph& graph, std::shared_ptr<Machine> machine, int64_t spread_bytes)
    : Program(ScheduledForCuda(RewriteForCuda(graph)), std::move(machine), {}, spread_bytes) {}

Program::Program(compiler::ScheduledGraph scheduled, std::shared_ptr<Machine> machine,
                 const AtSizes& at, int64_t spread_bytes, bool body)
    : machine_(std::move(machine)),
      shared_(at.shared),
      graph_(std::move(scheduled.graph)),
      schedule_(std::move(scheduled.schedule)) {
  PrepareCommands(at.varies, body);
  Arrange(at.varies);
  scratch_ = ScratchOfCommands();
  SpreadMemory(spread_bytes);
  Finish();
}

Program::Program(const SavedProgram& saved, std::shared_ptr<Machine> machine)
    : machine_(std::move(machine)), graph_(*saved.graph), schedule_(*saved.schedule) {
  PrepareCommands({});
  std::vector<std::vector<int>> groups;
  for (size_t i = 0; i < commands_.size(); ++i) {
    if (i == 0 || saved.group_last[i] != saved.group_last[i - 1]) groups.emplace_back();
    groups.back().push_back(static_cast<int>(i));
  }
  group_last_.resize(commands_.size());
  FormGroups(groups);
  scratch_ = ScratchOfCommands();
  plan_ = scratch_ == saved.scratch && group_last_ == saved.group_last
              ? saved.plan
              : compiler::PlanMemory(schedule_, scratch_, group_last_);
  Finish();
}

SavedProgram Program::Save() const {
  return {std::make_shared<const Graph>(graph_),
          std::make_shared<const compiler::Schedule>(schedule_), group_last_, scratch_, plan_};
}

void Program::Finish() {
  FindGuarded();
  FindStarts();
  LoadFunctions();
  outputs_ = compiler::FindOutputSources(schedule_);
  donations_ = compiler::DonationPlan(graph_, schedule_, group_last_);
  guarded_donations_ = compiler::DonationPlan(graph_, schedule_, group_last_, is_guarded_);
}

Program::~Program() = default;

void Program::PrepareCommands(const std::vector<bool>& varies, bool body) {
  commands_.resize(schedule_.commands.size());
  for (size_t i = 0; i < commands_.size(); ++i) {
    const compiler::Command& command = schedule_.commands[i];
    PreparedCommand& prepared = commands_[i];
    NodeId id = command.is_call() ? command.node : command.nodes.back();
    prepared.node = graph_[id].origin;
    prepared.location = graph_[id].location;
    if (!command.is_call()) {
      prepared.config = ConfigureLaunch(command.launch);
      // The variant for full rounds would be compiled in the middle of a run.
      if (shared_ && varies[i]) prepared.config.even = false;
      prepared.grid = GridOf(command.launch, prepared.config);
      continue;
    }
    const bool fixed = shared_ && !varies[i];
    if (fixed) prepared.call = shared_->FindCall(id);
    if (prepared.call) {
      prepared.has_functions = true;
    } else {
      prepared.call = MakeCall(graph_, id, {*machine_, shared_.get()});
      if (fixed) prepared.shared_as = id;
    }
    if (!prepared.call) {
      Throw<CompileError>(ErrorCode::kCompile, "cuda has no kernel for {}", graph_[id].op->name());
    }
    for (GraphValue input : graph_[id].inputs) {
      prepared.operands.push_back(
          input.node ? schedule_.BufferOf(compiler::StorageOf(graph_, input)) : BufferId());
    }
    for (size_t r = 0; r < graph_[id].types.size(); ++r) {
      prepared.results.push_back(schedule_.BufferOf({id, static_cast<int32_t>(r)}));
    }
    const int count = prepared.call->fault_count();
    if (count > 0 && (body || CanFailLate(graph_, graph_[id]))) {
      prepared.fault = std::exchange(fault_count_, fault_count_ + count);
    }
  }
}

std::vector<int64_t> Program::ScratchOfCommands() const {
  std::vector<int64_t> scratch;
  for (size_t i = 0; i < commands_.size(); ++i) {
    scratch.push_back(commands_[i].call
                          ? commands_[i].call->scratch_bytes()
                          : ScratchBytes(schedule_.commands[i].launch, commands_[i].config));
  }
  return scratch;
}

void Program::Arrange(const std::vector<bool>& varies) {
  group_last_.resize(commands_.size());
  std::iota(group_last_.begin(), group_last_.end(), 0);
  plan_ = compiler::PlanMemory(schedule_, ScratchOfCommands());
  std::vector<bool> joins;
  for (const compiler::Command& command : schedule_.commands) {
    bool may = varies.empty() || !varies[joins.size()];
    joins.push_back(may && !command.is_call() && JointKernel::Takes(command.launch));
  }
  DeferWrites(joins);
  std::vector<std::vector<int>> groups = GroupCommands(schedule_, joins);
  if (groups.size() == commands_.size()) return;
  std::vector<int> order;
  for (const std::vector<int>& group : groups) {
    order.insert(order.end(), group.begin(), group.end());
  }
  Reorder(order);
  FormGroups(groups);
  compiler::MemoryPlan plan = compiler::PlanMemory(schedule_, ScratchOfCommands(), group_last_);
  if (TakesMuchMore(plan, plan_)) {
    for (PreparedCommand& command : commands_) command.joint.reset();
    std::iota(group_last_.begin(), group_last_.end(), 0);
    return Reorder(Inverse(order));
  }
  plan_ = std::move(plan);
}

void Program::DeferWrites(std::vector<bool>& joins) {
  std::vector<int> order = WriteLate(schedule_, LastFault());
  if (order.empty()) return;
  Reorder(order);
  compiler::MemoryPlan plan = compiler::PlanMemory(schedule_, ScratchOfCommands());
  if (TakesMuchMore(plan, plan_)) return Reorder(Inverse(order));
  plan_ = std::move(plan);
  std::vector<bool> joins_before = joins;
  for (size_t i = 0; i < order.size(); ++i) joins[i] = joins_before[order[i]];
}

int Program::LastFault() const {
  int last = -1;
  for (size_t i = 0; i < commands_.size(); ++i) {
    if (commands_[i].fault >= 0) last = static_cast<int>(i);
  }
  return last;
}

void Program::FindStarts() {
  BufferMap<int> input_of(schedule_.buffers.size(), -1);
  for (size_t i = 0; i < schedule_.inputs.size(); ++i) {
    input_of[schedule_.inputs[i]] = static_cast<int>(i);
  }
  for (size_t i = 0; i < commands_.size(); ++i) {
    if (!commands_[i].call) continue;
    NodeId start = StartInput(graph_, graph_[schedule_.commands[i].node]);
    if (start)
      starts_.push_back({static_cast<size_t>(input_of[schedule_.BufferOf({start, 0})]), i});
  }
}

void Program::CheckStart(const Start& start, int64_t value) const {
  const PreparedCommand& command = commands_[start.command];
  std::optional<Call::Fault> fault = command.call->CheckStart(value);
  if (!fault) return;
  lazy::ExecutionError error(fault->code, fault->message, command.node);
  error.SetWhere(WhereText(command.location));
  throw error;
}

void Program::FindGuarded() {
  BufferMap<bool> is_output(schedule_.buffers.size());
  for (BufferId buffer : schedule_.outputs) is_output[buffer] = true;
  is_guarded_.assign(commands_.size(), false);
  gathers_before_ = commands_.size();
  for (size_t i = LastFault() + 1, next = i; i < commands_.size(); i = next) {
    next = group_last_[i] + 1;
    bool writes = false;
    for (size_t k = i; k < next; ++k) {
      for (BufferId buffer : schedule_.commands[k].writes) writes = writes || is_output[buffer];
    }
    if (!writes || (commands_[i].call && !commands_[i].call->can_hold_back())) continue;
    for (size_t k = i; k < next; ++k) is_guarded_[k] = true;
    gathers_before_ = std::min(gathers_before_, i);
  }
}

void Program::SpreadMemory(int64_t most) {
  bool updates = std::any_of(
      schedule_.commands.begin(), schedule_.commands.end(),
      [](const compiler::Command& command) { return static_cast<bool>(command.updates); });
  if (updates || commands_.empty()) return;
  std::vector<int> to_the_end(commands_.size(), static_cast<int>(commands_.size()) - 1);
  compiler::MemoryPlan plan = compiler::PlanMemory(schedule_, scratch_, to_the_end);
  if (plan.arena_bytes <= most) plan_ = std::move(plan);
}

void Program::Reorder(const std::vector<int>& order) {
  std::vector<compiler::Command> commands;
  std::vector<PreparedCommand> prepared;
  for (int from : order) {
    commands.push_back(std::move(schedule_.commands[from]));
    prepared.push_back(std::move(commands_[from]));
  }
  schedule_.commands = std::move(commands);
  commands_ = std::move(prepared);
}

void Program::FormGroups(const std::vector<std::vector<int>>& groups) {
  size_t first = 0;
  for (const std::vector<int>& group : groups) {
    std::vector<const compiler::Launch*> launches;
    for (size_t i = 0; i < group.size(); ++i) {
      launches.push_back(&schedule_.commands[first + i].launch);
    }
    for (size_t size = 1; !launches.empty(); first += size) {
      size = 1;
      if (launches.size() > 1) {
        auto joint = std::make_unique<JointKernel>(launches);
        size = joint->size();
        if (size > 1) commands_[first].joint = std::move(joint);
      }
      std::fill_n(group_last_.begin() + static_cast<ptrdiff_t>(first), size,
                  static_cast<int>(first + size) - 1);
      launches.erase(launches.begin(), launches.begin() + static_cast<ptrdiff_t>(size));
    }
  }
}

std::vector<KernelSource> Program::SourcesOf(size_t first, bool guarded) const {
  const PreparedCommand& command = commands_[first];
  if (command.call) return command.call->Sources();
  if (command.joint) return {command.joint->source(guarded)};
  return {EmitCuda(*schedule_.commands[first].launch.kernel, command.config, guarded)};
}

KernelKey Program::KeyOf(size_t first, bool guarded) const {
  KernelKey key(guarded);
  if (commands_[first].joint) {
    commands_[first].joint->AddTo(key);
  } else {
    key.Add(schedule_.commands[first].launch.kernel.get(), commands_[first].config);
  }
  return key;
}

std::shared_ptr<Function> Program::KnownKernel(size_t first, bool guarded) const {
  if (!shared_ || commands_[first].call) return nullptr;
  return shared_->FindKernel(KeyOf(first, guarded));
}

std::vector<KernelSource> Program::Sources() const {
  std::vector<KernelSource> sources;
  for (size_t i = 0; i < commands_.size(); i = group_last_[i] + 1) {
    const bool guarded = IsUsuallyGuarded() && is_guarded_[i];
    for (KernelSource& source : SourcesOf(i, guarded)) sources.push_back(std::move(source));
    if (!commands_[i].call) continue;
    for (const Program* program : commands_[i].call->programs()) {
      for (KernelSource& source : program->Sources()) sources.push_back(std::move(source));
    }
  }
  if (IsUsuallyGuarded()) sources.push_back(GatherSource());
  return sources;
}

void Program::LoadFunctions() {
  std::vector<KernelSource> sources;  // each once
  std::map<std::string, size_t> numbers;
  auto number_of = [&](KernelSource source) {
    auto [known, added] = numbers.try_emplace(source.name, sources.size());
    if (added) sources.push_back(std::move(source));
    return known->second;
  };
  struct Group {
    size_t first;
    std::vector<size_t> used;  // sources
  };
  std::vector<Group> groups;  // that need functions
  for (size_t i = 0; i < commands_.size(); i = group_last_[i] + 1) {
    if (commands_[i].has_functions) continue;
    const bool guarded = IsUsuallyGuarded() && is_guarded_[i];
    if ((commands_[i].functions[guarded] = KnownKernel(i, guarded))) continue;
    groups.push_back({i, {}});
    for (KernelSource& source : SourcesOf(i, guarded)) {
      groups.back().used.push_back(number_of(std::move(source)));
    }
  }
  const size_t gather = IsUsuallyGuarded() ? number_of(GatherSource()) : 0;
  std::vector<std::shared_ptr<Function>> functions = machine_->Load(sources);
  for (const auto& [first, used] : groups) {
    PreparedCommand& command = commands_[first];
    std::vector<std::shared_ptr<Function>> own;
    for (size_t number : used) own.push_back(functions[number]);
    if (command.call) {
      command.call->SetFunctions(std::move(own));
      if (command.shared_as) shared_->AddCall(command.shared_as, command.call);
      continue;
    }
    const bool guarded = IsUsuallyGuarded() && is_guarded_[first];
    command.functions[guarded] = own[0];
    if (shared_) shared_->AddKernel(KeyOf(first, guarded), std::move(own[0]));
  }
  if (IsUsuallyGuarded()) gather_ = functions[gather];
}

void Program::LoadVariant(bool guarded) const {
  if (guarded == IsUsuallyGuarded()) return;
  std::call_once(other_variant_, [&] {
    std::vector<KernelSource> sources;
    std::vector<size_t> firsts;
    for (size_t i = 0; i < commands_.size(); i = group_last_[i] + 1) {
      if (!is_guarded_[i] || commands_[i].call) continue;
      if ((commands_[i].functions[guarded] = KnownKernel(i, guarded))) continue;
      firsts.push_back(i);
      sources.push_back(SourcesOf(i, guarded)[0]);
    }
    if (guarded) sources.push_back(GatherSource());
    std::vector<std::shared_ptr<Function>> functions = machine_->Load(sources);
    for (size_t k = 0; k < firsts.size(); ++k) {
      commands_[firsts[k]].functions[guarded] = functions[k];
      if (shared_) shared_->AddKernel(KeyOf(firsts[k], guarded), functions[k]);
    }
    if (guarded) gather_ = functions.back();
  });
}

int Program::kernels() const {
  return static_cast<int>(
      std::count_if(commands_.begin(), commands_.end(),
                    [](const PreparedCommand& command) { return !command.call; }));
}

int64_t Program::bytes() const {
  return static_cast<int64_t>(graph_.nodes().size() * sizeof(GraphNode) +
                              commands_.size() *
                                  (sizeof(PreparedCommand) + sizeof(compiler::Command)) +
                              schedule_.buffers.size() * sizeof(compiler::BufferType));
}

void Program::Run(std::span<const Address> inputs, std::span<const Address> outputs, Address arena,
                  const RunFaults& faults, const lazy::RunProfile* profile) const {
  LoadVariant(faults.failed != 0);
  auto memory = [&] { return Memory{BuffersOf(inputs, outputs, arena), arena, faults}; };
  if (profile || config::Get<kTimeKernels>()) [[unlikely]] {
    return RunTimed(memory(), profile);
  }
  if (!config::Get<kDumpFailures>().empty()) [[unlikely]] {
    return RunWatched(memory());
  }
  if (commands_.empty() && faults.failed == 0) return;
  // A CUDA graph is one launch, in which ranges of commands could not be told apart.
  if (tools::IsOn(tools::kNvtx)) [[unlikely]]
    return RunCommands(memory());
  std::vector<Address> addresses;
  addresses.reserve(inputs.size() + outputs.size() + 3 + faults.earlier.size());
  addresses.insert(addresses.end(), inputs.begin(), inputs.end());
  addresses.insert(addresses.end(), outputs.begin(), outputs.end());
  addresses.push_back(arena);
  addresses.push_back(faults.faults);
  addresses.push_back(faults.failed);
  addresses.insert(addresses.end(), faults.earlier.begin(), faults.earlier.end());
  graphs_->Run(*machine_, addresses,
               {[&] { RunCommands(memory()); }, [&] { return PiecesOf(addresses, memory()); }});
}

BufferMap<Address> Program::BuffersOf(std::span<const Address> inputs,
                                      std::span<const Address> outputs, Address arena) const {
  BufferMap<Address> buffers(schedule_.buffers.size());
  SetBuffers<Address>(schedule_, plan_, outputs_, inputs, outputs, arena, buffers);
  return buffers;
}

void Program::RunCommands(const Memory& memory) const {
  for (size_t i = 0; i < commands_.size();) {
    Gather(i, memory);
    i = RunGroup(i, memory);
  }
  Gather(commands_.size(), memory);
}

void Program::Gather(size_t i, const Memory& memory) const {
  if (!GathersBefore(i, memory)) return;
  const RunFaults& faults = memory.faults;
  GatherFaultsArgs args = {.failed = At(faults.failed),
                           .faults = At(faults.faults),
                           .count = fault_count_,
                           .earlier = {}};
  static_assert(std::size(decltype(args.earlier){}) == RunFaults::kMost);
  std::transform(faults.earlier.begin(), faults.earlier.end(), args.earlier,
                 [](Address word) { return static_cast<const uint64_t*>(At(word)); });
  machine_->Launch(*gather_, BlockGrid(1), WordsOf(args));
}

std::vector<Piece> Program::PiecesOf(const std::vector<Address>& addresses, Memory memory) const {
  std::shared_ptr<const CommandOrder> order =
      orders_->Get(addresses, memory.guarded() + memory.gathers(),
                   [&] { return OrderByMemory(TouchedByPieces(memory)); });
  auto shared = std::make_shared<const Memory>(std::move(memory));
  std::vector<Piece> pieces;
  auto add = [&](std::function<void()> work) {
    pieces.push_back({std::move(work), (*order)[pieces.size()]});
  };
  for (size_t i = 0; i < commands_.size(); i = group_last_[i] + 1) {
    if (GathersBefore(i, *shared)) add([this, i, shared] { Gather(i, *shared); });
    add([this, i, shared] { RunGroup(i, *shared); });
  }
  const size_t end = commands_.size();
  if (GathersBefore(end, *shared)) add([this, end, shared] { Gather(end, *shared); });
  return pieces;
}

std::vector<TouchedMemory> Program::TouchedByPieces(const Memory& memory) const {
  std::vector<TouchedMemory> touched;
  auto add_gather = [&](size_t i) {
    if (!GathersBefore(i, memory)) return;
    TouchedMemory words{{}, {{memory.faults.failed, 8}}};
    if (fault_count_ > 0) words.reads.push_back({memory.faults.faults, int64_t{fault_count_} * 8});
    for (Address earlier : memory.faults.earlier) words.reads.push_back({earlier, 8});
    touched.push_back(std::move(words));
  };
  for (size_t i = 0; i < commands_.size(); i = group_last_[i] + 1) {
    add_gather(i);
    TouchedMemory all;
    if (memory.guarded() && is_guarded_[i]) all.reads.push_back({memory.faults.failed, 8});
    for (size_t k = i, end = group_last_[i] + 1; k < end; ++k) {
      TouchedMemory one = TouchedBy(k, memory);
      all.reads.insert(all.reads.end(), one.reads.begin(), one.reads.end());
      all.writes.insert(all.writes.end(), one.writes.begin(), one.writes.end());
    }
    touched.push_back(std::move(all));
  }
  add_gather(commands_.size());
  return touched;
}

TouchedMemory Program::TouchedBy(size_t i, const Memory& memory) const {
  TouchedMemory touched;
  auto add = [&](std::vector<Bytes>& list, BufferId buffer) {
    int64_t bytes = schedule_.buffers[buffer].bytes();
    if (bytes > 0) list.push_back({memory.buffers[buffer], bytes});
  };
  for (BufferId buffer : schedule_.commands[i].reads) add(touched.reads, buffer);
  for (BufferId buffer : schedule_.commands[i].writes) add(touched.writes, buffer);
  if (Address scratch = ScratchOf(i, memory)) {
    touched.writes.push_back({scratch, scratch_[i]});
  }
  if (commands_[i].fault >= 0) touched.writes.push_back({FaultOf(i, memory), 8});
  // Kernels that count their blocks share the counters of the stream, also those of a loop.
  bool counts = commands_[i].config.split || (schedule_.commands[i].is_call() &&
                                              graph_[schedule_.commands[i].node].op == &ops::kLoop);
  if (counts) touched.writes.push_back({kCounters, 1});
  return touched;
}

Address Program::FaultOf(size_t i, const Memory& memory) const {
  if (commands_[i].fault < 0) return 0;
  return memory.faults.faults + static_cast<Address>(commands_[i].fault) * 8;
}

Address Program::ScratchOf(size_t i, const Memory& memory) const {
  int64_t at = plan_.scratch_offset[i];
  return at < 0 ? 0 : memory.arena + static_cast<Address>(at);
}

std::vector<uint64_t> Program::ArgumentsOf(size_t i, const Memory& memory) const {
  const LaunchConfig& config = commands_[i].config;
  return KernelArguments(schedule_.commands[i].launch, config, memory.buffers, ScratchOf(i, memory),
                         config.split ? machine_->Counters() : 0);
}

size_t Program::RunGroup(size_t i, const Memory& memory) const {
  const PreparedCommand& command = commands_[i];
  const bool guarded = memory.guarded() && is_guarded_[i];
  auto launch = [&](const Grid& grid, std::vector<uint64_t> arguments) {
    if (guarded) arguments.push_back(memory.faults.failed);
    machine_->Launch(*command.functions[guarded], grid, arguments);
  };
  tools::Range range([&] { return NameOfGroup(i); });
  NameErrors(i, [&] {
    if (command.call) {
      RunCall(i, memory);
    } else if (command.joint) {
      std::vector<Address> scratch;
      for (size_t k = 0; k < command.joint->size(); ++k)
        scratch.push_back(ScratchOf(i + k, memory));
      launch(command.joint->grid(), command.joint->Arguments(memory.buffers, scratch));
    } else if (!command.grid.empty()) {
      launch(command.grid, ArgumentsOf(i, memory));
    }
  });
  return group_last_[i] + 1;
}

void Program::RunAlone(size_t i, const Memory& memory) const {
  const PreparedCommand& command = commands_[i];
  bool grouped = command.joint || (i > 0 && group_last_[i - 1] == group_last_[i]);
  if (!grouped) {
    RunGroup(i, memory);
    return;
  }
  NameErrors(i, [&] {
    const compiler::Launch& launch = schedule_.commands[i].launch;
    const bool guarded = memory.guarded() && is_guarded_[i];
    KernelSource source = EmitCuda(*launch.kernel, command.config, guarded);
    std::vector<uint64_t> arguments = ArgumentsOf(i, memory);
    if (guarded) arguments.push_back(memory.faults.failed);
    machine_->Launch(*machine_->Load({&source, 1})[0], command.grid, arguments);
  });
}

void Program::NameErrors(size_t i, const std::function<void()>& work) const {
  try {
    work();
  } catch (const MachineLost&) {
    throw;  // by something earlier
  } catch (const DeviceError& error) {
    lazy::ExecutionError at_node(
        error.code(), fmt::format("{}: {}", NameOfCommand(i), error.message()), commands_[i].node);
    at_node.SetWhere(WhereText(commands_[i].location));
    throw at_node;
  }
}

void Program::RunWatched(const Memory& memory) const {
  // A failure must be attributed to this run.
  static auto& one_at_a_time = NeverDestroyed<std::mutex>();
  std::lock_guard lock(one_at_a_time);
  machine_->Finish();
  for (size_t i = 0; i < commands_.size(); ++i) {
    try {
      Gather(i, memory);
      RunAlone(i, memory);
      machine_->Finish();
    } catch (const MachineLost& error) {
      MachineLost here(error.code(), fmt::format("{}: {}", NameOfCommand(i), error.message()));
      here.SetWhere(WhereText(commands_[i].location));
      throw here;
    }
  }
  Gather(commands_.size(), memory);
}

void Program::RunTimed(const Memory& memory, const lazy::RunProfile* profile) const {
  machine_->Finish();
  const int64_t start = lazy::RunProfile::Now();
  std::vector<std::shared_ptr<Event>> events = {machine_->RecordTimedEvent()};
  std::vector<size_t> firsts;
  for (size_t i = 0; i < commands_.size();) {
    firsts.push_back(i);
    Gather(i, memory);
    i = RunGroup(i, memory);
    events.push_back(machine_->RecordTimedEvent());
  }
  Gather(commands_.size(), memory);
  machine_->Finish();
  auto since_start = [&](size_t event) {
    return static_cast<int64_t>(machine_->Seconds(*events[0], *events[event]) * 1e9);
  };
  for (size_t g = 0; g < firsts.size(); ++g) {
    size_t first = firsts[g];
    int64_t begin = since_start(g), end = since_start(g + 1);
    std::string name = NameOfGroup(first);
    if (config::Get<kTimeKernels>()) {
      metrics::Get<kKernelTimes>(fmt::format("{}_{}", first, name))
          .AddSample(static_cast<double>(end - begin));
    }
    if (profile) profile->AddKernel(first, name, start + begin, start + end);
  }
}

std::string Program::NameOfCommand(size_t i) const {
  return compiler::NameOfCommand(graph_, schedule_.commands[i]);
}

std::string Program::NameOfGroup(size_t first) const {
  int others = group_last_[first] - static_cast<int>(first);
  return NameOfCommand(first) + (others > 0 ? fmt::format("_and_{}_concurrent", others) : "");
}

std::string Program::NamesOfCommands() const {
  constexpr size_t kMost = 6;
  std::string names;
  for (size_t i = 0; i < commands_.size() && i < kMost; ++i) {
    std::string where = LocationText(commands_[i].location);
    names += fmt::format("{}{}{}", i == 0 ? "" : ", ", NameOfCommand(i),
                         where.empty() ? "" : " at " + where);
  }
  if (commands_.size() > kMost) names += fmt::format(" and {} more", commands_.size() - kMost);
  return names;
}

std::string Program::Where() const {
  for (const PreparedCommand& command : commands_) {
    if (std::string where = WhereText(command.location); !where.empty()) return where;
  }
  return "";
}

void Program::RunCall(size_t i, const Memory& memory) const {
  const PreparedCommand& command = commands_[i];
  std::vector<Address> in, out;
  for (BufferId buffer : command.operands) in.push_back(buffer ? memory.buffers[buffer] : 0);
  for (BufferId buffer : command.results) out.push_back(memory.buffers[buffer]);
  const Address failed = is_guarded_[i] ? memory.faults.failed : 0;
  command.call->Run(*machine_, {in, out, ScratchOf(i, memory), FaultOf(i, memory), failed});
}

void Program::CheckFaults(const uint64_t* faults) const {
  NodeId node;
  if (std::optional<Call::Fault> fault = FindFault(faults, &node)) {
    lazy::ExecutionError error(fault->code, fault->message, node);
    error.SetWhere(fault->where);
    throw error;
  }
}

std::optional<Call::Fault> Program::FindFault(const uint64_t* faults, NodeId* node) const {
  for (const PreparedCommand& command : commands_) {
    if (command.fault < 0) continue;
    std::optional<Call::Fault> fault = command.call->FindFault(faults + command.fault);
    if (!fault) continue;
    if (fault->where.empty()) fault->where = WhereText(command.location);
    if (node) *node = command.node;
    return fault;
  }
  return std::nullopt;
}

std::string Program::ToText(std::string_view what) const {
  std::string text = DescribePlan(graph_, schedule_, plan_);
  for (size_t i = 0; i < commands_.size(); i = group_last_[i] + 1) {
    if (commands_[i].call) continue;
    if (commands_[i].joint) {
      text += fmt::format("commands {} to {} in one launch\n", i, group_last_[i]);
    } else {
      text += fmt::format("command {}: {}", i, cuda::ToText(commands_[i].config));
    }
    if (what == "schedule") continue;
    KernelSource source = commands_[i].joint
                              ? commands_[i].joint->source()
                              : EmitCuda(*schedule_.commands[i].launch.kernel, commands_[i].config);
    std::string assembly = what == "ptx" ? machine_->Assembly(source) : "";
    text += assembly.empty() ? source.text : assembly;
  }
  return text;
}

lazy::ComputationInfo Program::Describe() const {
  lazy::ComputationInfo info{graph_, compiler::DescribeCommands(graph_, schedule_),
                             plan_.peak_bytes()};
  for (size_t i = 0; i < commands_.size(); ++i) {
    if (commands_[i].call) continue;
    info.kernels[i].text +=
        "\n" + EmitCuda(*schedule_.commands[i].launch.kernel, commands_[i].config).text;
  }
  return info;
}

}  // namespace hammock::cuda
