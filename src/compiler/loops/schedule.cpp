#include "hammock/compiler/schedule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "base/throw.h"
#include "compiler/facts/effects.h"
#include "compiler/loops/attach_epilogues.h"
#include "compiler/loops/kernel_builder.h"
#include "compiler/loops/rematerialise.h"
#include "compiler/loops/share_kernels.h"
#include "compiler/loops/stream_results.h"
#include "compiler/passes/arg_reductions.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/remove_dead.h"
#include "compiler/passes/split_reductions.h"
#include "ir/id_format.h"
#include "ir/primitives.h"

namespace hammock::compiler {
namespace {

constexpr size_t kMaxInstrs = 160;    // of a kernel that still takes nests
constexpr int kMaxBetween = 48;       // inlined nodes that one root is computed from
constexpr int kKeepCost = 3;          // from here on it pays to keep a value that has several users
constexpr size_t kMaxNeighbours = 4;  // kernels that are tried for a nest that none of them feeds
// Rows of a kernel are what threads share: few long rows would leave them without work.
constexpr int64_t kFewRows = 8;
constexpr int64_t kLongRow = 4096;
constexpr int64_t kLongReduction = 1024;
constexpr int64_t kLargePermute = 1024;  // elements from which on a copy by tiles pays

class Scheduler {
 public:
  Scheduler(const Graph& graph, bool aligned_outputs, bool epilogues, bool rows_apart)
      : graph_(graph),
        aligned_outputs_(aligned_outputs),
        epilogues_(epilogues),
        rows_apart_(rows_apart),
        facts_(graph),
        command_of_(graph.size(), -1),
        found_(graph.size()) {
    std::array<int, kMaxNeighbours> none;
    none.fill(-1);
    last_readers_.assign(graph.size(), none);
  }

  Schedule Make() {
    for (NodeId id : graph_.ids()) {
      if (IsCall(id) || graph_[id].op == &ops::kInput) facts_.is_root[id] = true;
    }
    NameWhatMustBeInMemory();
    NameWhatIsUsedOften();
    PlaceNumbersOfInputs();
    for (NodeId id : graph_.ids()) {
      if (!facts_.is_root[id] || graph_[id].op == &ops::kInput) continue;
      if (IsCall(id) || IsTransposingCopy(id) || IsBitsInMemory(id)) {
        PlaceCall(id);
      } else {
        PlaceNest(id);
      }
    }
    return Finish();
  }

 private:
  struct Open {
    NodeId call;
    std::unique_ptr<KernelBuilder> kernel;
    std::vector<NodeId> needs;  // roots that it reads
  };

  bool IsCall(NodeId id) const { return !IsInKernels(graph_, id) && graph_[id].op != &ops::kInput; }

  /// Whether it is a large permute that moves another dim to the end; of a root whose operand
  /// is in memory a call makes a copy by tiles, where a kernel would read single elements.
  bool IsLargeTranspose(NodeId id) const {
    const GraphNode& node = graph_[id];
    if (node.op != &ops::kPermute || node.type().numel() < kLargePermute) return false;
    const std::vector<int64_t>& dims = node.attrs[0].ints();
    const Dims& sizes = graph_.TypeOf(node.inputs[0]).sizes();
    int last_out = static_cast<int>(dims.size()) - 1;
    while (last_out > 0 && sizes[static_cast<int>(dims[last_out])] == 1) {
      --last_out;
    }
    int last_in = sizes.size() - 1;
    while (last_in > 0 && sizes[last_in] == 1) --last_in;
    return dims[last_out] != last_in;
  }

  bool IsTransposingCopy(NodeId id) const {
    return IsLargeTranspose(id) && facts_.is_root[StorageOf(graph_, graph_[id].inputs[0]).node];
  }

  /// Whether its bytes are those of its first operand.
  bool PassesBytesOn(NodeId id) const {
    const OpDef* op = graph_[id].op;
    return op == &ops::kBarrier || op == &ops::kRequire || op == &ops::kBitcast;
  }

