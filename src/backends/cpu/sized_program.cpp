#include "backends/cpu/sized_program.h"

#include <algorithm>

#include "compiler/loops/program_outputs.h"
#include "compiler/loops/stream_results.h"
#include "hammock/config.h"
#include "hammock/metrics.h"
#include "ir/graph_sizes.h"

namespace hammock::cpu {

using compiler::SizedSchedule;

std::shared_ptr<const SizedProgram> SizedProgram::Make(const Graph& general,
                                                       const DerivedSizes& derived,
                                                       const std::vector<int64_t>& free) {
  compiler::SizedPlanner planner;
  planner.derived = derived;
  planner.graph = [&](const std::vector<int64_t>& at) {
    Graph graph = AtSizes(general, AllSizes(derived, at));
    Verify(graph);  // parameters that seem free may depend on each other
    return RewriteForCpu(graph);
  };
  // Whether results are written past the caches is asked at every size.
  planner.schedule = [](const Graph& graph) {
    return compiler::MakeSchedule(graph, /*aligned_outputs=*/false);
  };
  SizedSchedule::Made made = SizedSchedule::Make(planner, free);
  if (!made.sized) return nullptr;
  const std::vector<int> groups = GroupsOf(made.sized->schedule());
  return std::make_shared<const SizedProgram>(
      SavedSizes{made.sized, groups, Donates(made, groups)});
}

SizedProgram::SizedProgram(SavedSizes saved)
    : schedule_(std::move(saved.schedule)),
      facts_(schedule_->graph(), schedule_->schedule(), std::move(saved.group_last)),
      donates_(saved.donates) {
  if (!donates_) {
    facts_.donations = compiler::DonationPlan(schedule_->schedule().outputs.size());
  }
  const compiler::Schedule& schedule = schedule_->schedule();
  std::vector<std::shared_ptr<KernelCode>> kernels;
  for (const compiler::Step& step : schedule.steps) {
    codes_.push_back(step.launch.kernel ? KernelCode::Get(step.launch.kernel) : nullptr);
    if (codes_.back()) kernels.push_back(codes_.back());
  }
  if (config::Get<kWaitForCode>()) KernelCode::WaitFor(kernels);
  read_ = compiler::BuffersRead(schedule);
  std::vector<int64_t> bytes = compiler::BytesOf(schedule);
  for (size_t i = 0; i < schedule.steps.size(); ++i) {
    if (schedule_->varies(i)) {
      steps_.push_back(nullptr);
      continue;
    }
    PreparedStep::Sized sized{schedule.steps[i].launch, nullptr};
    compiler::StreamResults(sized.launch, schedule.steps[i], schedule, bytes, read_);
    std::shared_ptr<KernelCode> code = codes_[i];
    if (code && sized.launch.kernel != schedule.steps[i].launch.kernel) {
      code = KernelCode::Get(sized.launch.kernel);
    }
    steps_.push_back(std::make_shared<const PreparedStep>(schedule_->graph(), schedule, i,
                                                          std::move(sized), std::move(code)));
  }
}

/// Outputs that can take the memory of an input at some sizes only take none.
bool SizedProgram::Donates(const SizedSchedule::Made& made, const std::vector<int>& group_last) {
  auto plan = [&](const compiler::ScheduledGraph& sample) {
    return compiler::DonationPlan(sample.graph, sample.schedule, group_last);
  };
  const compiler::DonationPlan first = plan(made.samples[0]);
  return std::ranges::all_of(made.samples,
                             [&](const auto& sample) { return plan(sample) == first; });
}

void SizedProgram::AddKernels(std::vector<std::shared_ptr<KernelCode>>& kernels) const {
  for (const auto& code : codes_) {
    if (code) kernels.push_back(code);
  }
  for (const auto& step : steps_) {
    if (step) step->AddKernels(kernels);
  }
}

std::shared_ptr<const PreparedStep> SizedProgram::StepAt(size_t step,
                                                         const SizedSchedule::Basis& basis,
                                                         const std::vector<int64_t>& bytes) const {
  if (steps_[step]) return steps_[step];
  const compiler::Schedule& schedule = schedule_->schedule();
  const compiler::Step& scheduled = schedule.steps[step];
  PreparedStep::Sized sized{schedule_->LaunchAt(step, basis), nullptr};
  if (scheduled.is_call()) sized.call = std::make_unique<Graph>(schedule_->CallAt(step, basis));
  std::shared_ptr<KernelCode> code = codes_[step];
  if (code) {
    compiler::StreamResults(sized.launch, scheduled, schedule, bytes, read_);
    if (sized.launch.kernel != scheduled.launch.kernel) {
      code = KernelCode::Get(sized.launch.kernel);
      if (config::Get<kWaitForCode>()) KernelCode::WaitFor({code});
    }
  }
  return std::make_shared<const PreparedStep>(schedule_->graph(), schedule, step, std::move(sized),
                                              std::move(code));
}

int64_t SizedProgram::bytes() const {
  int64_t bytes = schedule_->bytes();
  for (const auto& step : steps_) bytes += step ? step->bytes() : 0;
  return bytes;
}

std::shared_ptr<Program> ProgramsBySize::At(const std::vector<int64_t>& sizes) {
  if (std::optional<std::vector<int64_t>> free = FreeSizes(derived_, sizes)) {
    auto make = [&] { return SizedProgram::Make(general_, derived_, *free); };
    if (auto sized = made_.Find(*free, make)) {
      return std::make_shared<Program>(std::move(sized), *free);
    }
  }
  static metrics::Counter& scheduled = metrics::GetCounter("cpu::SizesScheduled");
  scheduled.Add();
  return std::make_shared<Program>(AtSizes(general_, sizes));
}

}  // namespace hammock::cpu
