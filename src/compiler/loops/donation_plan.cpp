#include "hammock/compiler/donation_plan.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <queue>
#include <tuple>

#include "compiler/facts/effects.h"
#include "compiler/facts/fusion_facts.h"
#include "compiler/loops/overwritable.h"
#include "hammock/compiler/program_outputs.h"

namespace hammock::compiler {
namespace {

bool Contains(const std::vector<BufferId>& list, BufferId buffer) {
  return std::find(list.begin(), list.end(), buffer) != list.end();
}

/// The inputs that a command may overwrite with `output`: it reads each element before it writes
/// it.
std::vector<BufferId> Overwritable(const Graph& graph, const Schedule& schedule,
                                   const Command& command, BufferId output) {
  if (command.updates) return {command.updates};
  std::vector<BufferId> result = OverwrittenBy(command, output);
  if (command.is_call()) {  // a contraction reads its operands until the end
    for (GraphValue operand : graph[command.node].inputs) {
      if (operand.node) std::erase(result, schedule.BufferOf(StorageOf(graph, operand)));
    }
  }
  return result;
}

/// Buffers that a kernel computes what it stores from, as they are before it.
std::vector<BufferId> SourcesOf(const Launch& launch, const Instr& store) {
  const std::vector<Instr>& instrs = launch.kernel->instrs;
  std::vector<bool> is_needed(instrs.size());
  std::vector<BufferId> sources;
  for (int operand : store.operands) {
    if (operand >= 0) is_needed[operand] = true;
  }
  for (size_t i = instrs.size(); i-- > 0;) {
    if (!is_needed[i]) continue;
    if (instrs[i].kind == Instr::Kind::kLoad) {
      sources.push_back(launch.maps[instrs[i].access].buffer);
    }
    for (int operand : instrs[i].operands) {
      if (operand >= 0) is_needed[operand] = true;
    }
  }
  return sources;
}

/// When a buffer is used.
struct Uses {
  int writer = -1;
  int last_reader = -1;
  int reader_before = -1;  // the last reader but one
};

BufferMap<Uses> UsesOf(const Schedule& schedule) {
  BufferMap<Uses> uses(schedule.buffers.size());
  for (size_t i = 0; i < schedule.commands.size(); ++i) {
    for (BufferId buffer : schedule.commands[i].reads) {
      Uses& of = uses[buffer];
      of.reader_before = of.last_reader;
      of.last_reader = static_cast<int>(i);
    }
    for (BufferId buffer : schedule.commands[i].writes) uses[buffer].writer = static_cast<int>(i);
  }
  return uses;
}

/// For each command the first of those that may run at the same time.
std::vector<int> GroupFirsts(size_t commands, const std::vector<int>& group_last) {
  std::vector<int> first(commands);
  if (group_last.empty()) {
    std::iota(first.begin(), first.end(), 0);
    return first;
  }
  for (size_t i = 0; i < first.size(); ++i) {
    bool begins = i == 0 || group_last[i - 1] != group_last[i];
    first[i] = begins ? static_cast<int>(i) : first[i - 1];
  }
  return first;
}

int LastThatFails(const Graph& graph, const Schedule& schedule) {
  for (size_t i = schedule.commands.size(); i-- > 0;) {
    const Command& command = schedule.commands[i];
    if (command.is_call() && CanFailLate(graph, graph[command.node])) return static_cast<int>(i);
  }
  return -1;
}

/// The properties in which two memory blocks must agree.
using Size = std::pair<int64_t, int>;  // bytes, bits of an element

Size SizeOf(const BufferType& type) { return {type.bytes(), InfoOf(type.dtype()).bits}; }

}  // namespace

struct DonationPlan::Builder {
  const Graph& graph;
  const Schedule& schedule;
  BufferMap<Uses> uses;
  std::vector<int> group_first;
  const std::vector<bool>& may_write;
  int last_that_fails;
  BufferMap<int> input_of;  // the input that it is and no output is; -1: none
  std::map<Size, int> pool_of;
  DonationPlan& plan;

  void FindInputs() {
    input_of.assign(schedule.buffers.size(), -1);
    for (size_t i = 0; i < schedule.inputs.size(); ++i) {
      input_of[schedule.inputs[i]] = static_cast<int>(i);
    }
    for (BufferId buffer : schedule.outputs) input_of[buffer] = -1;
    for (BufferId buffer : schedule.inputs) {
      Size size = SizeOf(schedule.buffers[buffer]);
      if (input_of[buffer] < 0 || size.first == 0) continue;
      auto [pool, added] = pool_of.try_emplace(size, static_cast<int>(plan.pools_.size()));
      if (added) plan.pools_.emplace_back();
      plan.pools_[pool->second].push_back(input_of[buffer]);
    }
    for (std::vector<int>& pool : plan.pools_) {
      std::stable_sort(pool.begin(), pool.end(),
                       [&](int a, int b) { return LastReader(a) < LastReader(b); });
    }
  }

  int LastReader(int input) const { return uses[schedule.inputs[input]].last_reader; }

