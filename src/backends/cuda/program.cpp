#include "backends/cuda/program.h"

#include <fmt/format.h>

#include <numeric>
#include <utility>

#include "backends/cuda/attention_views.h"
#include "backends/cuda/expand_attention.h"
#include "backends/cuda/fill_slices.h"
#include "backends/cuda/fuse_random.h"
#include "backends/cuda/narrow_products.h"
#include "backends/cuda/scatter_rows.h"
#include "base/throw.h"
#include "base/trace_file.h"
#include "compiler/describe_schedule.h"
#include "compiler/fusion_facts.h"
#include "compiler/remove_dead.h"
#include "compiler/split_reductions.h"
#include "hammock/config.h"
#include "hammock/lazy/backend_interface.h"
#include "hammock/metrics.h"

namespace hammock::cuda {

namespace {

size_t Index(int i) { return static_cast<size_t>(i); }

}  // namespace

struct Program::PreparedStep {
  // Of a kernel.
  KernelCut cut;
  Grid grid;
  const compiler::Launch* launch = nullptr;
  std::shared_ptr<Function> function;
  // Of a call.
  std::unique_ptr<Call> call;
  std::vector<int> operands;  // buffers, -1 for absent ones
  std::vector<int> results;
  int fault = -1;  // which of the words
  // For errors: of the graph as given.
  NodeId node = -1;
  LocationId location = 0;
};

Program::Program(const Graph& graph, std::shared_ptr<Machine> machine)
    : machine_(std::move(machine)),
      graph_(ScatterRows(NarrowProducts(SplitReductions(
          RemoveDead(AttentionViews(ExpandAttention(FillSlices(compiler::WithOrigins(graph))))))))),
      schedule_(FuseRandom(graph_, compiler::MakeSchedule(graph_, /*aligned_outputs=*/false,
                                                          /*epilogues=*/false))) {
  recordings_ = std::make_unique<Recordings>();
  PrepareSteps();
  LoadFunctions();
  std::vector<int64_t> scratch;
  for (const PreparedStep& step : steps_) {
    scratch.push_back(step.call ? step.call->scratch_bytes()
                                : ScratchBytes(*step.launch, step.cut));
  }
  plan_ = compiler::PlanMemory(schedule_, scratch);
  faults_at_ = (plan_.arena_bytes + 63) / 64 * 64;
  if (fault_count_ > 0) plan_.arena_bytes = faults_at_ + fault_count_ * 8;
  outputs_ = compiler::FindOutputSources(schedule_);
  std::vector<int> alone(schedule_.steps.size());
  std::iota(alone.begin(), alone.end(), 0);
  replaceable_ = compiler::FindReplaceable(graph_, schedule_, alone);
}

Program::~Program() = default;

void Program::PrepareSteps() {
  steps_.resize(schedule_.steps.size());
  for (size_t i = 0; i < steps_.size(); ++i) {
    const compiler::Step& step = schedule_.steps[i];
    PreparedStep& prepared = steps_[i];
    NodeId id = step.is_call() ? step.node : step.nodes.back();
    prepared.node = graph_[id].origin;
    prepared.location = graph_[id].location;
    if (!step.is_call()) {
      prepared.launch = &step.launch;
      prepared.cut = CutKernel(step.launch);
      prepared.grid = GridOf(step.launch, prepared.cut);
      continue;
    }
    prepared.call = MakeCall(graph_, id, *machine_);
    if (!prepared.call) {
      Throw<CompileError>(ErrorCode::kCompile, "cuda has no kernel for {}", graph_[id].op->name());
    }
    for (GraphValue input : graph_[id].inputs) {
      prepared.operands.push_back(
          input.node < 0 ? -1 : schedule_.BufferOf(compiler::StorageOf(graph_, input)));
    }
    for (size_t r = 0; r < graph_[id].types.size(); ++r) {
      prepared.results.push_back(schedule_.BufferOf({id, static_cast<int32_t>(r)}));
    }
    if (prepared.call->can_fail()) prepared.fault = fault_count_++;
  }
}

std::vector<KernelSource> Program::Sources() const {
  std::vector<KernelSource> sources;
  for (const PreparedStep& step : steps_) {
    if (step.call) {
      for (KernelSource& source : step.call->Sources()) sources.push_back(std::move(source));
    } else {
      sources.push_back(EmitCuda(*step.launch->kernel, step.cut));
    }
  }
  return sources;
}

void Program::LoadFunctions() {
  std::vector<std::shared_ptr<Function>> functions = machine_->Load(Sources());
  auto next = functions.begin();
  for (PreparedStep& step : steps_) {
    if (step.call) {
      auto end = next + static_cast<ptrdiff_t>(step.call->Sources().size());
      step.call->SetFunctions({next, end});
      next = end;
    } else {
      step.function = *next++;
    }
  }
}

int Program::kernels() const {
  return static_cast<int>(std::count_if(steps_.begin(), steps_.end(),
                                        [](const PreparedStep& step) { return !step.call; }));
}

int64_t Program::bytes() const {
  return static_cast<int64_t>(graph_.nodes().size() * sizeof(GraphNode) +
                              steps_.size() * (sizeof(PreparedStep) + sizeof(compiler::Step)) +
                              schedule_.buffers.size() * sizeof(Shape));
}

void Program::Run(std::span<const Address> inputs, std::span<const Address> outputs,
                  Address arena) const {
  const tracing::RunningGraph* traced = std::exchange(tracing::running_graph, nullptr);
  if (traced || config::Get<config::kCudaTimeSteps>()) [[unlikely]] {
    return RunTimed(BuffersOf(inputs, outputs, arena), arena, traced);
  }
  if (!config::Get<config::kCudaDumpFailures>().empty()) [[unlikely]] {
    return RunWatched(BuffersOf(inputs, outputs, arena), arena);
  }
  auto work = [&] { RunSteps(BuffersOf(inputs, outputs, arena), arena); };
  if (steps_.empty()) {
    work();
  } else {
    std::vector<Address> addresses;
    addresses.reserve(inputs.size() + outputs.size() + 1);
    addresses.insert(addresses.end(), inputs.begin(), inputs.end());
    addresses.insert(addresses.end(), outputs.begin(), outputs.end());
    addresses.push_back(arena);
    recordings_->Run(*machine_, std::move(addresses), work);
  }
}

std::vector<Address> Program::BuffersOf(std::span<const Address> inputs,
                                        std::span<const Address> outputs, Address arena) const {
  std::vector<Address> buffers(schedule_.buffers.size());
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (plan_.offset[i] >= 0) buffers[i] = arena + static_cast<Address>(plan_.offset[i]);
  }
  for (size_t i = 0; i < inputs.size(); ++i) buffers[Index(schedule_.inputs[i])] = inputs[i];
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs_[i].input < 0 && outputs_[i].same < 0) {
      buffers[Index(schedule_.outputs[i])] = outputs[i];
    }
  }
  return buffers;
}

