#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "backends/cuda/arrangement.h"
#include "backends/cuda/calls/call_kit.h"
#include "backends/cuda/calls/device_kernel.h"
#include "backends/cuda/device/program_args.h"
#include "backends/cuda/failure_dump.h"
#include "backends/cuda/program.h"
#include "base/never_destroyed.h"
#include "base/tools.h"
#include "hammock/config.h"
#include "hammock/distributed.h"
#include "hammock/lazy/collectives.h"
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

constexpr Address kCounters = 1;  // stands for the counters of the stream

}  // namespace

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
  if (tools::IsOn(tools::kNvtx) || arrangement_->has_collectives) [[unlikely]]
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
  compiler::SetBuffers<Address>(schedule(), plan_, this->outputs(), inputs, outputs, arena,
                                buffers);
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

bool Program::IsExchange(size_t i) const {
  const compiler::Command& command = schedule().commands[i];
  if (!command.is_call()) return false;
  const GraphNode& node = graph()[command.node];
  return IsCollective(*node.op) && node.attr("size").integer() > 1;
}

// Values that a failed op has left must not reach other ranks, which would succeed with them. So
// the host waits for checks that stand before an exchange; an error that it raises here ends the
// step on all ranks. Runs whose arguments may have failed have waited for them before
// (Execution::Run).
void Program::CheckBeforeExchange(size_t i, const Memory& memory) const {
  if (!arrangement_->has_collectives || !IsExchange(i)) return;
  bool unchecked = false;
  for (size_t k = i; k > 0 && !IsExchange(k - 1); --k) {
    unchecked = unchecked || arrangement_->commands[k - 1].fault >= 0;
  }
  if (!unchecked || memory.faults.faults == 0) return;
  machine_->WaitFor(*machine_->RecordEvent());
  CheckFaults(reinterpret_cast<const uint64_t*>(memory.faults.faults));
}

size_t Program::RunGroup(size_t i, const Memory& memory) const {
  CheckBeforeExchange(i, memory);
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
  } catch (const distributed::DistributedError&) {
    throw;  // by another rank
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

void Program::RunCall(size_t i, const Memory& memory) const {
  const PreparedCommand& command = *commands_[i];
  std::vector<Address> in, out;
  const Arrangement::Command& facts = arrangement_->commands[i];
  for (BufferId buffer : facts.operands) in.push_back(buffer ? memory.buffers[buffer] : 0);
  for (BufferId buffer : facts.results) out.push_back(memory.buffers[buffer]);
  const Address failed = arrangement_->is_guarded[i] ? memory.faults.failed : 0;
  command.call->Run(*machine_, {in, out, ScratchOf(i, memory), FaultOf(i, memory), failed});
}

void Program::CheckStart(const SliceStart& start, int64_t value) const {
  std::optional<Call::Fault> fault = commands_[start.command]->call->CheckStart(value);
  if (!fault) return;
  const Arrangement::Command& facts = arrangement_->commands[start.command];
  lazy::ExecutionError error(fault->code, fault->message, facts.node);
  error.SetWhere(WhereText(facts.location));
  throw error;
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

}  // namespace hammock::cuda