  void AddOutput(size_t number) {
    const BufferId buffer = schedule.outputs[number];
    const Size size = SizeOf(schedule.buffers[buffer]);
    const int writer = uses[buffer].writer;
    auto pool = pool_of.find(size);
    if (writer < 0 || writer < last_that_fails || pool == pool_of.end()) return;
    if (!may_write.empty() && !may_write[writer]) return;
    const int first = group_first[writer];
    const std::vector<int> own = OwnInputs(writer, buffer, size);
    const std::vector<int> updated = UpdatedInputs(schedule.commands[writer], buffer, own);
    Output output{.number = static_cast<int>(number),
                  .pool = pool->second,
                  .first = static_cast<int>(plan.inputs_.size()),
                  .own = static_cast<int>(own.size()),
                  .updated = static_cast<int>(updated.size())};
    plan.inputs_.insert(plan.inputs_.end(), own.begin(), own.end());
    plan.inputs_.insert(plan.inputs_.end(), updated.begin(), updated.end());
    if (writer > last_that_fails) {
      const std::vector<int>& inputs = plan.pools_[pool->second];
      auto dead = std::partition_point(inputs.begin(), inputs.end(),
                                       [&](int input) { return LastReader(input) < first; });
      output.dead = static_cast<int>(dead - inputs.begin());
    }
    plan.outputs_.push_back(output);
  }

  /// The inputs in `own` that the command computes the output from.
  std::vector<int> UpdatedInputs(const Command& command, BufferId buffer,
                                 const std::vector<int>& own) const {
    const Instr* store =
        !command.updates && !own.empty() ? StoreOf(command.launch, buffer) : nullptr;
    if (!store) return own;
    const std::vector<BufferId> sources = SourcesOf(command.launch, *store);
    std::vector<int> updated;
    for (int input : own) {
      if (Contains(sources, schedule.inputs[input])) updated.push_back(input);
    }
    return updated;
  }

  /// Inputs that the command reads last, which no concurrent command reads.
  std::vector<int> OwnInputs(int writer, BufferId buffer, const Size& size) const {
    const Command& command = schedule.commands[writer];
    std::vector<int> own;
    for (BufferId read : Overwritable(graph, schedule, command, buffer)) {
      const Uses& of = uses[read];
      bool last = of.last_reader == writer && of.reader_before < group_first[writer];
      if (!last || input_of[read] < 0) continue;
      if (SizeOf(schedule.buffers[read]) != size) continue;
      if (writer == last_that_fails && command.updates != read) continue;
      own.push_back(input_of[read]);
    }
    std::sort(own.begin(), own.end());
    return own;
  }
};

DonationPlan::DonationPlan(const Graph& graph, const Schedule& schedule,
                           const std::vector<int>& group_last, const std::vector<bool>& may_write) {
  Builder builder{graph,
                  schedule,
                  UsesOf(schedule),
                  GroupFirsts(schedule.commands.size(), group_last),
                  may_write,
                  LastThatFails(graph, schedule),
                  {},
                  {},
                  *this};
  builder.FindInputs();
  std::vector<OutputSource> sources = FindOutputSources(schedule);
  output_count_ = sources.size();
  for (size_t i = 0; i < sources.size(); ++i) {
    if (sources[i].input < 0 && sources[i].same < 0) builder.AddOutput(i);
  }
  auto writer = [&](const Output& output) {
    return builder.uses[schedule.outputs[output.number]].writer;
  };
  std::stable_sort(outputs_.begin(), outputs_.end(),
                   [&](const Output& a, const Output& b) { return writer(a) < writer(b); });
  outputs_.shrink_to_fit();
  inputs_.shrink_to_fit();
}

std::span<const int> DonationPlan::OwnOf(const Output& output) const {
  return std::span(inputs_).subspan(output.first, output.own);
}

std::span<const int> DonationPlan::UpdatedBy(const Output& output) const {
  return std::span(inputs_).subspan(output.first + output.own, output.updated);
}

std::vector<int> DonationPlan::Match(const std::vector<bool>& donated) const {
  /// The inputs of a pool that are dead and not taken, the first one first.
  struct Free {
    int seen = 0;
    std::priority_queue<int, std::vector<int>, std::greater<>> inputs;
  };
  std::vector<int> taken(output_count_, -1);
  std::vector<bool> left = donated;
  auto is_left = [&](int input) { return input < std::ssize(left) && left[input]; };
  auto take = [&](const Output& output, int input) {
    taken[output.number] = input;
    left[input] = false;
  };
  for (const Output& output : outputs_) {
    const std::span<const int> inputs = UpdatedBy(output);
    auto updated = std::ranges::find_if(inputs, is_left);
    if (updated != inputs.end()) take(output, *updated);
  }
  std::vector<Free> free(pools_.size());
  for (const Output& output : outputs_) {
    if (taken[output.number] >= 0) continue;
    const std::span<const int> inputs = OwnOf(output);
    auto own = std::ranges::find_if(inputs, is_left);
    int input = own != inputs.end() ? *own : -1;
    Free& dead = free[output.pool];
    const std::vector<int>& pool = pools_[output.pool];
    for (; dead.seen < output.dead; ++dead.seen) {
      if (is_left(pool[dead.seen])) dead.inputs.push(pool[dead.seen]);
    }
    while (input < 0 && !dead.inputs.empty()) {
      if (is_left(dead.inputs.top())) input = dead.inputs.top();
      dead.inputs.pop();
    }
    if (input >= 0) take(output, input);
  }
  return taken;
}

}  // namespace hammock::compiler
