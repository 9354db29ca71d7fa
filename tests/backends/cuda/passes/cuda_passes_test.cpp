// The way from a graph to kernels, as `print_passes` and `hammock dump` show it.

#include "backends/cuda/passes/cuda_passes.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "backends/cuda/emulated.h"

namespace hammock::cuda {
namespace {

/// A kernel that draws random words, and one that is moved behind the check of an index.
constexpr const char* kText = R"(
  %0 = input : f32[64]
  %1 = input : u64[2]
  %2 = input : i64[3]
  %3 = exp %0 : f32[64]
  %4 = rng_bits %1 {sizes=[64]} : u32[64]
  %5 = neg %4 : u32[64]
  %6 = index_select %5, %2 {dim=0} : u32[3]
  return %3, %6)";

TEST(CudaPasses, RunInThisOrder) {
  std::string names;
  for (const Pass& pass : CudaPasses()) names += std::string(pass.name) + "\n";
  EXPECT_EQ(names,
            "copies_to_where\n"
            "chunk_attention\n"
            "expand_attention\n"
            "fold_attention_views\n"
            "remove_dead\n"
            "pack_attention_gradients\n"
            "vector_matmuls\n"
            "arg_reductions\n"
            "split_reductions\n"
            "narrow_matmuls\n"
            "sign_byte_matmuls\n"
            "remove_dead\n"
            "round_matmuls\n"
            "remove_dead\n"
            "fuse_bias_and_relu\n"
            "scatter_rows\n"
            "keep_channels_last\n"
            "remove_dead\n");
}

/// As text: two independent updates run as one kernel.
TEST(CudaPasses, GroupsAreShown) {
  if (!WhyNotEmulated().empty()) GTEST_SKIP() << WhyNotEmulated();
  PassListener passes;
  Program program(ParseGraph(R"(
    %0 = input : f32[10]
    %1 = input : f32[3,7]
    %2 = neg %0 : f32[10]
    %3 = add %1, %1 : f32[3,7]
    return %2, %3)"),
                  EmulatedForTests());
  EXPECT_EQ(passes.results.back().pass, "group_commands");
  EXPECT_NE(passes.results.back().schedule.find("concurrent: 0 to 1\n"), std::string::npos)
      << passes.results.back().schedule;
}

TEST(CudaPasses, SchedulesAreShownAfterEachRewrite) {
  if (!WhyNotEmulated().empty()) GTEST_SKIP() << WhyNotEmulated();
  const Graph graph = ParseGraph(kText);
  std::vector<std::string> names;
  std::string last;
  PassListener passes;
  Program program(graph, EmulatedForTests());
  for (const PassResult& result : passes.results) {
    EXPECT_EQ(result.schedule.empty(), names.empty() && result.pass != "schedule");
    if (result.schedule.empty()) continue;
    EXPECT_NE(result.schedule, last) << result.pass;
    names.push_back(result.pass);
    last = result.schedule;
  }
  EXPECT_EQ(names, (std::vector<std::string>{"schedule", "fuse_random", "write_late"}));
}

}  // namespace
}  // namespace hammock::cuda
