#include "backends/cuda/program.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "backends/common/collectives.h"
#include "backends/cuda/arrangement.h"
#include "backends/cuda/calls/device_kernel.h"
#include "backends/cuda/concurrent_commands.h"
#include "backends/cuda/device/program_args.h"
#include "backends/cuda/passes/cuda_passes.h"
#include "backends/cuda/passes/late_writes.h"
#include "base/never_destroyed.h"
#include "base/throw.h"
#include "compiler/facts/effects.h"
#include "compiler/facts/fusion_facts.h"
#include "compiler/loops/show_groups.h"

namespace hammock::cuda {

using compiler::BufferId;
using compiler::BufferMap;

namespace {

constexpr int64_t kFewBytes = 32 << 20;  // that concurrent kernels may take in addition

const KernelSource& GatherSource() {
  static const auto& source =
      NeverDestroyed<KernelSource>(SourceOf({.file = "program.cuh",
                                             .function = "gather_faults",
                                             .argument_bytes = sizeof(GatherFaultsArgs)}));
  return source;
}

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

Program::Program(const SavedProgram& saved, std::shared_ptr<Machine> machine, bool body)
    : Program(std::move(machine), AtSizes()) {
  arrangement_ = std::make_shared<Arrangement>();
  arrangement_->graph = *saved.graph;
  arrangement_->schedule = *saved.schedule;
  PrepareCommands(body);
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

void Program::AddBodies(std::vector<const Program*>& bodies) const {
  for (const auto& command : commands_) {
    if (!command->call) continue;
    for (const Program* body : command->call->programs()) {
      bodies.push_back(body);
      body->AddBodies(bodies);
    }
  }
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
bool Program::has_collectives() const { return arrangement_->has_collectives; }
const std::vector<SliceStart>& Program::starts() const { return arrangement_->starts; }
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

std::shared_ptr<PreparedCommand> Program::PreparedKernel(const compiler::Launch& launch,
                                                         bool varies) {
  auto prepared = std::make_shared<PreparedCommand>();
  prepared->config = ConfigureLaunch(launch);
  // The variant for full iterations would be compiled in the middle of a run.
  if (varies) prepared->config.even = false;
  prepared->grid = GridOf(launch, prepared->config);
  return prepared;
}

std::shared_ptr<PreparedCommand> Program::PreparedCall(const Graph& graph, NodeId id) const {
  auto prepared = std::make_shared<PreparedCommand>();
  prepared->call = MakeCall(graph, id, {*machine_, at_.shared.get()});
  if (!prepared->call) {
    Throw<CompileError>(ErrorCode::kCompile, "cuda has no kernel for {}", graph[id].op->name());
  }
  return prepared;
}

void Program::PrepareCommands(bool body) {
  const size_t count = schedule().commands.size();
  arrangement_->has_collectives = HasCollectives(graph());
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
      prepared->launch = std::make_shared<const compiler::Launch>(std::move(launch));
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
  compiler::ShowGroups(graph(), schedule(), group_last());
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
  compiler::ShowSchedule("write_late", graph(), schedule());
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

}  // namespace hammock::cuda