  /// Whether it is a bitcast of something in memory. Truth values have bytes of their own.
  bool IsBitsInMemory(NodeId id) const {
    const GraphNode& node = graph_[id];
    return node.op == &ops::kBitcast && node.type().dtype() != DType::kBool &&
           graph_.TypeOf(node.inputs[0]).dtype() != DType::kBool &&
           facts_.is_root[StorageOf(graph_, node.inputs[0]).node];
  }

  // ---- names

  void MakeRoot(GraphValue value) { facts_.is_root[StorageOf(graph_, value).node] = true; }

  void NameWhatMustBeInMemory() {
    for (NodeId id : graph_.ids()) {
      if (ReductionOf(graph_[id]) || IsPair(graph_[id])) facts_.is_root[id] = true;
      if (!IsCall(id)) continue;
      for (GraphValue input : graph_[id].inputs) {
        if (input.node) MakeRoot(input);
      }
    }
    for (GraphValue output : graph_.outputs()) MakeRoot(output);
    for (NodeId id : graph_.ids().reversed()) {
      if (!facts_.is_root[id] || !IsLargeTranspose(id)) continue;
      GraphValue operand = StorageOf(graph_, graph_[id].inputs[0]);
      if (IsPointwise(graph_, graph_[operand.node])) MakeRoot(operand);
    }
  }

  void NameWhatIsUsedOften() {
    NodeMap<int> uses(graph_.size());
    std::vector<NodeId> operands;
    for (NodeId id : graph_.ids().reversed()) {
      operands.clear();
      for (GraphValue input : graph_[id].inputs) {
        if (input.node) operands.push_back(input.node);
      }
      std::sort(operands.begin(), operands.end());
      operands.erase(std::unique(operands.begin(), operands.end()), operands.end());
      int count = IsView(graph_[id]) && !facts_.is_root[id] ? std::min(uses[id], 2) : 1;
      for (NodeId operand : operands) uses[operand] += count;
    }
    NodeMap<int> cost(graph_.size());     // of computing an element once more
    NodeMap<int> between(graph_.size());  // nodes that would do it
    for (NodeId id : graph_.ids()) {
      const GraphNode& node = graph_[id];
      if (facts_.is_root[id] && (IsCall(id) || node.op == &ops::kInput)) continue;
      for (GraphValue input : node.inputs) {
        if (facts_.is_root[input.node]) continue;
        cost[id] += cost[input.node];
        between[id] += between[input.node];
      }
      bool stretches = node.op == &ops::kBroadcast &&
                       node.type().numel() > graph_.TypeOf(node.inputs[0]).numel();
      if (stretches && cost[id] >= kKeepCost) {
        facts_.is_root[StorageOf(graph_, node.inputs[0]).node] = true;
        cost[id] = between[id] = 0;
      }
      cost[id] += InfoOf(node.op->scalar).cost;
      ++between[id];
      if (IsView(node) || IsGenerated(node)) continue;
      bool kept = uses[id] > 1 && cost[id] >= kKeepCost;
      if (kept || between[id] > kMaxBetween) facts_.is_root[id] = true;
    }
  }

  // ---- commands

  /// The roots that a nest reads.
  std::vector<NodeId> NeedsOf(NodeId id) {
    std::vector<NodeId> needs;
    std::vector<NodeId> pending = {id};
    ++search_;
    while (!pending.empty()) {
      NodeId next = pending.back();
      pending.pop_back();
      for (GraphValue input : graph_[next].inputs) {
        if (!input.node || std::exchange(found_[input.node], search_) == search_) {
          continue;
        }
        (facts_.is_root[input.node] ? needs : pending).push_back(input.node);
      }
    }
    return needs;
  }

  int LastOf(const std::vector<NodeId>& needs) const {
    int last = -1;
    for (NodeId need : needs) last = std::max(last, command_of_[need]);
    return last;
  }