void Program::ClearFaults(Address arena) const {
  if (fault_count_ > 0) machine_->Clear(arena + static_cast<Address>(faults_at_), fault_count_ * 8);
}

void Program::RunSteps(const std::vector<Address>& buffers, Address arena) const {
  ClearFaults(arena);
  for (size_t i = 0; i < steps_.size(); ++i) RunStep(i, buffers, arena);
}

void Program::RunStep(size_t i, const std::vector<Address>& buffers, Address arena) const {
  const PreparedStep& step = steps_[i];
  int64_t at = plan_.scratch_offset[i];
  Address scratch = at < 0 ? 0 : arena + static_cast<Address>(at);
  try {
    if (step.call) {
      Address faults = arena + static_cast<Address>(faults_at_);
      Address fault = step.fault < 0 ? 0 : faults + static_cast<Address>(step.fault) * 8;
      RunCall(step, buffers, scratch, fault);
    } else if (!step.grid.empty()) {
      machine_->Launch(*step.function, step.grid,
                       ArgumentWords(*step.launch, step.cut, buffers, scratch));
    }
  } catch (const MachineLost&) {
    throw;  // by something earlier
  } catch (const DeviceError& error) {
    lazy::ExecutionError at_node(error.code(),
                                 fmt::format("{}: {}", NameOfStep(i), error.message()), step.node);
    at_node.SetWhere(LocationText(step.location));
    throw at_node;
  }
}

void Program::RunWatched(const std::vector<Address>& buffers, Address arena) const {
  machine_->Finish();
  ClearFaults(arena);
  for (size_t i = 0; i < steps_.size(); ++i) {
    try {
      RunStep(i, buffers, arena);
      machine_->Finish();
    } catch (const MachineLost& error) {
      MachineLost here(error.code(), fmt::format("{}: {}", NameOfStep(i), error.message()));
      here.SetWhere(LocationText(steps_[i].location));
      throw here;
    }
  }
}

