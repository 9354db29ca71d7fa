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

/// Without functions. Immutable once the program is made.
struct Program::PreparedCommand {
  // For kernels.
  std::optional<compiler::Launch> launch;  // where it is not the schedule's
  LaunchConfig config;
  Grid grid;
  // For the first of a group of concurrent kernels.
  std::shared_ptr<const JointKernel> joint;
  // For calls.
  std::shared_ptr<Call> call;
  bool has_functions = false;  // from a program at other sizes
  NodeId shared_as;            // for such, once it has functions
};

struct Program::Arrangement {
  Graph graph;  // at some sizes
  compiler::Schedule schedule;
  std::vector<int> order;       // by command: its number before the commands were reordered
  std::vector<int> group_last;  // by command: the last of its group, whose commands are concurrent
  int64_t spread_bytes = 0;

  struct Command {
    std::vector<BufferId> operands;  // of a call
    std::vector<BufferId> results;
    int fault = -1;  // the index of its first fault word
    int fault_count = 0;
    // For errors: of the graph as given.
    NodeId node;
    LocationId location = 0;
  };
  std::vector<Command> commands;
  int fault_count = 0;
  std::vector<bool> is_guarded;  // by command: its group has a variant that reads the run's word
  size_t gathers_before = 0;     // the command in front of which that word is set
  std::vector<Start> starts;
  std::vector<compiler::OutputSource> outputs;
  compiler::DonationPlan donations, guarded_donations;

  // For programs at other sizes: the commands that do not vary, and the usual variant of their
  // functions.
  std::vector<std::shared_ptr<const PreparedCommand>> fixed;
  std::vector<std::shared_ptr<Function>> functions;
  std::shared_ptr<Function> gather;