  /// Numbers that follow from inputs alone, such as the rate of an optimiser's step, come before
  /// all else: a kernel takes a nest that needs them only if they are there before the kernel.
  void PlaceNumbersOfInputs() {
    NodeMap<bool> is_number(graph_.size());
    for (NodeId id : graph_.ids()) {
      const GraphNode& node = graph_[id];
      is_number[id] = !IsCall(id) && !IsBitsInMemory(id) && node.types.size() == 1 &&
                      node.type().numel() == 1 &&
                      std::all_of(node.inputs.begin(), node.inputs.end(), [&](GraphValue input) {
                        return input.node && is_number[input.node];
                      });
      if (is_number[id] && facts_.is_root[id] && node.op != &ops::kInput) PlaceNest(id);
    }
  }

  void PlaceCall(NodeId id) {
    Open open;
    open.call = id;
    for (GraphValue input : graph_[id].inputs) {
      if (input.node) open.needs.push_back(StorageOf(graph_, input).node);
    }
    // Bits of an input are there before any command, whatever their place in the order.
    if (!IsBitsOfInput(id)) command_of_[id] = static_cast<int>(open_.size());
    open_.push_back(std::move(open));
  }

  bool IsBitsOfInput(NodeId id) const {
    if (!IsBitsInMemory(id)) return false;
    NodeId storage = StorageOf(graph_, graph_[id].inputs[0]).node;
    return graph_[storage].op == &ops::kInput || IsBitsOfInput(storage);
  }

  void PlaceNest(NodeId id) {
    if (command_of_[id] >= 0) return;  // placed before, for one that needed it
    std::vector<NodeId> needs = NeedsOf(id);
    int last = LastOf(needs);
    if (last >= 0 && Join(last, id, needs)) return;
    for (int command : Neighbours(needs)) {
      if (command > last && IsCloseTo(command, id, needs) && Join(command, id, needs)) return;
    }
    StartKernel(id);
  }

  /// The last kernels that read one of these, the latest first.
  std::vector<int> Neighbours(const std::vector<NodeId>& needs) const {
    std::vector<int> commands;
    for (NodeId need : needs) {
      for (int command : last_readers_[need]) {
        if (command >= 0) commands.push_back(command);
      }
    }
    std::sort(commands.begin(), commands.end(), std::greater<>());
    commands.erase(std::unique(commands.begin(), commands.end()), commands.end());
    if (commands.size() > kMaxNeighbours) commands.resize(kMaxNeighbours);
    return commands;
  }

  /// Whether a nest gains by joining a kernel that it only shares operands with. A third reduction
  /// does not if none of those has all of its elements, as matmuls with one vector: each would need
  /// registers of its own.
  bool IsCloseTo(int command, NodeId id, const std::vector<NodeId>& needs) const {
    const Open& open = open_[command];
    if (!open.kernel || !ReductionOf(graph_[id]) || open.kernel->reductions() < 2) return true;
    const int64_t elements = graph_.TypeOf(graph_[id].inputs[0]).numel();
    return std::any_of(needs.begin(), needs.end(), [&](NodeId need) {
      return graph_[need].types[0].numel() >= elements &&
             std::find(open.needs.begin(), open.needs.end(), need) != open.needs.end();
    });
  }

  void AddNeeds(int command, const std::vector<NodeId>& needs) {
    std::vector<NodeId>& all = open_[command].needs;
    all.insert(all.end(), needs.begin(), needs.end());
    for (NodeId need : needs) {
      auto& readers = last_readers_[need];  // the latest first
      auto at = std::lower_bound(readers.begin(), readers.end(), command, std::greater<>());
      if (at == readers.end() || *at == command) continue;
      std::move_backward(at, std::prev(readers.end()), readers.end());
      *at = command;
    }
  }

