#include "backends/reference/interpreter.h"

#include <algorithm>
#include <new>

#include "backends/reference/kernel.h"
#include "base/process_exit.h"
#include "hammock/distributed.h"
#include "hammock/lazy/backend_interface.h"
#include "ir/id_format.h"
#include "ir/primitives.h"

namespace hammock::reference {

Hooks::~Hooks() = default;
void Hooks::BeforeNode(const GraphNode&) {}
HostTensor Hooks::Allocate(const Shape& shape, const OpDef&) { return HostTensor(shape); }

struct Program::Command {
  NodeId node;
  Kernel kernel;
  // The begin of this command's part of the program's lists; the next command's begin is its end.
  int32_t operands;
  int32_t results;
  int32_t releases;
  int32_t nested;
};

/// Assigns slots in one walk, with the last use of every value known from another.
class Program::Planner {
 public:
  explicit Planner(Program& program)
      : program_(program), graph_(*program.graph_), first_(graph_.size() + 1) {
    for (NodeId id : graph_.ids()) {
      first_[id + 1] = first_[id] + static_cast<int32_t>(graph_[id].types.size());
    }
    slot_.resize(first_.back(), -1);
    last_use_.resize(first_.back());
  }

  void Plan() {
    FindLastUses();
    for (NodeId id : graph_.inputs()) {
      slot_[first_[id]] = Take();
      program_.input_slots_.push_back(slot_[first_[id]]);
    }
    for (NodeId id : graph_.ids()) {
      if (graph_[id].op != &ops::kInput) PlanNode(id);
    }
    AppendCommand(NodeId(), nullptr);  // ends the last one's lists
    for (GraphValue value : graph_.outputs()) {
      program_.output_slots_.push_back(slot_[IndexOf(value)]);
    }
  }

 private:
  int32_t IndexOf(GraphValue value) const { return first_[value.node] + value.index; }

  int32_t Take() {
    if (free_.empty()) return program_.slot_count_++;
    int32_t slot = free_.back();
    free_.pop_back();
    return slot;
  }

  void FindLastUses() {
    for (NodeId id : graph_.ids()) {
      for (GraphValue value : graph_[id].inputs) {
        if (value.node) last_use_[IndexOf(value)] = id;
      }
    }
    for (GraphValue value : graph_.outputs()) last_use_[IndexOf(value)] = NodeId(graph_.size());
  }

  void AppendCommand(NodeId id, Kernel kernel) {
    program_.commands_.push_back({id, kernel, static_cast<int32_t>(program_.operands_.size()),
                                  static_cast<int32_t>(program_.results_.size()),
                                  static_cast<int32_t>(program_.releases_.size()),
                                  static_cast<int32_t>(program_.nested_.size())});
  }

  void PlanNode(NodeId id) {
    const GraphNode& node = graph_[id];
    Kernel kernel = FindKernel(*node.op);
    if (!kernel) {
      Throw<NotSupported>(ErrorCode::kNotSupported, "{}: the interpreter cannot run it (%{}){}",
                          node.op->name(), id,
                          node.op->IsComposite() ? "; composites must be expanded first" : "");
    }
    AppendCommand(id, kernel);
    for (const Attr& attr : node.attrs) {
      if (attr.kind() == Attr::Kind::kGraph) program_.nested_.emplace_back(attr.graph());
    }
    for (GraphValue value : node.inputs) {
      program_.operands_.push_back(value.node ? slot_[IndexOf(value)] : -1);
    }
    size_t first_release = program_.releases_.size();
    for (size_t i = 0; i < node.types.size(); ++i) {
      int32_t index = first_[id] + static_cast<int32_t>(i);
      slot_[index] = Take();
      program_.results_.push_back(slot_[index]);
      if (!last_use_[index]) program_.releases_.push_back(slot_[index]);
    }
    for (GraphValue value : node.inputs) {
      if (!value.node || last_use_[IndexOf(value)] != id) continue;
      last_use_[IndexOf(value)] = NodeId();  // an operand that is named twice is released once
      program_.releases_.push_back(slot_[IndexOf(value)]);
    }
    free_.insert(free_.end(), program_.releases_.begin() + first_release, program_.releases_.end());
  }