  bool IsFixed(size_t i) const { return !fixed.empty() && fixed[i]; }
  bool is_reordered() const { return !std::is_sorted(order.begin(), order.end()); }
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

/// The list in another order: element i is the one that was at order[i].
template <class T>
void Permute(std::vector<T>& list, const std::vector<int>& order) {
  std::vector<T> permuted;
  permuted.reserve(list.size());
  for (int from : order) permuted.push_back(std::move(list[from]));
  list = std::move(permuted);
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

Program::Program(std::shared_ptr<Machine> machine, AtSizes at)
    : machine_(std::move(machine)), at_(std::move(at)) {}

Program::Program(compiler::ScheduledGraph scheduled, std::shared_ptr<Machine> machine, AtSizes at,
                 int64_t spread_bytes, bool body)
    : Program(std::move(machine), std::move(at)) {
  arrangement_ = std::make_shared<Arrangement>();
  arrangement_->graph = std::move(scheduled.graph);
  arrangement_->schedule = std::move(scheduled.schedule);
  arrangement_->spread_bytes = spread_bytes;
  PrepareCommands(body);
  Arrange();
  scratch_ = ScratchOfCommands();
  if (auto plan = SpreadPlan(compiler::BytesOf(schedule()), spread_bytes)) plan_ = std::move(*plan);
  Finish();
}

Program::Program(const SavedProgram& saved, std::shared_ptr<Machine> machine)
    : Program(std::move(machine), AtSizes()) {
  arrangement_ = std::make_shared<Arrangement>();
  arrangement_->graph = *saved.graph;
  arrangement_->schedule = *saved.schedule;
  PrepareCommands();
  std::vector<std::vector<int>> groups;
  for (size_t i = 0; i < commands_.size(); ++i) {
    if (i == 0 || saved.group_last[i] != saved.group_last[i - 1]) groups.emplace_back();
    groups.back().push_back(static_cast<int>(i));
  }
  FormGroups(groups);
  scratch_ = ScratchOfCommands();
  plan_ = scratch_ == saved.scratch && group_last() == saved.group_last
              ? saved.plan
              : compiler::PlanMemory(schedule(), scratch_, group_last());
  Finish();
}

std::shared_ptr<Program> Program::Arranged(std::shared_ptr<const Arrangement> arrangement,
                                           std::shared_ptr<Machine> machine, AtSizes at) {
  std::shared_ptr<Program> program(new Program(std::move(machine), std::move(at)));
  program->arrangement_ = std::const_pointer_cast<Arrangement>(std::move(arrangement));
  return program->PrepareAsArranged() ? program : nullptr;
}

SavedProgram Program::Save() const {
  return {std::make_shared<const Graph>(graph()),
          std::make_shared<const compiler::Schedule>(schedule()), group_last(), scratch_, plan_};
}

void Program::Finish() {
  FindGuarded();
  FindStarts();
  LoadFunctions();
  arrangement_->outputs = compiler::FindOutputSources(schedule());
  FindDonations();
  if (!is_sized()) return;
  for (size_t i = 0; i < commands_.size(); ++i) {
    const bool varies = at_.Varies(arrangement_->order[i]);
    const bool guarded = IsUsuallyGuarded() && arrangement_->is_guarded[i];
    arrangement_->fixed.push_back(varies ? nullptr : commands_[i]);
    arrangement_->functions.push_back(varies ? nullptr : functions_[i].functions[guarded]);
  }
  arrangement_->gather = gather_;
}

void Program::FindDonations() {
  Arrangement& a = *arrangement_;
  compiler::Schedule distinct;
  const compiler::Schedule* schedule = &a.schedule;
  if (is_sized()) {
    distinct = at_.schedule->AtDistinctSizes();
    Permute(distinct.commands, a.order);
    schedule = &distinct;
  }
  a.donations = compiler::DonationPlan(a.graph, *schedule, a.group_last);
  a.guarded_donations = compiler::DonationPlan(a.graph, *schedule, a.group_last, a.is_guarded);
}

Program::~Program() = default;

const Graph& Program::graph() const { return arrangement_->graph; }
const compiler::Schedule& Program::schedule() const { return arrangement_->schedule; }
const std::vector<int>& Program::group_last() const { return arrangement_->group_last; }
int Program::fault_count() const { return arrangement_->fault_count; }
const std::vector<Program::Start>& Program::starts() const { return arrangement_->starts; }
const std::vector<compiler::OutputSource>& Program::outputs() const {
  return arrangement_->outputs;
}
const compiler::DonationPlan& Program::donations(bool guarded) const {
  return guarded ? arrangement_->guarded_donations : arrangement_->donations;
}

const compiler::Launch& Program::LaunchOf(size_t i) const {
  return commands_[i]->launch ? *commands_[i]->launch : schedule().commands[i].launch;
}

compiler::ScheduledGraph Program::AtOwnSizes() const {
  if (!is_sized()) return {graph(), schedule()};
  compiler::ScheduledGraph own = at_.schedule->At(at_.basis);
  Permute(own.schedule.commands, arrangement_->order);
  return own;
}

BufferMap<int64_t> Program::BufferBytes() const {
  return is_sized() ? at_.schedule->BytesAt(at_.basis) : compiler::BytesOf(schedule());
}

std::string Program::LargestBuffers() const {
  const compiler::ScheduledGraph own = AtOwnSizes();
  return compiler::LargestBuffers(own.graph, own.schedule);
}

std::shared_ptr<Program::PreparedCommand> Program::PreparedKernel(const compiler::Launch& launch,
                                                                  bool varies) {
  auto prepared = std::make_shared<PreparedCommand>();
  prepared->config = ConfigureLaunch(launch);
  // The variant for full rounds would be compiled in the middle of a run.
  if (varies) prepared->config.even = false;
  prepared->grid = GridOf(launch, prepared->config);
  return prepared;
}

std::shared_ptr<Program::PreparedCommand> Program::PreparedCall(const Graph& graph,
                                                                NodeId id) const {
  auto prepared = std::make_shared<PreparedCommand>();
  prepared->call = MakeCall(graph, id, {*machine_, at_.shared.get()});
  if (!prepared->call) {
    Throw<CompileError>(ErrorCode::kCompile, "cuda has no kernel for {}", graph[id].op->name());
  }
  return prepared;
}

void Program::PrepareCommands(bool body) {
  const size_t count = schedule().commands.size();
  arrangement_->commands.resize(count);
  arrangement_->order.resize(count);
  std::iota(arrangement_->order.begin(), arrangement_->order.end(), 0);
  arrangement_->group_last = arrangement_->order;
  functions_.resize(count);
  for (size_t i = 0; i < count; ++i) {
    const compiler::Command& command = schedule().commands[i];
    Arrangement::Command& facts = arrangement_->commands[i];
    NodeId id = command.is_call() ? command.node : command.nodes.back();
    facts.node = graph()[id].origin;
    facts.location = graph()[id].location;
    const bool varies = at_.Varies(static_cast<int>(i));
    if (!command.is_call()) {
      commands_.push_back(PreparedKernel(command.launch, varies));
      continue;
    }
    const bool fixed = is_sized() && !varies;
    std::shared_ptr<PreparedCommand> prepared;
    if (auto known = fixed ? at_.shared->FindCall(id) : nullptr) {
      prepared = std::make_shared<PreparedCommand>();
      prepared->call = std::move(known);
      prepared->has_functions = true;
    } else {
      prepared = PreparedCall(graph(), id);
      if (fixed) prepared->shared_as = id;
    }
    for (GraphValue input : graph()[id].inputs) {
      facts.operands.push_back(input.node ? schedule().BufferOf(compiler::StorageOf(graph(), input))
                                          : BufferId());
    }
    for (size_t r = 0; r < graph()[id].types.size(); ++r) {
      facts.results.push_back(schedule().BufferOf({id, static_cast<int32_t>(r)}));
    }
    facts.fault_count = prepared->call->fault_count();
    if (facts.fault_count > 0 && (body || CanFailLate(graph(), graph()[id]))) {
      facts.fault = std::exchange(arrangement_->fault_count, fault_count() + facts.fault_count);
    }
    commands_.push_back(std::move(prepared));
  }
}

bool Program::PrepareAsArranged() {
  const Arrangement& a = *arrangement_;
  commands_ = a.fixed;
  functions_.resize(commands_.size());
  gather_ = a.gather;
  for (size_t i = 0; i < commands_.size(); ++i) {
    if (commands_[i]) {
      functions_[i].functions[IsUsuallyGuarded() && a.is_guarded[i]] = a.functions[i];
      continue;
    }
    if (!a.schedule.commands[i].is_call()) {
      compiler::Launch launch = at_.schedule->LaunchAt(a.order[i], at_.basis);
      std::shared_ptr<PreparedCommand> prepared = PreparedKernel(launch, /*varies=*/true);
      prepared->launch = std::move(launch);
      commands_[i] = std::move(prepared);
      continue;
    }
    const Graph call = at_.schedule->CallAt(a.order[i], at_.basis);
    commands_[i] = PreparedCall(call, NodeId(call.size() - 1));
    if (commands_[i]->call->fault_count() != a.commands[i].fault_count) return false;
  }
  scratch_ = ScratchOfCommands();
  if (!PlanAsArranged()) return false;
  LoadFunctions();
  return true;
}

bool Program::PlanAsArranged() {
  const Arrangement& a = *arrangement_;
  const BufferMap<int64_t> bytes = BufferBytes();
  if (auto plan = SpreadPlan(bytes, a.spread_bytes)) {
    plan_ = std::move(*plan);
    return true;
  }
  plan_ = compiler::PlanMemory(a.schedule, bytes, scratch_, a.group_last);
  if (plan_.arena_bytes <= kFewBytes || !a.is_reordered()) return true;
  std::vector<int64_t> scratch(scratch_.size());
  for (size_t i = 0; i < scratch.size(); ++i) scratch[a.order[i]] = scratch_[i];
  return !TakesMuchMore(plan_, compiler::PlanMemory(at_.schedule->schedule(), bytes, scratch, {}));
}

std::vector<int64_t> Program::ScratchOfCommands() const {
  std::vector<int64_t> scratch;
  scratch.reserve(commands_.size());
  for (size_t i = 0; i < commands_.size(); ++i) {
    scratch.push_back(commands_[i]->call ? commands_[i]->call->scratch_bytes()
                                         : ScratchBytes(LaunchOf(i), commands_[i]->config));
  }
  return scratch;
}

void Program::Arrange() {
  plan_ = compiler::PlanMemory(schedule(), ScratchOfCommands());
  std::vector<bool> joins;
  for (const compiler::Command& command : schedule().commands) {
    bool may = !at_.Varies(static_cast<int>(joins.size()));
    joins.push_back(may && !command.is_call() && JointKernel::Takes(command.launch));
  }
  DeferWrites(joins);
  std::vector<std::vector<int>> groups = GroupCommands(schedule(), joins);
  if (groups.size() == commands_.size()) return;
  std::vector<int> order;
  for (const std::vector<int>& group : groups) {
    order.insert(order.end(), group.begin(), group.end());
  }
  Reorder(order);
  FormGroups(groups);
  compiler::MemoryPlan plan = compiler::PlanMemory(schedule(), ScratchOfCommands(), group_last());
  if (TakesMuchMore(plan, plan_)) {
    is_typical_ = false;
    for (auto& command : commands_) {
      if (!command->joint) continue;
      auto alone = std::make_shared<PreparedCommand>(*command);
      alone->joint.reset();
      command = std::move(alone);
    }
    std::iota(arrangement_->group_last.begin(), arrangement_->group_last.end(), 0);
    return Reorder(Inverse(order));
  }
  plan_ = std::move(plan);
}

void Program::DeferWrites(std::vector<bool>& joins) {
  std::vector<int> order = WriteLate(schedule(), LastFault());
  if (order.empty()) return;
  Reorder(order);
  compiler::MemoryPlan plan = compiler::PlanMemory(schedule(), ScratchOfCommands());
  if (TakesMuchMore(plan, plan_)) {
    is_typical_ = false;
    return Reorder(Inverse(order));
  }
  plan_ = std::move(plan);
  std::vector<bool> joins_before = joins;
  for (size_t i = 0; i < order.size(); ++i) joins[i] = joins_before[order[i]];
}

int Program::LastFault() const {
  int last = -1;
  for (size_t i = 0; i < commands_.size(); ++i) {
    if (arrangement_->commands[i].fault >= 0) last = static_cast<int>(i);
  }
  return last;
}

void Program::FindStarts() {
  BufferMap<int> input_of(schedule().buffers.size(), -1);
  for (size_t i = 0; i < schedule().inputs.size(); ++i) {
    input_of[schedule().inputs[i]] = static_cast<int>(i);
  }
  for (size_t i = 0; i < commands_.size(); ++i) {
    if (!commands_[i]->call) continue;
    NodeId start = StartInput(graph(), graph()[schedule().commands[i].node]);
    if (!start) continue;
    const int input = input_of[schedule().BufferOf({start, 0})];
    arrangement_->starts.push_back({static_cast<size_t>(input), i});
  }
}

void Program::CheckStart(const Start& start, int64_t value) const {
  std::optional<Call::Fault> fault = commands_[start.command]->call->CheckStart(value);
  if (!fault) return;
  const Arrangement::Command& facts = arrangement_->commands[start.command];
  lazy::ExecutionError error(fault->code, fault->message, facts.node);
  error.SetWhere(WhereText(facts.location));
  throw error;
}

void Program::FindGuarded() {
  Arrangement& a = *arrangement_;
  BufferMap<bool> is_output(a.schedule.buffers.size());
  for (BufferId buffer : a.schedule.outputs) is_output[buffer] = true;
  a.is_guarded.assign(commands_.size(), false);
  a.gathers_before = commands_.size();
  for (size_t i = LastFault() + 1, next = i; i < commands_.size(); i = next) {
    next = a.group_last[i] + 1;
    bool writes = false;
    for (size_t k = i; k < next; ++k) {
      for (BufferId buffer : a.schedule.commands[k].writes) writes = writes || is_output[buffer];
    }
    if (!writes || (commands_[i]->call && !commands_[i]->call->can_hold_back())) continue;
    for (size_t k = i; k < next; ++k) a.is_guarded[k] = true;
    a.gathers_before = std::min(a.gathers_before, i);
  }
}

std::optional<compiler::MemoryPlan> Program::SpreadPlan(const BufferMap<int64_t>& bytes,
                                                        int64_t most) const {
  const std::vector<compiler::Command>& commands = schedule().commands;
  bool updates = std::any_of(commands.begin(), commands.end(), [](const auto& command) {
    return static_cast<bool>(command.updates);
  });
  if (updates || commands.empty()) return std::nullopt;
  std::vector<int> to_the_end(commands.size(), static_cast<int>(commands.size()) - 1);
  compiler::MemoryPlan plan = compiler::PlanMemory(schedule(), bytes, scratch_, to_the_end);
  if (plan.arena_bytes > most) return std::nullopt;
  return plan;
}

void Program::Reorder(const std::vector<int>& order) {
  Permute(arrangement_->schedule.commands, order);
  Permute(arrangement_->commands, order);
  Permute(arrangement_->order, order);
  Permute(commands_, order);
}

void Program::FormGroups(const std::vector<std::vector<int>>& groups) {
  size_t first = 0;
  for (const std::vector<int>& group : groups) {
    std::vector<const compiler::Launch*> launches;
    for (size_t i = 0; i < group.size(); ++i) {
      launches.push_back(&schedule().commands[first + i].launch);
    }
    for (size_t size = 1; !launches.empty(); first += size) {
      size = 1;
      if (launches.size() > 1) {
        auto joint = std::make_shared<const JointKernel>(launches);
        size = joint->size();
        if (size > 1) {
          auto first_of_all = std::make_shared<PreparedCommand>(*commands_[first]);
          first_of_all->joint = std::move(joint);
          commands_[first] = std::move(first_of_all);
        }
      }
      std::fill_n(arrangement_->group_last.begin() + static_cast<ptrdiff_t>(first), size,
                  static_cast<int>(first + size) - 1);
      launches.erase(launches.begin(), launches.begin() + static_cast<ptrdiff_t>(size));
    }
  }
}

std::vector<KernelSource> Program::SourcesOf(size_t first, bool guarded) const {
  const PreparedCommand& command = *commands_[first];
  if (command.call) return command.call->Sources();
  if (command.joint) return {command.joint->source(guarded)};
  return {EmitCuda(*LaunchOf(first).kernel, command.config, guarded)};
}

KernelKey Program::KeyOf(size_t first, bool guarded) const {
  KernelKey key(guarded);
  if (commands_[first]->joint) {
    commands_[first]->joint->AddTo(key);
  } else {
    key.Add(LaunchOf(first).kernel.get(), commands_[first]->config);
  }
  return key;
}

std::shared_ptr<Function> Program::KnownKernel(size_t first, bool guarded) const {
  if (!at_.shared || commands_[first]->call) return nullptr;
  return at_.shared->FindKernel(KeyOf(first, guarded));
}

std::vector<KernelSource> Program::Sources() const {
  std::vector<KernelSource> sources;
  for (size_t i = 0; i < commands_.size(); i = group_last()[i] + 1) {
    const bool guarded = IsUsuallyGuarded() && arrangement_->is_guarded[i];
    for (KernelSource& source : SourcesOf(i, guarded)) sources.push_back(std::move(source));
    if (!commands_[i]->call) continue;
    for (const Program* program : commands_[i]->call->programs()) {
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
  for (size_t i = 0; i < commands_.size(); i = group_last()[i] + 1) {
    const bool guarded = IsUsuallyGuarded() && arrangement_->is_guarded[i];
    std::shared_ptr<Function>& function = functions_[i].functions[guarded];
    if (commands_[i]->has_functions || arrangement_->IsFixed(i)) continue;
    if ((function = KnownKernel(i, guarded))) continue;
    groups.push_back({i, {}});
    for (KernelSource& source : SourcesOf(i, guarded)) {
      groups.back().used.push_back(number_of(std::move(source)));
    }
  }
  const size_t gather = IsUsuallyGuarded() ? number_of(GatherSource()) : 0;
  std::vector<std::shared_ptr<Function>> functions = machine_->Load(sources);
  for (const auto& [first, used] : groups) {
    const PreparedCommand& command = *commands_[first];
    std::vector<std::shared_ptr<Function>> own;
    for (size_t number : used) own.push_back(functions[number]);
    if (command.call) {
      command.call->SetFunctions(std::move(own));
      if (command.shared_as) at_.shared->AddCall(command.shared_as, command.call);
      continue;
    }
    const bool guarded = IsUsuallyGuarded() && arrangement_->is_guarded[first];
    functions_[first].functions[guarded] = own[0];
    if (at_.shared) at_.shared->AddKernel(KeyOf(first, guarded), std::move(own[0]));
  }
  if (IsUsuallyGuarded()) gather_ = functions[gather];
}

void Program::LoadVariant(bool guarded) const {
  if (guarded == IsUsuallyGuarded()) return;
  std::call_once(other_variant_, [&] {
    std::vector<KernelSource> sources;
    std::vector<size_t> firsts;
    for (size_t i = 0; i < commands_.size(); i = group_last()[i] + 1) {
      if (!arrangement_->is_guarded[i] || commands_[i]->call) continue;
      if ((functions_[i].functions[guarded] = KnownKernel(i, guarded))) continue;
      firsts.push_back(i);
      sources.push_back(SourcesOf(i, guarded)[0]);
    }
    if (guarded) sources.push_back(GatherSource());
    std::vector<std::shared_ptr<Function>> functions = machine_->Load(sources);
    for (size_t k = 0; k < firsts.size(); ++k) {
      functions_[firsts[k]].functions[guarded] = functions[k];
      if (at_.shared) at_.shared->AddKernel(KeyOf(firsts[k], guarded), functions[k]);
    }
    if (guarded) gather_ = functions.back();
  });
}

int Program::kernels() const {
  return static_cast<int>(std::count_if(commands_.begin(), commands_.end(),
                                        [](const auto& command) { return !command->call; }));
}

int64_t Program::bytes() const {
  size_t bytes = plan_.offset.size() * sizeof(int64_t);
  for (size_t i = 0; i < commands_.size(); ++i) {
    if (arrangement_->IsFixed(i)) continue;
    bytes += sizeof(PreparedCommand) + LaunchOf(i).maps.size() * sizeof(compiler::AccessMap);
  }
  if (!is_sized() || !is_typical_) {  // else others share them
    bytes += graph().nodes().size() * sizeof(GraphNode) +
             commands_.size() * sizeof(compiler::Command) +
             schedule().buffers.size() * sizeof(compiler::BufferType);
  }
  return static_cast<int64_t>(bytes);
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
  BufferMap<Address> buffers(schedule().buffers.size());
  SetBuffers<Address>(schedule(), plan_, this->outputs(), inputs, outputs, arena, buffers);
  return buffers;
}

void Program::RunCommands(const Memory& memory) const {
  for (size_t i = 0; i < commands_.size();) {
    Gather(i, memory);
    i = RunGroup(i, memory);
  }
  Gather(commands_.size(), memory);
}

bool Program::GathersBefore(size_t i, const Memory& memory) const {
  return i == arrangement_->gathers_before && memory.gathers();
}

void Program::Gather(size_t i, const Memory& memory) const {
  if (!GathersBefore(i, memory)) return;
  const RunFaults& faults = memory.faults;
  GatherFaultsArgs args = {.failed = At(faults.failed),
                           .faults = At(faults.faults),
                           .count = fault_count(),
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
  for (size_t i = 0; i < commands_.size(); i = group_last()[i] + 1) {
    if (GathersBefore(i, *shared)) add([this, i, shared] { Gather(i, *shared); });
    add([this, i, shared] { RunGroup(i, *shared); });
  }
  const size_t end = commands_.size();
  if (GathersBefore(end, *shared)) add([this, end, shared] { Gather(end, *shared); });
  return pieces;
}

std::vector<TouchedMemory> Program::TouchedByPieces(const Memory& memory) const {
  std::vector<TouchedMemory> touched;
  const BufferMap<int64_t> bytes = BufferBytes();
  auto add_gather = [&](size_t i) {
    if (!GathersBefore(i, memory)) return;
    TouchedMemory words{{}, {{memory.faults.failed, 8}}};
    if (fault_count() > 0)
      words.reads.push_back({memory.faults.faults, int64_t{fault_count()} * 8});
    for (Address earlier : memory.faults.earlier) words.reads.push_back({earlier, 8});
    touched.push_back(std::move(words));
  };
  for (size_t i = 0; i < commands_.size(); i = group_last()[i] + 1) {
    add_gather(i);
    TouchedMemory all;
    if (memory.guarded() && arrangement_->is_guarded[i])
      all.reads.push_back({memory.faults.failed, 8});
    for (size_t k = i, end = group_last()[i] + 1; k < end; ++k) {
      TouchedMemory one = TouchedBy(k, memory, bytes);
      all.reads.insert(all.reads.end(), one.reads.begin(), one.reads.end());
      all.writes.insert(all.writes.end(), one.writes.begin(), one.writes.end());
    }
    touched.push_back(std::move(all));
  }
  add_gather(commands_.size());
  return touched;
}

TouchedMemory Program::TouchedBy(size_t i, const Memory& memory,
                                 const BufferMap<int64_t>& bytes) const {
  TouchedMemory touched;
  auto add = [&](std::vector<Bytes>& list, BufferId buffer) {
    if (bytes[buffer] > 0) list.push_back({memory.buffers[buffer], bytes[buffer]});
  };
  for (BufferId buffer : schedule().commands[i].reads) add(touched.reads, buffer);
  for (BufferId buffer : schedule().commands[i].writes) add(touched.writes, buffer);
  if (Address scratch = ScratchOf(i, memory)) {
    touched.writes.push_back({scratch, scratch_[i]});
  }
  if (arrangement_->commands[i].fault >= 0) touched.writes.push_back({FaultOf(i, memory), 8});
  // Kernels that count their blocks share the counters of the stream, also those of a loop.
  const compiler::Command& command = schedule().commands[i];
  bool counts =
      commands_[i]->config.split || (command.is_call() && graph()[command.node].op == &ops::kLoop);
  if (counts) touched.writes.push_back({kCounters, 1});
  return touched;
}

Address Program::FaultOf(size_t i, const Memory& memory) const {
  if (arrangement_->commands[i].fault < 0) return 0;
  return memory.faults.faults + static_cast<Address>(arrangement_->commands[i].fault) * 8;
}

Address Program::ScratchOf(size_t i, const Memory& memory) const {
  int64_t at = plan_.scratch_offset[i];
  return at < 0 ? 0 : memory.arena + static_cast<Address>(at);
}

std::vector<uint64_t> Program::ArgumentsOf(size_t i, const Memory& memory) const {
  const LaunchConfig& config = commands_[i]->config;
  return KernelArguments(LaunchOf(i), config, memory.buffers, ScratchOf(i, memory),
                         config.split ? machine_->Counters() : 0);
}

size_t Program::RunGroup(size_t i, const Memory& memory) const {
  const PreparedCommand& command = *commands_[i];
  const bool guarded = memory.guarded() && arrangement_->is_guarded[i];
  auto launch = [&](const Grid& grid, std::vector<uint64_t> arguments) {
    if (guarded) arguments.push_back(memory.faults.failed);
    machine_->Launch(*functions_[i].functions[guarded], grid, arguments);
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
  return group_last()[i] + 1;
}

void Program::RunAlone(size_t i, const Memory& memory) const {
  const PreparedCommand& command = *commands_[i];
  bool grouped = command.joint || (i > 0 && group_last()[i - 1] == group_last()[i]);
  if (!grouped) {
    RunGroup(i, memory);
    return;
  }
  NameErrors(i, [&] {
    const compiler::Launch& launch = LaunchOf(i);
    const bool guarded = memory.guarded() && arrangement_->is_guarded[i];
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
    lazy::ExecutionError at_node(error.code(),
                                 fmt::format("{}: {}", NameOfCommand(i), error.message()),
                                 arrangement_->commands[i].node);
    at_node.SetWhere(WhereText(arrangement_->commands[i].location));
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
      here.SetWhere(WhereText(arrangement_->commands[i].location));
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
  return compiler::NameOfCommand(graph(), schedule().commands[i]);
}

std::string Program::NameOfGroup(size_t first) const {
  int others = group_last()[first] - static_cast<int>(first);
  return NameOfCommand(first) + (others > 0 ? fmt::format("_and_{}_concurrent", others) : "");
}

std::string Program::NamesOfCommands() const {
  constexpr size_t kMost = 6;
  std::string names;
  for (size_t i = 0; i < commands_.size() && i < kMost; ++i) {
    std::string where = LocationText(arrangement_->commands[i].location);
    names += fmt::format("{}{}{}", i == 0 ? "" : ", ", NameOfCommand(i),
                         where.empty() ? "" : " at " + where);
  }
  if (commands_.size() > kMost) names += fmt::format(" and {} more", commands_.size() - kMost);
  return names;
}

std::string Program::Where() const {
  for (const Arrangement::Command& command : arrangement_->commands) {
    if (std::string where = WhereText(command.location); !where.empty()) return where;
  }
  return "";
}

void Program::RunCall(size_t i, const Memory& memory) const {
  const PreparedCommand& command = *commands_[i];
  std::vector<Address> in, out;
  const Arrangement::Command& facts = arrangement_->commands[i];
  for (BufferId buffer : facts.operands) in.push_back(buffer ? memory.buffers[buffer] : 0);
  for (BufferId buffer : facts.results) out.push_back(memory.buffers[buffer]);
  const Address failed = arrangement_->is_guarded[i] ? memory.faults.failed : 0;
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
  for (size_t i = 0; i < commands_.size(); ++i) {
    const Arrangement::Command& command = arrangement_->commands[i];
    if (command.fault < 0) continue;
    std::optional<Call::Fault> fault = commands_[i]->call->FindFault(faults + command.fault);
    if (!fault) continue;
    if (fault->where.empty()) fault->where = WhereText(command.location);
    if (node) *node = command.node;
    return fault;
  }
  return std::nullopt;
}

std::string Program::ToText(std::string_view what) const {
  const compiler::ScheduledGraph own = AtOwnSizes();
  std::string text = DescribePlan(own.graph, own.schedule, plan_);
  for (size_t i = 0; i < commands_.size(); i = group_last()[i] + 1) {
    if (commands_[i]->call) continue;
    if (commands_[i]->joint) {
      text += fmt::format("commands {} to {} in one launch\n", i, group_last()[i]);
    } else {
      text += fmt::format("command {}: {}", i, cuda::ToText(commands_[i]->config));
    }
    if (what == "schedule") continue;
    KernelSource source = commands_[i]->joint ? commands_[i]->joint->source()
                                              : EmitCuda(*LaunchOf(i).kernel, commands_[i]->config);
    std::string assembly = what == "ptx" ? machine_->Assembly(source) : "";
    text += assembly.empty() ? source.text : assembly;
  }
  return text;
}

lazy::ComputationInfo Program::Describe() const {
  const compiler::ScheduledGraph own = AtOwnSizes();
  lazy::ComputationInfo info{own.graph, compiler::DescribeCommands(own.graph, own.schedule),
                             plan_.peak_bytes()};
  for (size_t i = 0; i < commands_.size(); ++i) {
    if (commands_[i]->call) continue;
    info.kernels[i].text += "\n" + EmitCuda(*LaunchOf(i).kernel, commands_[i]->config).text;
  }
  return info;
}

}  // namespace hammock::cuda