  bool Join(int command, NodeId id, const std::vector<NodeId>& needs) {
    KernelBuilder* kernel = open_[command].kernel.get();
    if (!kernel || kernel->size() > kMaxInstrs || !LeavesWork(*kernel, id)) return false;
    if (KeepsFromContraction(open_[command], id)) return false;
    if (rows_apart_ && IsWorkOfRows(*kernel, id, needs)) return false;
    if (!kernel->Add(id)) return false;
    command_of_[id] = command;
    AddNeeds(command, needs);
    return true;
  }

  /// Whether a nest works on results of long reductions and on inputs of their size, as the update
  /// of a bias does: few threads would do it, after all others.
  bool IsWorkOfRows(const KernelBuilder& kernel, NodeId id,
                    const std::vector<NodeId>& needs) const {
    if (!kernel.reduces() || ReductionOf(graph_[id]) || kernel.columns() < kLongReduction) {
      return false;
    }
    const int64_t rows = kernel.rows();
    return rows > 1 && graph_[id].type().numel() == rows &&
           std::any_of(needs.begin(), needs.end(), [&](NodeId need) {
             return graph_[need].op == &ops::kInput && graph_[need].type().numel() == rows;
           });
  }

  /// Whether a kernel that could follow a contraction on parts of its result no longer could, if
  /// the nest joins: it would reduce over parts.
  bool KeepsFromContraction(const Open& open, NodeId id) const {
    const GraphNode& node = graph_[id];
    if (!epilogues_ || !ReductionOf(node) || open.kernel->reduces()) return false;
    const Shape& operand = graph_.TypeOf(node.inputs[0]);
    if (operand.rank() == 0 || node.attrs[0].ints()[0] == operand.rank() - 1) return false;
    return std::any_of(open.needs.begin(), open.needs.end(), [&](NodeId need) {
      return ResultColumns(graph_, need) > 0 && graph_[need].type().numel() == operand.numel();
    });
  }

  /// Whether there are still rows enough for several threads, if the nest joins.
  bool LeavesWork(const KernelBuilder& kernel, NodeId id) const {
    const GraphNode& node = graph_[id];
    if (ReductionOf(node) && !kernel.reduces()) {
      int64_t rows = node.type().numel();
      int64_t total = graph_.TypeOf(node.inputs[0]).numel();
      return rows >= kFewRows || total < kFewRows * kLongRow;
    }
    if (!kernel.reduces() || ReductionOf(node)) return true;
    return kernel.rows() >= kFewRows || kernel.columns() < kLongRow ||
           node.type().numel() <= kernel.rows();
  }

  void StartKernel(NodeId id) {
    Open open;
    open.kernel = std::make_unique<KernelBuilder>(facts_);
    while (!open.kernel->Add(id)) {
      NodeId blocker = open.kernel->blocker();
      if (blocker) blocker = StorageOf(graph_, {blocker, 0}).node;
      HAMMOCK_CHECK(blocker && !facts_.is_root[blocker], "no loops for {} (%{})",
                    graph_[id].op->name(), id);
      facts_.is_root[blocker] = true;
      PlaceNest(blocker);
      open.kernel = std::make_unique<KernelBuilder>(facts_);
    }
    const int command = static_cast<int>(open_.size());
    command_of_[id] = command;
    open_.push_back(std::move(open));
    AddNeeds(command, NeedsOf(id));
  }

  // ---- the result

