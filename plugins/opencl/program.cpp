#include "program.h"

#include <fmt/format.h>
#include <hammock/compiler/describe_schedule.h>
#include <hammock/compiler/launch_size.h>
#include <hammock/ir/pass.h>

#include <algorithm>
#include <set>

#include "emit.h"

namespace opencl {

using hammock::DType;
using hammock::ErrorCode;
using hammock::Graph;
using hammock::GraphNode;
using hammock::NodeId;
using hammock::compiler::BufferId;
using hammock::compiler::BufferMap;
using hammock::compiler::Command;
using hammock::compiler::kOpenClC;

namespace {

constexpr int64_t kFaultBytes = 16;
constexpr int32_t kNoFault = 0x7fffffff;

int64_t Aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

bool BecomesReduction(const std::string& op) {
  return op == "arg_max" || op == "arg_min" || op.starts_with("reduce_sum") ||
         op.starts_with("reduce_prod") || op == "reduce_max" || op == "reduce_min" ||
         op == "reduce_any" || op == "reduce_all";
}

}  // namespace

Program::Program(const Graph& graph, Device& device)
    : device_(device),
      graph_(hammock::RunPasses(hammock::compiler::SchedulePasses(),
                                hammock::compiler::WithOrigins(graph))),
      schedule_(hammock::compiler::MakeSchedule(graph_, /*aligned_outputs=*/false,
                                                /*epilogues=*/false)),
      sources_(hammock::compiler::FindOutputSources(schedule_)) {
  hammock::compiler::ShowSchedule("schedule", graph_, schedule_);
  PrepareCommands();
  plan_ = hammock::compiler::PlanMemory(schedule_, scratch_);
  if (packed_) PackMemory();
  donations_ = can_fail() || packed_ || HasHostCommands()
                   ? hammock::compiler::DonationPlan(schedule_.outputs.size())
                   : hammock::compiler::DonationPlan(graph_, schedule_, {});
  PlaceNumbers();
}

bool Program::HasHostCommands() const {
  auto on_host = [](const QueuedCommand& item) { return item.host.run != nullptr; };
  return std::ranges::any_of(
      queued_, [&](const auto& items) { return std::ranges::any_of(items, on_host); });
}

// ---- Preparation

void Program::PrepareCommands() {
  for (const Command& command : schedule_.commands) {
    size_t pointers = 0;
    if (!command.is_call()) {
      for (const auto& access : command.launch.kernel->accesses) {
        using Kind = hammock::compiler::Access::Kind;
        pointers += access.kind == Kind::kBuffer || access.kind == Kind::kScratch;
      }
    }
    packed_ = packed_ || pointers > device_.most_pointers();
  }
  hammock::compiler::ScalarText scalars(kOpenClC);
  for (const Command& command : schedule_.commands) {
    std::vector<QueuedCommand> items;
    int64_t scratch = 0;
    if (command.is_call()) {
      const CallEntry* entry = FindCall(graph_[command.node].op->info().name);
      if (!entry) {
        throw hammock::CompileError(
            ErrorCode::kCompile,
            fmt::format("opencl has no kernel for {}", graph_[command.node].op->info().name));
      }
      CallBuilder call(graph_, schedule_, command.node, scalars);
      entry->make(call);
      for (QueuedCommand& item : call.queued) {
        for (Argument& argument : item.arguments) {
          if (argument.kind == Argument::Kind::kFaults) {
            argument.offset = static_cast<int64_t>(faults_.size()) * kFaultBytes;
          }
        }
      }
      if (call.fault) faults_.push_back({*call.fault, graph_[command.node].origin});
      items = std::move(call.queued);
      scratch = call.scratch_bytes;
      kernels_.insert(kernels_.end(), call.sources.begin(), call.sources.end());
    } else {
      const KernelKind kind = {.wide_index = hammock::compiler::NeedsWideIndex(command.launch),
                               .one_pointer = packed_};
      kernels_.push_back(EmitKernel(*command.launch.kernel,
                                    static_cast<int>(command.launch.outer.size()), kind, scalars));
      items.push_back(MakeQueuedCommand(command.launch, kernels_.back()));
      items.back().one_pointer = packed_;
      scratch = ScratchBytes(command.launch);
    }
    std::erase_if(items, [](const QueuedCommand& item) {
      return item.global[0] == 0 || item.global[1] == 0 || item.global[2] == 0;
    });
    queued_.push_back(std::move(items));
    scratch_.push_back(scratch);
  }
  device_.Compile(scalars.Functions(), kernels_);
}

/// Inputs and outputs get places behind the arena, so that all memory is one buffer.
void Program::PackMemory() {
  const BufferMap<int64_t> bytes = hammock::compiler::BytesOf(schedule_);
  auto place = [&](BufferId buffer) {
    if (plan_.offset[buffer] >= 0) return;
    plan_.offset[buffer] = plan_.arena_bytes;
    plan_.arena_bytes += Aligned(bytes[buffer]);
  };
  for (BufferId buffer : schedule_.inputs) place(buffer);
  for (BufferId buffer : schedule_.outputs) place(buffer);
}

/// One buffer holds the numbers of all commands; they are the same in every run.
void Program::PlaceNumbers() {
  BufferMap<Place> buffers(schedule_.buffers.size());
  const std::vector<Place> inputs(packed_ ? 0 : schedule_.inputs.size());
  const std::vector<Place> outputs(packed_ ? 0 : schedule_.outputs.size());
  hammock::compiler::SetBuffers<Place>(schedule_, plan_, sources_, inputs, outputs, Place(),
                                       buffers);
  std::vector<int64_t> numbers;
  for (size_t c = 0; c < queued_.size(); ++c) {
    launches_.emplace_back();
    for (const QueuedCommand& item : queued_[c]) {
      const CompiledKernel* kernel = item.host.run ? nullptr : &device_.Find(item.kernel);
      launches_.back().push_back({kernel, static_cast<int64_t>(numbers.size())});
      for (const Argument& argument : item.arguments) {
        numbers.push_back(PlaceOf(argument, c, buffers, Place(), Place()).offset);
      }
      numbers.insert(numbers.end(), item.numbers.begin(), item.numbers.end());
    }
  }
  if (numbers.empty()) return;
  const auto count = static_cast<int64_t>(numbers.size());
  numbers_ = device_.Upload(hammock::HostTensor::From(numbers, {count}));
}

// ---- Runs

Program::Place Program::PlaceOf(const Argument& argument, size_t command,
                                const BufferMap<Place>& buffers, Place arena, Place faults) const {
  switch (argument.kind) {
    case Argument::Kind::kBuffer:
      return buffers[argument.buffer];
    case Argument::Kind::kScratch:
      return arena + static_cast<size_t>(plan_.scratch_offset[command] + argument.offset);
    case Argument::Kind::kFaults:
      return faults + static_cast<size_t>(argument.offset);
  }
  return {};
}

void Program::Copy(const RunQueue& queue, const Place& from, const Place& to, int64_t bytes) const {
  if (bytes == 0) return;
  Check(clEnqueueCopyBuffer(queue.queue, from.memory, to.memory, static_cast<size_t>(from.offset),
                            static_cast<size_t>(to.offset), static_cast<size_t>(bytes), 0, nullptr,
                            nullptr),
        "clEnqueueCopyBuffer");
}

void Program::Start(RunQueue& queue, const QueuedCommand& item, const Launch& launch,
                    size_t command, const BufferMap<Place>& buffers, Place arena,
                    Place faults) const {
  if (item.copies) {
    const Place from = PlaceOf(item.arguments[0], command, buffers, arena, faults);
    const Place to = PlaceOf(item.arguments[1], command, buffers, arena, faults);
    if (from.memory == to.memory && from.offset == to.offset) return;
  }
  const cl_kernel kernel = launch.kernel->function.get();
  auto set = [&](cl_uint index, size_t size, const void* value) {
    Check(clSetKernelArg(kernel, index, size, value), "clSetKernelArg");
  };
  const cl_mem numbers = numbers_->get();
  const cl_long first = launch.first;
  set(0, sizeof(numbers), &numbers);
  set(1, sizeof(first), &first);
  const size_t pointers = item.one_pointer ? 1 : item.arguments.size();
  for (size_t i = 0; i < pointers; ++i) {
    const cl_mem memory = item.one_pointer
                              ? arena.memory
                              : PlaceOf(item.arguments[i], command, buffers, arena, faults).memory;
    set(static_cast<cl_uint>(2 + i), sizeof(memory), &memory);
  }
  Event ended;
  Check(clEnqueueNDRangeKernel(queue.queue, kernel, 3, nullptr, item.global.data(),
                               item.local.data(), 0, nullptr, queue.timed ? ended.out() : nullptr),
        "clEnqueueNDRangeKernel");
  if (queue.timed) queue.kernels.emplace_back(command, std::move(ended));
}

/// The device has done all before it when the host reads.
void Program::RunOnHost(const RunQueue& queue, const HostCommand& host,
                        const hammock::lazy::RunContext& context, const Place& from,
                        const Place& to) const {
  std::vector<char> in(static_cast<size_t>(host.in_bytes)),
      out(static_cast<size_t>(host.out_bytes));
  if (!in.empty()) {
    Check(clEnqueueReadBuffer(queue.queue, from.memory, CL_TRUE, static_cast<size_t>(from.offset),
                              in.size(), in.data(), 0, nullptr, nullptr),
          "clEnqueueReadBuffer");
  }
  host.run(context, in.data(), out.data());
  if (out.empty()) return;
  Check(clEnqueueWriteBuffer(queue.queue, to.memory, CL_TRUE, static_cast<size_t>(to.offset),
                             out.size(), out.data(), 0, nullptr, nullptr),
        "clEnqueueWriteBuffer");
}

void Program::Raise(const std::vector<int64_t>& faults) const {
  for (size_t i = 0; i < faults_.size(); ++i) {
    if (static_cast<int32_t>(faults[2 * i]) == kNoFault) continue;
    throw hammock::lazy::ExecutionError(
        faults_[i].text.code, faults_[i].text.message(faults[2 * i + 1]), faults_[i].node);
  }
}

void Program::RaiseFaultsSoFar(const RunQueue& queue, const Block& faults) const {
  std::vector<int64_t> found(2 * faults_.size());
  Check(clEnqueueReadBuffer(queue.queue, faults.get(), CL_TRUE, 0, faults_.size() * kFaultBytes,
                            found.data(), 0, nullptr, nullptr),
        "clEnqueueReadBuffer");
  Raise(found);
}

Program::Run Program::Enqueue(const std::vector<BlockPtr>& inputs, const std::vector<bool>& donated,
                              const hammock::lazy::RunContext& context) const {
  Run run;
  const std::vector<int> taken = donations_.Match(donated);
  std::vector<Place> in, out;
  for (const BlockPtr& input : inputs) in.push_back({input->get(), 0});
  for (size_t i = 0; i < sources_.size(); ++i) {
    const auto& source = sources_[i];
    run.outputs.push_back(
        source.input >= 0  ? inputs[static_cast<size_t>(source.input)]
        : source.same >= 0 ? run.outputs[static_cast<size_t>(source.same)]
        : taken[i] >= 0
            ? inputs[static_cast<size_t>(taken[i])]
            : device_.memory().Take(schedule_.buffers[schedule_.outputs[i]].bytes(), "output"));
    out.push_back({run.outputs.back()->get(), 0});
  }
  BlockPtr arena, faults;
  if (plan_.arena_bytes > 0) arena = device_.memory().Take(plan_.arena_bytes, "values of a run");
  if (can_fail()) {
    faults = device_.memory().Take(static_cast<int64_t>(faults_.size()) * kFaultBytes, "faults");
  }
  const Place arena_place = {arena ? arena->get() : nullptr, 0};
  const Place faults_place = {faults ? faults->get() : nullptr, 0};
  BufferMap<Place> buffers(schedule_.buffers.size());
  hammock::compiler::SetBuffers<Place>(
      schedule_, plan_, sources_, packed_ ? std::span<const Place>() : std::span<const Place>(in),
      packed_ ? std::span<const Place>() : std::span<const Place>(out), arena_place, buffers);

  std::unique_lock lock(device_.launches);
  RunQueue queue = {
      context.profile ? device_.TimedQueue() : device_.queue(), context.profile != nullptr, {}};
  if (faults) {
    Check(clEnqueueFillBuffer(queue.queue, faults->get(), &kNoFault, sizeof(kNoFault), 0,
                              faults_.size() * kFaultBytes, 0, nullptr, nullptr),
          "clEnqueueFillBuffer");
  }
  if (packed_) {
    for (size_t i = 0; i < in.size(); ++i) {
      Copy(queue, in[i], buffers[schedule_.inputs[i]], inputs[i]->bytes);
    }
  }
  for (size_t c = 0; c < queued_.size(); ++c) {
    for (size_t s = 0; s < queued_[c].size(); ++s) {
      const QueuedCommand& item = queued_[c][s];
      if (!item.host.run) {
        Start(queue, item, launches_[c][s], c, buffers, arena_place, faults_place);
        continue;
      }
      lock.unlock();  // it may wait for other threads
      if (faults)
        RaiseFaultsSoFar(queue, *faults);  // other ranks must not get what a failed call left
      RunOnHost(queue, item.host, context,
                PlaceOf(item.arguments[0], c, buffers, arena_place, faults_place),
                PlaceOf(item.arguments[1], c, buffers, arena_place, faults_place));
      lock.lock();
    }
  }
  if (packed_) {
    for (size_t i = 0; i < out.size(); ++i) {
      if (sources_[i].input >= 0 || sources_[i].same >= 0) continue;
      Copy(queue, buffers[schedule_.outputs[i]], out[i], run.outputs[i]->bytes);
    }
  }
  if (faults) {
    auto found = std::make_shared<std::vector<int64_t>>(2 * faults_.size());
    Check(clEnqueueReadBuffer(queue.queue, faults->get(), CL_FALSE, 0, faults_.size() * kFaultBytes,
                              found->data(), 0, nullptr, run.ended.out()),
          "clEnqueueReadBuffer");
    run.check = [this, found](cl_int status) {
      Check(status, "a run");
      Raise(*found);
    };
  }
  Check(clFlush(queue.queue), "clFlush");
  if (context.profile) WriteProfile(queue, *context.profile);
  return run;
}

void Program::WriteProfile(const RunQueue& queue, const hammock::lazy::RunProfile& profile) const {
  Check(clFinish(queue.queue), "clFinish");
  const int64_t now = hammock::lazy::RunProfile::Now();
  auto time = [](const Event& event, cl_profiling_info what) {
    cl_ulong nanoseconds = 0;
    Check(clGetEventProfilingInfo(event.get(), what, sizeof(nanoseconds), &nanoseconds, nullptr),
          "clGetEventProfilingInfo");
    return static_cast<int64_t>(nanoseconds);
  };
  int64_t last = 0;
  for (const auto& [command, event] : queue.kernels) {
    last = std::max(last, time(event, CL_PROFILING_COMMAND_END));
  }
  const auto described = hammock::compiler::DescribeCommands(graph_, schedule_);
  for (const auto& [command, event] : queue.kernels) {
    // The device has a clock of its own: the last kernel ended now.
    profile.AddKernel(command, described.at(command).name,
                      now - last + time(event, CL_PROFILING_COMMAND_START),
                      now - last + time(event, CL_PROFILING_COMMAND_END));
  }
  profile.AddMemory(device_.memory().Info().in_use);
}

// ---- For people

int64_t Program::bytes() const {
  int64_t bytes = numbers_ ? numbers_->bytes : 0;
  for (const KernelSource& kernel : kernels_) bytes += static_cast<int64_t>(kernel.text.size());
  return bytes;
}

std::vector<std::string> Program::KernelNames() const {
  std::set<std::string> names;
  for (const KernelSource& kernel : kernels_) names.insert(kernel.name);
  return {names.begin(), names.end()};
}

std::string Program::ToText() const {
  std::string text = hammock::ToText(graph_) + hammock::compiler::ToText(schedule_, graph_);
  std::set<std::string> shown;
  for (const KernelSource& kernel : kernels_) {
    if (shown.insert(kernel.name).second) text += kernel.text;
  }
  return text;
}

hammock::lazy::ComputationInfo Program::Describe() const {
  return {graph_, hammock::compiler::DescribeCommands(graph_, schedule_), plan_.peak_bytes()};
}

std::string Program::WhyNot(const Graph& graph, NodeId id, const Device& device) {
  const GraphNode& node = graph[id];
  const std::string& op = node.op->info().name;
  auto why_not = [&](const hammock::Shape& type) -> std::string {
    const DType dtype = type.dtype();
    if (hammock::InfoOf(dtype).bits % 8 != 0) return "its elements are no bytes";
    const bool wide = dtype == DType::kF64 || dtype == DType::kC128;
    return wide && !device.has_f64() ? "the device has no 64-bit floats" : "";
  };
  for (hammock::GraphValue input : node.inputs) {
    if (!input.node) continue;
    if (std::string reason = why_not(graph.TypeOf(input)); !reason.empty()) return reason;
  }
  for (const hammock::Shape& type : node.types) {
    if (std::string reason = why_not(type); !reason.empty()) return reason;
  }
  if (op == "input" || BecomesReduction(op)) return "";
  if (hammock::compiler::IsInKernels(graph, id)) {
    if (node.op->scalar == hammock::ScalarFn::kNone || node.inputs.empty()) return "";
    const DType dtype = graph.TypeOf(node.inputs[0]).dtype();
    if (hammock::compiler::HasText(node.op->scalar, dtype)) return "";
    return fmt::format("there is no function for {}", hammock::NameOf(dtype));
  }
  if (op == "barrier" || op == "bitcast") return "";
  const CallEntry* entry = FindCall(op);
  if (!entry) return "there is no kernel for it";
  return entry->why_not ? entry->why_not(graph, node) : "";
}

}  // namespace opencl