void Program::RunTimed(const std::vector<Address>& buffers, Address arena,
                       const tracing::RunningGraph* traced) const {
  machine_->Finish();
  const int64_t start = tracing::Now();
  ClearFaults(arena);
  std::vector<std::shared_ptr<Moment>> moments = {machine_->MarkTime()};
  for (size_t i = 0; i < steps_.size(); ++i) {
    RunStep(i, buffers, arena);
    moments.push_back(machine_->MarkTime());
  }
  machine_->Finish();
  auto since_start = [&](size_t moment) {
    return static_cast<int64_t>(machine_->Seconds(*moments[0], *moments[moment]) * 1e9);
  };
  for (size_t i = 0; i < steps_.size(); ++i) {
    int64_t begin = since_start(i), end = since_start(i + 1);
    if (config::Get<config::kCudaTimeSteps>()) {
      std::string name = fmt::format("cuda::step::{}_{}", i, NameOfStep(i));
      metrics::GetMetric(name, metrics::Kind::kTime).AddSample(static_cast<double>(end - begin));
    }
    if (traced) {
      tracing::WriteSpan("kernel", NameOfStep(i), start + begin, start + end,
                         fmt::format(R"({{"graph":{},"kernel":{}}})", traced->number,
                                     traced->first_kernel + static_cast<int64_t>(i)));
    }
  }
}

std::string Program::NameOfStep(size_t i) const {
  return compiler::NameOfStep(graph_, schedule_.steps[i]);
}

std::string Program::NamesOfSteps() const {
  constexpr size_t kMost = 6;
  std::string names;
  for (size_t i = 0; i < steps_.size() && i < kMost; ++i) {
    std::string where = LocationText(steps_[i].location);
    names += fmt::format("{}{}{}", i == 0 ? "" : ", ", NameOfStep(i),
                         where.empty() ? "" : " at " + where);
  }
  if (steps_.size() > kMost) names += fmt::format(" and {} more", steps_.size() - kMost);
  return names;
}

std::string Program::Where() const {
  for (const PreparedStep& step : steps_) {
    if (std::string where = LocationText(step.location); !where.empty()) return where;
  }
  return "";
}

void Program::RunCall(const PreparedStep& step, const std::vector<Address>& buffers,
                      Address scratch, Address fault) const {
  std::vector<Address> in, out;
  for (int buffer : step.operands) in.push_back(buffer < 0 ? 0 : buffers[Index(buffer)]);
  for (int buffer : step.results) out.push_back(buffers[Index(buffer)]);
  step.call->Run(*machine_, {in, out, scratch, fault});
}

void Program::CheckFaults(Address arena, const Moment* after) const {
  if (fault_count_ == 0) return;
  std::vector<uint64_t> words(Index(fault_count_));
  machine_->Download(words.data(), arena + static_cast<Address>(faults_at_), fault_count_ * 8,
                     after);
  for (const PreparedStep& step : steps_) {
    if (step.fault < 0 || words[Index(step.fault)] == 0) continue;
    lazy::ExecutionError error(step.call->FaultCode(),
                               step.call->FaultMessage(words[Index(step.fault)]), step.node);
    error.SetWhere(LocationText(step.location));
    throw error;
  }
}

std::string Program::ToText(std::string_view what) const {
  std::string text = hammock::ToText(graph_) + "\n" + compiler::ToText(schedule_, graph_);
  text += fmt::format("arena {} bytes, outputs {} bytes\n", plan_.arena_bytes, plan_.output_bytes);
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (steps_[i].call) continue;
    text += fmt::format("step {}: {}", i, cuda::ToText(steps_[i].cut));
    if (what == "steps") continue;
    KernelSource source = EmitCuda(*steps_[i].launch->kernel, steps_[i].cut);
    std::string assembly = what == "ptx" ? machine_->Assembly(source) : "";
    text += assembly.empty() ? source.text : assembly;
  }
  return text;
}

lazy::ComputationInfo Program::Describe() const {
  lazy::ComputationInfo info{graph_, compiler::DescribeSteps(graph_, schedule_),
                             plan_.peak_bytes()};
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (steps_[i].call) continue;
    info.kernels[i].text += "\n" + EmitCuda(*steps_[i].launch->kernel, steps_[i].cut).text;
  }
  return info;
}

}  // namespace hammock::cuda