  Schedule Finish() {
    Schedule schedule;
    schedule.first = facts_.first;
    size_t values = 0;
    for (const GraphNode& node : graph_.nodes()) values += node.types.size();
    schedule.buffers.reserve(values);
    for (const GraphNode& node : graph_.nodes()) {
      for (const Shape& type : node.types) schedule.buffers.push_back(type);
    }
    for (NodeId id : graph_.inputs()) schedule.inputs.push_back(schedule.first[id]);
    marks_.assign(schedule.buffers.size(), 0);
    NodeMap<bool> stored(graph_.size());
    for (GraphValue output : graph_.outputs()) {
      GraphValue storage = StorageOf(graph_, output);
      stored[storage.node] = true;
      schedule.outputs.push_back(schedule.OwnBufferOf(storage));
    }
    for (size_t i = 0; i < open_.size(); ++i) {
      for (NodeId need : open_[i].needs) {
        if (command_of_[need] != static_cast<int>(i)) stored[need] = true;
      }
    }
    schedule.commands.reserve(open_.size());
    for (Open& open : open_) {
      schedule.commands.push_back(open.kernel ? KernelCommand(*open.kernel, stored)
                                              : CallCommand(open.call, schedule));
      open = {};  // a large graph has many: no two forms of all of them at a time
    }
    ShareBuffers(schedule);
    const BufferMap<bool> read = BuffersRead(schedule);
    if (epilogues_) AttachEpilogues(graph_, schedule);
    CallEarlyWhatFails(schedule);
    if (aligned_outputs_) {
      const BufferMap<int64_t> bytes = BytesOf(schedule);
      for (Command& command : schedule.commands)
        StreamResults(command.launch, command, schedule, bytes, read);
    }
    ShareKernels(schedule);
    return schedule;
  }

  /// Gives what only passes bytes on the buffer of its operand. If it can fail it stays a command.
  void ShareBuffers(Schedule& schedule) {
    for (BufferId buffer : schedule.buffers.ids()) schedule.buffer_of.push_back(buffer);
    for (Command& command : schedule.commands) {
      if (!command.node || !PassesBytesOn(command.node)) continue;
      BufferId source = schedule.BufferOf(StorageOf(graph_, graph_[command.node].inputs[0]));
      schedule.buffer_of[command.writes[0]] = source;
      command.writes.clear();
    }
    for (Command& command : schedule.commands) {
      for (BufferId& buffer : command.reads) buffer = schedule.buffer_of[buffer];
      KeepDistinct(command.reads);
      if (command.updates) {
        BufferId whole = schedule.buffer_of[command.updates];
        BufferId part = schedule.BufferOf(StorageOf(graph_, graph_[command.node].inputs[1]));
        command.updates = whole != part ? whole : BufferId();
      }
      for (AccessMap& map : command.launch.maps) {
        if (map.buffer) map.buffer = schedule.buffer_of[map.buffer];
      }
    }
    std::erase_if(schedule.commands, [&](const Command& command) {
      return command.node && PassesBytesOn(command.node) && !graph_[command.node].op->can_fail;
    });
    for (BufferId& output : schedule.outputs) output = schedule.buffer_of[output];
  }

  /// Moves calls that can fail in a run to where their operands are known: after the last of them,
  /// results may take the memory of inputs (DonationPlan). Their order stays.
  void CallEarlyWhatFails(Schedule& schedule) const {
    std::vector<Command> others, failing;
    std::vector<size_t> position;  // of each failing command: the commands before it
    BufferMap<size_t> known(schedule.buffers.size());  // after so many others
    size_t earliest = 0;
    for (Command& command : schedule.commands) {
      bool fails = command.is_call() && CanFailLate(graph_, graph_[command.node]);
      size_t after = others.size() + 1;
      if (fails) {
        after = others.size();
        if (!command.updates && EffectOf(graph_[command.node]) == Effect::kPure) {
          after = earliest;
          for (BufferId buffer : command.reads) after = std::max(after, known[buffer]);
        }
        position.push_back(earliest = after);
      }
      for (BufferId buffer : command.writes) known[buffer] = after;
      (fails ? failing : others).push_back(std::move(command));
    }
    schedule.commands.clear();
    size_t next = 0;
    for (size_t i = 0; i <= others.size(); ++i) {
      while (next < failing.size() && position[next] == i) {
        schedule.commands.push_back(std::move(failing[next++]));
      }
      if (i < others.size()) schedule.commands.push_back(std::move(others[i]));
    }
  }

  /// Leaves the first of equal buffers.
  void KeepDistinct(std::vector<BufferId>& buffers) {
    ++mark_;
    std::erase_if(buffers,
                  [&](BufferId buffer) { return std::exchange(marks_[buffer], mark_) == mark_; });
  }

