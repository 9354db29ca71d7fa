#include "compiler/loops/share_kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace hammock::compiler {
namespace {

/// A schedule as it is before kernels are shared: every command has a kernel of its own.
Schedule Unshared(const Graph& graph) {
  Schedule schedule = MakeSchedule(graph);
  for (Command& command : schedule.commands) {
    std::shared_ptr<const Kernel>& kernel = command.launch.kernel;
    if (kernel) kernel = std::make_shared<const Kernel>(*kernel);
  }
  return schedule;
}

/// By command: the first one that has the same kernel; -1 for a call.
std::vector<int> FirstWithKernel(const Schedule& schedule) {
  std::vector<int> first;
  for (const Command& command : schedule.commands) {
    auto same = std::ranges::find_if(schedule.commands, [&](const Command& other) {
      return other.launch.kernel == command.launch.kernel;
    });
    first.push_back(command.launch.kernel ? static_cast<int>(same - schedule.commands.begin())
                                          : -1);
  }
  return first;
}

TEST(ShareKernels, EqualOnesOfOtherSizesAndBuffersBecomeOne) {
  const Graph graph = ParseGraph(R"(
    %0 = input : f32[10]
    %1 = input : f32[20]
    %2 = exp %0 : f32[10]
    %3 = exp %1 : f32[20]
    %4:2 = sort %0 {dim=0, descending=false, stable=true} : f32[10], i64[10]
    %5 = neg %4.0 : f32[10]
    return %2, %3, %5)");
  Schedule schedule = Unshared(graph);
  const std::string before = ToText(schedule, graph);
  EXPECT_EQ(FirstWithKernel(schedule), (std::vector<int>{0, 1, -1, 3})) << before;
  ShareKernels(schedule);
  EXPECT_EQ(FirstWithKernel(schedule), (std::vector<int>{0, 0, -1, 3})) << before;
  EXPECT_EQ(ToText(schedule, graph), before);
}

/// Everything that makes code differ.
TEST(ShareKernels, OthersStayApart) {
  const Graph graph = ParseGraph(R"(
    %0 = input : f32[10]
    %1 = input : f64[20]
    %2 = input : f32[3,40]
    %3 = input : f32[50]
    %4 = exp %0 : f32[10]
    %5 = exp %1 : f64[20]
    %6 = sin %3 : f32[50]
    %7 = reduce_sum %2 {dims=[1], keepdim=false} : f32[3]
    %8 = reduce_max %2 {dims=[1], keepdim=false} : f32[3]
    %9 = reduce_sum %2 {dims=[0], keepdim=false} : f32[40]
    return %4, %5, %6, %7, %8, %9)");
  Schedule schedule = Unshared(graph);
  const std::vector<int> before = FirstWithKernel(schedule);
  ASSERT_GE(before.size(), 5u) << ToText(schedule, graph);
  ShareKernels(schedule);
  EXPECT_EQ(FirstWithKernel(schedule), before) << ToText(schedule, graph);
}

}  // namespace
}  // namespace hammock::compiler
