#include <fmt/format.h>

#include <algorithm>

#include "backends/cuda/arrangement.h"
#include "backends/cuda/program.h"
#include "hammock/compiler/describe_schedule.h"

namespace hammock::cuda {

std::string Program::NameOfCommand(size_t i) const {
  return compiler::NameOfCommand(graph(), schedule().commands[i]);
}

std::string Program::NameOfGroup(size_t first) const {
  int others = group_last()[first] - static_cast<int>(first);
  return NameOfCommand(first) + (others > 0 ? fmt::format("_and_{}_concurrent", others) : "");
}

std::string Program::NamesOfCommands() const {
  constexpr size_t kMost = 6;
  std::string names;
  for (size_t i = 0; i < commands_.size() && i < kMost; ++i) {
    std::string where = LocationText(arrangement_->commands[i].location);
    names += fmt::format("{}{}{}", i == 0 ? "" : ", ", NameOfCommand(i),
                         where.empty() ? "" : " at " + where);
  }
  if (commands_.size() > kMost) names += fmt::format(" and {} more", commands_.size() - kMost);
  return names;
}

std::string Program::Where() const {
  for (const Arrangement::Command& command : arrangement_->commands) {
    if (std::string where = WhereText(command.location); !where.empty()) return where;
  }
  return "";
}

std::string Program::LargestBuffers() const {
  const compiler::ScheduledGraph own = AtOwnSizes();
  return compiler::LargestBuffers(own.graph, own.schedule);
}

int Program::kernels() const {
  return static_cast<int>(std::count_if(commands_.begin(), commands_.end(),
                                        [](const auto& command) { return !command->call; }));
}

int64_t Program::bytes() const {
  size_t bytes = plan_.offset.size() * sizeof(int64_t);
  for (size_t i = 0; i < commands_.size(); ++i) {
    if (arrangement_->IsFixed(i)) continue;
    bytes += sizeof(PreparedCommand) + LaunchOf(i).maps.size() * sizeof(compiler::AccessMap);
  }
  if (!is_sized() || !is_typical_) {  // else others share them
    bytes += graph().nodes().size() * sizeof(GraphNode) +
             commands_.size() * sizeof(compiler::Command) +
             schedule().buffers.size() * sizeof(compiler::BufferType);
  }
  return static_cast<int64_t>(bytes);
}

std::string Program::ToText(std::string_view what) const {
  const compiler::ScheduledGraph own = AtOwnSizes();
  std::string text = DescribePlan(own.graph, own.schedule, plan_);
  for (size_t i = 0; i < commands_.size(); i = group_last()[i] + 1) {
    if (commands_[i]->call) continue;
    if (commands_[i]->joint) {
      text += fmt::format("commands {} to {} in one launch\n", i, group_last()[i]);
    } else {
      text += fmt::format("command {}: {}", i, cuda::ToText(commands_[i]->config));
    }
    if (what == "schedule") continue;
    KernelSource source = commands_[i]->joint ? commands_[i]->joint->source()
                                              : EmitCuda(*LaunchOf(i).kernel, commands_[i]->config);
    std::string assembly = what == "ptx" ? machine_->Assembly(source) : "";
    text += assembly.empty() ? source.text : assembly;
  }
  return text;
}

lazy::ComputationInfo Program::Describe() const {
  const compiler::ScheduledGraph own = AtOwnSizes();
  lazy::ComputationInfo info{own.graph, compiler::DescribeCommands(own.graph, own.schedule),
                             plan_.peak_bytes()};
  for (size_t i = 0; i < commands_.size(); ++i) {
    if (commands_[i]->call) continue;
    info.kernels[i].text += "\n" + EmitCuda(*LaunchOf(i).kernel, commands_[i]->config).text;
  }
  return info;
}

}  // namespace hammock::cuda