  Command KernelCommand(const KernelBuilder& builder, const NodeMap<bool>& stored) {
    Command command;
    command.nodes = builder.nodes();
    command.launch = builder.Finish([&](NodeId id) { return stored[id]; });
    for (const Instr& instr : command.launch.kernel->instrs) {
      if (instr.access < 0) continue;
      BufferId buffer = command.launch.maps[instr.access].buffer;
      if (!buffer) continue;
      (instr.kind == Instr::Kind::kStore ? command.writes : command.reads).push_back(buffer);
    }
    KeepDistinct(command.reads);
    KeepDistinct(command.writes);
    return command;
  }

  Command CallCommand(NodeId id, const Schedule& schedule) {
    Command command;
    command.node = id;
    command.nodes = {id};
    for (GraphValue input : graph_[id].inputs) {
      if (input.node) command.reads.push_back(schedule.OwnBufferOf(StorageOf(graph_, input)));
    }
    KeepDistinct(command.reads);
    for (size_t i = 0; i < graph_[id].types.size(); ++i) {
      command.writes.push_back(schedule.first[id] + static_cast<int>(i));
    }
    const OpDef* op = graph_[id].op;
    if (op == &ops::kUpdateSlice || op == &ops::kDynamicUpdateSlice) {
      command.updates = schedule.OwnBufferOf(StorageOf(graph_, graph_[id].inputs[0]));
    }
    return command;
  }

  const Graph& graph_;
  const bool aligned_outputs_;
  const bool epilogues_;
  const bool rows_apart_;
  FusionFacts facts_;
  NodeMap<int> command_of_;
  NodeMap<std::array<int, kMaxNeighbours>> last_readers_;  // kernels that read a root
  std::vector<Open> open_;
  NodeMap<int> found_;  // the last search that found it
  int search_ = 0;
  BufferMap<int> marks_;  // the last list that had it
  int mark_ = 0;
};

}  // namespace

std::vector<Pass> SchedulePasses() {
  std::vector<Pass> passes = {{"arg_reductions", ArgReductions},
                              {"split_reductions", SplitReductions},
                              {"remove_dead", RemoveDead}};
  for (Pass& pass : RematerialisePasses(/*epilogues=*/false)) passes.push_back(std::move(pass));
  return passes;
}

bool IsInKernels(const Graph& graph, NodeId id) {
  const GraphNode& node = graph[id];
  return IsPointwise(graph, node) || IsView(node) || IsGenerated(node) || ReductionOf(node) ||
         IsPair(node);
}

Schedule MakeSchedule(const Graph& graph, bool aligned_outputs, bool epilogues, bool rows_apart) {
  return Scheduler(graph, aligned_outputs, epilogues, rows_apart).Make();
}

BufferMap<int64_t> BytesOf(const Schedule& schedule) {
  BufferMap<int64_t> bytes;
  for (const BufferType& type : schedule.buffers) bytes.push_back(type.bytes());
  return bytes;
}

std::string ToText(const Schedule& schedule, const Graph& graph) {
  std::string text;
  for (size_t i = 0; i < schedule.commands.size(); ++i) {
    const Command& command = schedule.commands[i];
    text += fmt::format("command {}: ", i);
    if (command.is_call()) {
      text += fmt::format("call {} reads [{}] writes [{}]\n", graph[command.node].op->name(),
                          fmt::join(command.reads, ","), fmt::join(command.writes, ","));
      if (command.launch.kernel) text += fmt::format("  then, rows [{}], ", command.row_loops);
    }
    if (command.launch.kernel) text += ToText(command.launch);
  }
  return text + fmt::format("outputs [{}]\n", fmt::join(schedule.outputs, ","));
}

void ShowSchedule(const char* name, const Graph& graph, const Schedule& schedule) {
  if (ShowsPasses()) ShowPass({name, graph, ToText(schedule, graph)});
}

}  // namespace hammock::compiler
