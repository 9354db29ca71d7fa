#include "backends/cpu/prepared_command.h"

#include <algorithm>
#include <new>

#include "backends/cpu/calls/fused_matmul.h"
#include "backends/cpu/program.h"
#include "base/process_exit.h"
#include "base/throw.h"
#include "compiler/facts/fusion_facts.h"
#include "hammock/distributed.h"
#include "hammock/lazy/backend_interface.h"
#include "ir/primitives.h"

namespace hammock::cpu {

using compiler::BufferId;
using compiler::Command;
using compiler::Schedule;

namespace {

/// The input of a program that has a value, or the one that the value is a cast of: autocast casts
/// weights in every step. -1: there is none.
int WeightInput(const Graph& graph, const Schedule& schedule, GraphValue weight) {
  weight = compiler::StorageOf(graph, weight);
  const GraphNode& node = graph[weight.node];
  if (node.op == &ops::kCast) weight = node.inputs[0];
  if (graph[weight.node].op != &ops::kInput) return -1;
  const auto input =
      std::find(schedule.inputs.begin(), schedule.inputs.end(), schedule.BufferOf(weight));
  return static_cast<int>(input - schedule.inputs.begin());
}

}  // namespace

PreparedCommand::PreparedCommand(const Graph& graph, const Schedule& schedule, size_t index,
                                 Sized sized, std::shared_ptr<KernelCode> code)
    : own_launch(std::move(sized.launch)), own_graph(std::move(sized.call)) {
  const Command& command = schedule.commands[index];
  const compiler::Launch& launch = own_launch ? *own_launch : command.launch;
  if (command.is_call()) {
    PrepareCall(graph, schedule, index, launch, std::move(code));
  } else {
    kernel.emplace(launch, std::move(code));
    node = graph[command.nodes.back()].origin;
  }
}

void PreparedCommand::PrepareCall(const Graph& graph, const Schedule& schedule, size_t index,
                                  const compiler::Launch& launch,
                                  std::shared_ptr<KernelCode> code) {
  const Command& command = schedule.commands[index];
  const SharedList<GraphValue>& inputs = graph[command.node].inputs;
  node = graph[command.node].origin;
  location = graph[command.node].location;
  const Graph& called = own_graph ? *own_graph : graph;
  const NodeId id = own_graph ? NodeId(own_graph->size() - 1) : command.node;
  if (launch.kernel) {
    epilogue = code;
    auto fused = std::make_unique<FusedMatMul>(graph, schedule, command, launch, std::move(code),
                                               called, id);
    operands = fused->operands();
    results = command.writes;
    call = std::move(fused);
  } else {
    call = MakeCall(called, id);
    for (GraphValue input : inputs) {
      operands.push_back(input.node ? schedule.BufferOf(compiler::StorageOf(graph, input))
                                    : BufferId());
    }
    for (size_t i = 0; i < graph[command.node].types.size(); ++i) {
      results.push_back(schedule.BufferOf({command.node, static_cast<int32_t>(i)}));
    }
  }
  packed_weight = call->packed_weight();
  if (packed_weight.operand < 0) return;
  packed_input = WeightInput(graph, schedule, inputs[packed_weight.operand]);
  if (packed_input < 0) return;
  packed_dtype = graph.TypeOf(inputs[packed_weight.operand]).dtype();
  if (operands.size() == inputs.size()) operands.emplace_back();
  operands[inputs.size()] = PackedBuffer(schedule, index);
}

int64_t PreparedCommand::bytes() const {
  int64_t bytes = static_cast<int64_t>(sizeof *this) + (kernel ? kernel->bytes() : 0);
  if (own_launch) {
    for (const compiler::AccessMap& map : own_launch->maps) {
      bytes += static_cast<int64_t>(sizeof map + map.outer.size() * sizeof(int64_t));
    }
  }
  if (own_graph) {
    bytes += static_cast<int64_t>(own_graph->nodes().size() * (sizeof(GraphNode) + sizeof(Shape)));
  }
  if (call) {
    for (const Program* program : call->programs()) bytes += program->bytes();
  }
  return bytes;
}

void PreparedCommand::AddKernels(std::vector<std::shared_ptr<KernelCode>>& kernels) const {
  if (kernel) kernels.push_back(kernel->code());
  if (epilogue) kernels.push_back(epilogue);
  if (!call) return;
  for (const Program* program : call->programs()) program->AddKernels(kernels);
}

void PreparedCommand::AddBodies(std::vector<const Program*>& bodies) const {
  if (!call) return;
  for (const Program* program : call->programs()) {
    bodies.push_back(program);
    program->AddBodies(bodies);
  }
}

void PreparedCommand::RunCall(compiler::BufferSpan<char*> buffers, char* scratch) const {
  std::vector<const char*> in;
  std::vector<char*> out;
  in.reserve(operands.size());
  out.reserve(results.size());
  for (BufferId buffer : operands) in.push_back(buffer ? buffers[buffer] : nullptr);
  for (BufferId buffer : results) out.push_back(buffers[buffer]);
  try {
    call->Run(in, out, scratch);
  } catch (...) {
    RethrowAtNode();
  }
}

void PreparedCommand::CheckCall(compiler::BufferSpan<char*> buffers) const {
  std::vector<const char*> in;
  for (BufferId buffer : operands) in.push_back(buffer ? buffers[buffer] : nullptr);
  try {
    call->Check(in);
  } catch (...) {
    RethrowAtNode();
  }
}

/// Gives the exception in flight the node that raised it.
void PreparedCommand::RethrowAtNode() const {
  const std::string where = WhereText(location);
  try {
    throw;
  } catch (const process_exit::Cancelled&) {
    throw;
  } catch (OutOfMemory& error) {
    if (error.where().empty()) error.SetWhere(where);
    throw;
  } catch (distributed::DistributedError& error) {
    if (error.where().empty()) error.SetWhere(where);
    throw;
  } catch (const Error& error) {
    lazy::ExecutionError at_node(error.code(), error.message(), node);
    at_node.SetWhere(error.where().empty() ? where : error.where());
    throw at_node;
  } catch (const std::bad_alloc&) {
    OutOfMemory error(ErrorCode::kOutOfMemory, "the host has no memory left");
    error.SetWhere(where);
    throw error;
  } catch (const std::exception& error) {
    lazy::ExecutionError at_node(ErrorCode::kExecute, error.what(), node);
    at_node.SetWhere(where);
    throw at_node;
  }
}

}  // namespace hammock::cpu