  Program& program_;
  const Graph& graph_;
  NodeMap<int32_t> first_;  // index of each node's first value
  std::vector<int32_t> slot_;
  std::vector<NodeId> last_use_;
  std::vector<int32_t> free_;
};

Program::Program(const Graph& graph) : graph_(&graph) { Planner(*this).Plan(); }
Program::~Program() = default;
Program::Program(Program&&) noexcept = default;

int64_t Program::bytes() const {
  int64_t total = static_cast<int64_t>(
      commands_.capacity() * sizeof(Command) +
      sizeof(int32_t) * (operands_.capacity() + results_.capacity() + releases_.capacity()));
  for (const Program& program : nested_) total += program.bytes();
  return total;
}

namespace {

/// "%3 = gather f32[4], i64[2] : f32[2]"
std::string Describe(const Graph& graph, NodeId id) {
  const GraphNode& node = graph[id];
  std::string text = fmt::format("%{} = {}", id, node.op->name());
  const char* separator = " ";
  for (GraphValue value : node.inputs) {
    text += separator + (value.node ? graph.TypeOf(value).to_string() : "none");
    separator = ", ";
  }
  separator = " : ";
  for (const Shape& type : node.types) {
    text += separator + type.to_string();
    separator = ", ";
  }
  return text;
}

[[noreturn]] void ThrowAt(const Graph& graph, NodeId id, ErrorCode code, const std::string& message,
                          const std::string& where) {
  lazy::ExecutionError error(code, fmt::format("{} (in {})", message, Describe(graph, id)), id);
  error.SetWhere(where.empty() ? WhereText(graph[id].location) : where);
  throw error;
}

/// Gives the exception in flight the node that raised it.
[[noreturn]] void RethrowAt(const Graph& graph, NodeId id) {
  try {
    throw;
  } catch (const process_exit::Cancelled&) {
    throw;
  } catch (OutOfMemory& error) {
    if (error.where().empty()) error.SetWhere(WhereText(graph[id].location));
    throw;
  } catch (distributed::DistributedError& error) {
    if (error.where().empty()) error.SetWhere(WhereText(graph[id].location));
    throw;
  } catch (const Error& error) {
    ThrowAt(graph, id, error.code(), error.message(), error.where());
  } catch (const std::bad_alloc&) {
    OutOfMemory error(ErrorCode::kOutOfMemory,
                      fmt::format("{}: the host has no memory left (in {})", graph[id].op->name(),
                                  Describe(graph, id)));
    error.SetWhere(WhereText(graph[id].location));
    throw error;
  } catch (const std::exception& error) {
    ThrowAt(graph, id, ErrorCode::kExecute,
            fmt::format("{}: {}", graph[id].op->name(), error.what()), "");
  }
}

void CheckInputs(const Graph& graph, std::span<const HostTensor> inputs) {
  HAMMOCK_CHECK(inputs.size() == graph.inputs().size(), "{} tensors for {} inputs", inputs.size(),
                graph.inputs().size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Shape& type = graph[graph.inputs()[i]].type();
    HAMMOCK_CHECK(inputs[i].defined() && inputs[i].shape() == type, "input {} is {}, needs {}", i,
                  inputs[i].defined() ? inputs[i].shape().to_string() : "undefined",
                  type.to_string());
  }
}

}  // namespace

void Program::RunCommand(const Command& command, std::vector<HostTensor>& slots,
                         Hooks& hooks) const {
  const Command& end = *(&command + 1);
  const GraphNode& node = (*graph_)[command.node];
  hooks.BeforeNode(node);
  constexpr int kInline = 4;
  const HostTensor* inline_operands[kInline] = {};
  HostTensor inline_results[2];
  std::vector<const HostTensor*> more_operands;
  std::vector<HostTensor> more_results;
  std::span<const HostTensor*> operands(inline_operands);
  std::span<HostTensor> results(inline_results);
  size_t operand_count = end.operands - command.operands;
  size_t result_count = end.results - command.results;
  if (operand_count > operands.size()) {
    more_operands.resize(operand_count);
    operands = more_operands;
  }
  if (result_count > results.size()) {
    more_results.resize(result_count);
    results = more_results;
  }
  for (size_t i = 0; i < operand_count; ++i) {
    int32_t slot = operands_[command.operands + i];
    operands[i] = slot < 0 ? nullptr : &slots[slot];
  }
  KernelCall call = {node, operands.first(operand_count), results.first(result_count),
                     std::span(nested_).subspan(command.nested, end.nested - command.nested),
                     hooks};
  command.kernel(call);
  for (size_t i = 0; i < result_count; ++i) {
    slots[results_[command.results + i]] = std::move(results[i]);
  }
  for (int32_t i = command.releases; i < end.releases; ++i) slots[releases_[i]] = HostTensor();
}

std::vector<HostTensor> Program::Run(std::span<const HostTensor> inputs, Hooks& hooks) const {
  CheckInputs(*graph_, inputs);
  std::vector<HostTensor> slots(slot_count_);
  for (size_t i = 0; i < inputs.size(); ++i) slots[input_slots_[i]] = inputs[i];
  NodeId current;
  try {
    for (size_t i = 0; i + 1 < commands_.size(); ++i) {
      current = commands_[i].node;
      RunCommand(commands_[i], slots, hooks);
    }
  } catch (...) {
    RethrowAt(*graph_, current);
  }
  std::vector<HostTensor> outputs;
  outputs.reserve(output_slots_.size());
  for (int32_t slot : output_slots_) outputs.push_back(slots[slot]);
  return outputs;
}

std::vector<HostTensor> Interpret(const Graph& graph, std::span<const HostTensor> inputs,
                                  Hooks* hooks) {
  Hooks plain;
  return Program(graph).Run(inputs, hooks ? *hooks : plain);
}

}  // namespace hammock::reference
