#include "backends/cuda/passes/fuse_random.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backends/cuda/emit/emit_cuda.h"
#include "hammock/compiler/donation_plan.h"
#include "hammock/compiler/schedule.h"

namespace hammock::cuda {
namespace {

/// Both halves of what Box-Muller needs, drawn where they are used.
TEST(FuseRandom, WordsAreDrawnByTheirKernel) {
  const std::string text = R"(
    %0 = input : u64[2]
    %1 = rng_bits %0 {sizes=[2,4096]} : u32[2,4096]
    %2 = slice %1 {dim=0, start=0, size=1, step=1} : u32[1,4096]
    %3 = slice %1 {dim=0, start=1, size=1, step=1} : u32[1,4096]
    %4 = bitwise_xor %2, %3 : u32[1,4096]
    return %4)";
  Graph graph = ParseGraph(text);
  compiler::Schedule schedule =
      FuseRandom(graph, compiler::MakeSchedule(graph, /*aligned_outputs=*/false, false));
  ASSERT_EQ(schedule.commands.size(), 1u) << compiler::ToText(schedule, graph);
  const compiler::Command& step = schedule.commands[0];
  EXPECT_EQ(step.reads, schedule.inputs);
  LaunchConfig config = ConfigureLaunch(step.launch);
  config.vector = 4;
  config.is_wide = {true, false, true};
  std::string kernel = EmitCuda(*step.launch.kernel, config).text;
  EXPECT_NE(kernel.find("const long long p1 = (long long)words.w[8];"), std::string::npos)
      << kernel;
  EXPECT_NE(kernel.find("random_blocks<4>(words.w[3], p0 + at, m0 + s * 4);"), std::string::npos)
      << kernel;
  EXPECT_NE(kernel.find("random_words<4>(words.w[6], p1 + at, m1 + s * 4);"), std::string::npos)
      << kernel;
  std::vector<uint64_t> arguments =
      KernelArguments(step.launch, config, {100, 200, 300, 400, 500}, 0, 0);
  EXPECT_EQ(arguments[6], 100u);
  EXPECT_EQ(arguments[8], 4096u);
}

TEST(FuseRandom, WordsThatOthersNeedAreWritten) {
  for (const char* result : {"%2, %1", "%2, %3"}) {
    Graph graph = ParseGraph(fmt::format(R"(
      %0 = input : u64[2]
      %1 = rng_bits %0 {{sizes=[8,4]}} : u32[8,4]
      %2 = neg %1 : u32[8,4]
      %3 = reduce_max %1 {{dims=[0], keepdim=false}} : u32[4]
      return {})",
                                         result));
    compiler::Schedule schedule =
        FuseRandom(graph, compiler::MakeSchedule(graph, /*aligned_outputs=*/false, false));
    EXPECT_TRUE(schedule.commands[0].is_call()) << compiler::ToText(schedule, graph);
  }
}

/// Every word needs all of the state, so nothing may be written there.
TEST(FuseRandom, ResultsDoNotReplaceTheState) {
  Graph graph = ParseGraph(R"(
    %0 = input : u64[2]
    %1 = rng_bits %0 {sizes=[2]} : u32[2]
    %2 = cast %1 {dtype=u64} : u64[2]
    return %2)");
  compiler::Schedule schedule =
      FuseRandom(graph, compiler::MakeSchedule(graph, /*aligned_outputs=*/false, false));
  ASSERT_EQ(schedule.commands.size(), 1u);
  EXPECT_EQ(compiler::DonationPlan(graph, schedule, {0}).Match({true}), std::vector<int>{-1});
}

}  // namespace
}  // namespace hammock::cuda
