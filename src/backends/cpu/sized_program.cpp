#include "backends/cpu/sized_program.h"

#include <algorithm>

#include "compiler/loops/show_groups.h"
#include "compiler/loops/stream_results.h"
#include "hammock/compiler/program_outputs.h"
#include "hammock/config.h"
#include "hammock/metric.h"

namespace hammock::cpu {

namespace {

constinit const metrics::DeclaredCounter kSizesScheduled({
    .name = "cpu::SizesScheduled",
    .doc = "New sizes of known graphs that needed a schedule of their own.",
});

using compiler::SizedSchedule;

}  // namespace

metrics::Counter& Target::scheduled() const { return metrics::Get<kSizesScheduled>(); }

std::shared_ptr<const SizedProgram> Target::Share(std::shared_ptr<const SizedSchedule> made) const {
  std::vector<int> groups = GroupsOf(made->schedule());
  compiler::ShowGroups(made->graph(), made->schedule(), groups);
  return Share(SavedSizes{std::move(made), std::move(groups)});
}

SizedProgram::SizedProgram(SavedSizes saved)
    : schedule_(std::move(saved.schedule)),
      facts_(schedule_->graph(), schedule_->AtDistinctSizes(), std::move(saved.group_last)) {
  const compiler::Schedule& schedule = schedule_->schedule();
  std::vector<std::shared_ptr<KernelCode>> kernels;
  for (const compiler::Command& command : schedule.commands) {
    codes_.push_back(command.launch.kernel ? KernelCode::Get(command.launch.kernel) : nullptr);
    if (codes_.back()) kernels.push_back(codes_.back());
  }
  if (config::Get<kWaitForCode>()) KernelCode::WaitFor(kernels);
  read_ = compiler::BuffersRead(schedule);
  compiler::BufferMap<int64_t> bytes = compiler::BytesOf(schedule);
  for (size_t i = 0; i < schedule.commands.size(); ++i) {
    if (schedule_->varies(i)) {
      commands_.push_back(nullptr);
      continue;
    }
    auto launch = std::make_unique<compiler::Launch>(schedule.commands[i].launch);
    compiler::StreamResults(*launch, schedule.commands[i], schedule, bytes, read_);
    std::shared_ptr<KernelCode> code = codes_[i];
    if (code && launch->kernel != schedule.commands[i].launch.kernel) {
      code = KernelCode::Get(launch->kernel);
    }
    commands_.push_back(std::make_shared<const PreparedCommand>(
        schedule_->graph(), schedule, i, PreparedCommand::Sized{std::move(launch), nullptr},
        std::move(code)));
  }
}

void SizedProgram::AddKernels(std::vector<std::shared_ptr<KernelCode>>& kernels) const {
  for (const auto& code : codes_) {
    if (code) kernels.push_back(code);
  }
  for (const auto& command : commands_) {
    if (command) command->AddKernels(kernels);
  }
}

void SizedProgram::AddBodies(std::vector<const Program*>& bodies) const {
  for (const auto& command : commands_) {
    if (command) command->AddBodies(bodies);
  }
}

std::shared_ptr<const PreparedCommand> SizedProgram::CommandAt(
    size_t command, const SizedSchedule::Basis& basis,
    const compiler::BufferMap<int64_t>& bytes) const {
  if (commands_[command]) return commands_[command];
  const compiler::Schedule& schedule = schedule_->schedule();
  const compiler::Command& scheduled = schedule.commands[command];
  auto launch = std::make_unique<compiler::Launch>(schedule_->LaunchAt(command, basis));
  std::shared_ptr<KernelCode> code = codes_[command];
  if (code) {
    compiler::StreamResults(*launch, scheduled, schedule, bytes, read_);
    if (launch->kernel != scheduled.launch.kernel) {
      code = KernelCode::Get(launch->kernel);
      if (config::Get<kWaitForCode>()) KernelCode::WaitFor({code});
    }
  }
  PreparedCommand::Sized sized{std::move(launch), nullptr};
  if (scheduled.is_call()) sized.call = std::make_unique<Graph>(schedule_->CallAt(command, basis));
  return std::make_shared<const PreparedCommand>(schedule_->graph(), schedule, command,
                                                 std::move(sized), std::move(code));
}

int64_t SizedProgram::bytes() const {
  int64_t bytes = schedule_->bytes();
  for (const auto& command : commands_) bytes += command ? command->bytes() : 0;
  return bytes;
}

}  // namespace hammock::cpu
