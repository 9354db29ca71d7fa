// Schedules: which nodes become one kernel, and what kernels look like.

#include "hammock/compiler/schedule.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/passes/split_reductions.h"
#include "hammock/compiler/memory_plan.h"
#include "hammock/ir/graph.h"

namespace hammock::compiler {
namespace {

struct Scheduled {
  Graph graph;
  Schedule schedule;
};

Scheduled ScheduleOf(const std::string& text) {
  Scheduled result{SplitReductions(ParseGraph(text)), {}};
  Verify(result.graph);
  result.schedule = MakeSchedule(result.graph);
  const BufferMap<int64_t> sizes = BytesOf(result.schedule);
  for (const Command& command : result.schedule.commands) {
    if (command.launch.kernel) CheckBounds(command.launch, sizes);
  }
  return result;
}

TEST(Schedule, SoftmaxIsOneKernelThatKeepsTheRow) {
  Scheduled s = ScheduleOf(R"(
    %0 = input : f32[64,100]
    %1 = reduce_max %0 {dims=[1], keepdim=true} : f32[64,1]
    %2 = broadcast %1 {sizes=[64,100]} : f32[64,100]
    %3 = sub %0, %2 : f32[64,100]
    %4 = exp %3 : f32[64,100]
    %5 = reduce_sum %4 {dims=[1], keepdim=true} : f32[64,1]
    %6 = broadcast %5 {sizes=[64,100]} : f32[64,100]
    %7 = div %4, %6 : f32[64,100]
    return %7)");
  ASSERT_EQ(s.schedule.commands.size(), 1u);
  EXPECT_EQ(ToText(s.schedule.commands[0].launch),
            "launch [] x 64 x 100\n"
            "  a0 = b0 at 0 + [] + row*100 + column*1\n"
            "  a1 = b-1 at 0 + [] + row*0 + column*1\n"
            "  a2 = b9 at 0 + [] + row*100 + column*1\n"
            "kernel\n"
            "  a0 = f32 row n column 1\n"
            "  a1 = scratch f32 row 0 column 1\n"
            "  a2 = f32 row n column 1\n"
            "  0 all: %0 = load a0 : f32\n"
            "  0 row: %1 = reduce_max %0 : f32\n"
            "  1 all: %2 = load a0 : f32\n"
            "  1 all: %3 = sub %2, %1 : f32\n"
            "  1 all: %4 = exp %3 : f32\n"
            "  1 row: %5 = reduce_sum %4 : f32\n"
            "  2 all: %6 = load a1 : f32\n"
            "  2 all: %7 = div %6, %5 : f32\n"
            "  1 all: store a1, %4 : f32\n"
            "  2 all: store a2, %7 : f32\n");
}

TEST(Kernel, IsNamedAfterWhatItComputes) {
  auto name = [](const std::string& text) {
    Schedule schedule = MakeSchedule(ParseGraph(text));
    return FunctionName(*schedule.commands[0].launch.kernel);
  };
  EXPECT_EQ(name("%0 = input : f32[8]\n%1 = exp %0 : f32[8]\n%2 = mul %1, %1 : f32[8]\n"
                 "%3 = exp %2 : f32[8]\n%4 = reduce_sum %3 {dims=[0], keepdim=false} : f32[]\n"
                 "return %4"),
            "kernel_exp_mul_reduce_sum");
  EXPECT_EQ(name("%0 = input : f32[8]\n%1 = sin %0 : f32[8]\n%2 = cos %1 : f32[8]\n"
                 "%3 = tanh %2 : f32[8]\n%4 = neg %3 : f32[8]\n%5 = abs %4 : f32[8]\nreturn %5"),
            "kernel_sin_cos_tanh_neg_and_more");
  EXPECT_EQ(name("%0 = input : f32[2,3]\n%1 = permute %0 {dims=[1,0]} : f32[3,2]\nreturn %1"),
            "kernel_copy");
}

TEST(Schedule, ReductionOfAnOuterDimHasLanesAlongRowsAndTakesItsProducers) {
  Scheduled s = ScheduleOf(R"(
    %0 = input : f32[64,8,16]
    %1 = input : f32[16]
    %2 = broadcast %1 {sizes=[64,8,16]} : f32[64,8,16]
    %3 = mul %0, %2 : f32[64,8,16]
    %4 = reshape %3 {sizes=[512,16]} : f32[512,16]
    %5 = reduce_sum %4 {dims=[0], keepdim=false} : f32[16]
    return %5)");
  ASSERT_EQ(s.schedule.commands.size(), 1u);
  EXPECT_EQ(ToText(s.schedule.commands[0].launch),
            "launch [] x 16 x 512\n"
            "  a0 = b0 at 0 + [] + row*1 + column*16\n"
            "  a1 = b1 at 0 + [] + row*1 + column*0\n"
            "  a2 = b5 at 0 + [] + row*1 + column*0\n"
            "kernel, lanes along rows\n"
            "  a0 = f32 row 1 column n\n"
            "  a1 = f32 row 1 column 0\n"
            "  a2 = f32 row 1 column 0\n"
            "  0 all: %0 = load a0 : f32\n"
            "  0 row: %1 = load a1 : f32\n"
            "  0 all: %2 = mul %0, %1 : f32\n"
            "  0 row: %3 = reduce_sum %2 : f32\n"
            "  1 row: store a2, %3 : f32\n");
}

TEST(Schedule, ViewsAreStridesAndReshapesAreNothing) {
  Scheduled s = ScheduleOf(R"(
    %0 = input : f32[6,8]
    %1 = flip %0 {dims=[1]} : f32[6,8]
    %2 = slice %1 {dim=0, start=1, size=2, step=3} : f32[2,8]
    %3 = reshape %2 {sizes=[2,2,4]} : f32[2,2,4]
    %4 = neg %3 : f32[2,2,4]
    %5 = reshape %4 {sizes=[16]} : f32[16]
    return %5)");
  ASSERT_EQ(s.schedule.commands.size(), 1u);
  std::string text = ToText(s.schedule.commands[0].launch);
  EXPECT_NE(text.find("launch [] x 2 x 8\n"
                      "  a0 = b0 at 15 + [] + row*24 + column*-1\n"
                      "  a1 = b4 at 0 + [] + row*8 + column*1\n"),
            std::string::npos)
      << text;
  EXPECT_EQ(s.schedule.outputs, std::vector{BufferId(4)});
}

TEST(Schedule, AKernelDoesNotReadElementsThatItComputesElsewhere) {
  // The second exp needs other rows of the first: they must be in memory.
  Scheduled s = ScheduleOf(R"(
    %0 = input : f32[8,8]
    %1 = exp %0 : f32[8,8]
    %2 = permute %1 {dims=[1,0]} : f32[8,8]
    %3 = add %1, %2 : f32[8,8]
    return %3)");
  EXPECT_EQ(s.schedule.commands.size(), 2u) << ToText(s.schedule, s.graph);
}

TEST(Schedule, FewLongRowsAreLeftToSeveralKernels) {
  Scheduled s = ScheduleOf(R"(
    %0 = input : f32[2,60000]
    %1 = reduce_sum %0 {dims=[1], keepdim=true} : f32[2,1]
    %2 = broadcast %1 {sizes=[2,60000]} : f32[2,60000]
    %3 = sub %0, %2 : f32[2,60000]
    return %3)");
  EXPECT_EQ(s.schedule.commands.size(), 2u) << ToText(s.schedule, s.graph);
}

/// An update whose rate follows from the count of steps: the rate comes first, and the update joins
/// the kernel that makes the gradient.
TEST(Schedule, NumbersOfInputsComeFirst) {
  Scheduled s = ScheduleOf(R"(
    %0 = input : f32[64,100]
    %1 = input : f32[64,100]
    %2 = input : f32[]
    %3 = mul %0, %0 : f32[64,100]
    %4 = exp %2 : f32[]
    %5 = sqrt %4 : f32[]
    %6 = broadcast %5 {sizes=[64,100]} : f32[64,100]
    %7 = mul %3, %6 : f32[64,100]
    %8 = sub %1, %7 : f32[64,100]
    return %3, %8)");
  ASSERT_EQ(s.schedule.commands.size(), 2u) << ToText(s.schedule, s.graph);
  EXPECT_EQ(s.schedule.commands[0].launch.columns, 1);
  EXPECT_EQ(s.schedule.commands[1].writes.size(), 2u);
}

TEST(Schedule, WorkOnSumsMayStandApart) {
  Graph graph = ParseGraph(R"(
    %0 = input : f32[4096,100]
    %1 = input : f32[100]
    %2 = reduce_sum %0 {dims=[0], keepdim=false} : f32[100]
    %3 = sub %1, %2 : f32[100]
    return %3)");
  auto kernels = [&](bool rows_apart) {
    return MakeSchedule(graph, /*aligned_outputs=*/false, /*epilogues=*/false, rows_apart)
        .commands.size();
  };
  EXPECT_EQ(kernels(false), 1u);
  EXPECT_EQ(kernels(true), 2u);
}

TEST(Schedule, OfManyOpsIsManyKernelsOfBoundedSize) {
  auto chain = [](int count) {
    Graph graph;
    GraphValue x = graph.AddInput(Shape(f32, {100}));
    GraphValue y = x;
    for (int i = 0; i < count; ++i) {
      y = {graph.AddNode(op_registry::Get(i % 3 == 0   ? "exp"
                                          : i % 3 == 1 ? "neg"
                                                       : "abs"),
                         {y}),
           0};
    }
    graph.AddOutput(y);
    return MakeSchedule(graph);
  };
  auto instrs = [](const Schedule& schedule) {
    size_t all = 0;
    size_t most = 0;
    for (const Command& command : schedule.commands) {
      all += command.launch.kernel->instrs.size();
      most = std::max(most, command.launch.kernel->instrs.size());
    }
    return std::pair(all, most);
  };
  auto [small, most_of_small] = instrs(chain(1000));
  auto [large, most_of_large] = instrs(chain(10000));
  EXPECT_LT(large, 11 * small);
  EXPECT_LT(most_of_large, 260u);
  EXPECT_EQ(most_of_small, most_of_large);
}

TEST(SplitReductions, ReducesNeighboursAtOnceAndLongDimsInBlocks) {
  EXPECT_EQ(ToText(SplitReductions(ParseGraph("%0 = input : f32[4,5,6,7]\n"
                                              "%1 = reduce_sum %0 {dims=[1,2], keepdim=true} : "
                                              "f32[4,1,1,7]\n"
                                              "return %1"))),
            "%0 = input : f32[4,5,6,7]\n"
            "%1 = reshape %0 {sizes=[4,30,7]} : f32[4,30,7]\n"
            "%2 = reduce_sum %1 {dims=[1], keepdim=false} : f32[4,7]\n"
            "%3 = reshape %2 {sizes=[4,1,1,7]} : f32[4,1,1,7]\n"
            "return %3\n");
  EXPECT_EQ(
      ToText(SplitReductions(ParseGraph("%0 = input : bf16[131072]\n"
                                        "%1 = reduce_sum %0 {dims=[0], keepdim=false} : bf16[]\n"
                                        "return %1"))),
      "%0 = input : bf16[131072]\n"
      "%1 = cast %0 {dtype=f32} : f32[131072]\n"
      "%2 = reshape %1 {sizes=[1,16,8192,1]} : f32[1,16,8192,1]\n"
      "%3 = reduce_sum %2 {dims=[2], keepdim=false} : f32[1,16,1]\n"
      "%4 = reshape %3 {sizes=[16]} : f32[16]\n"
      "%5 = reduce_sum %4 {dims=[0], keepdim=false} : f32[]\n"
      "%6 = cast %5 {dtype=bf16} : bf16[]\n"
      "return %6\n");
}

TEST(SplitReductions, OfNothingIsAConstant) {
  EXPECT_EQ(
      ToText(SplitReductions(ParseGraph("%0 = input : f32[2,0]\n"
                                        "%1 = reduce_prod %0 {dims=[1], keepdim=false} : f32[2]\n"
                                        "return %1"))),
      "%0 = input : f32[2,0]\n"
      "%1 = constant {value=1, dtype=f32} : f32[]\n"
      "%2 = broadcast %1 {sizes=[2]} : f32[2]\n"
      "return %2\n");
}

TEST(MemoryPlan, WhatLivesAtOnceDoesNotOverlapAndTheRestDoes) {
  // A chain of products: each needs its operands and its result only.
  std::string text =
      "%0 = input : f32[32,32]\n%1 = dot_general %0, %0 {a_contract=[1], "
      "b_contract=[0], a_batch=[], b_batch=[]} : f32[32,32]\n";
  for (int i = 2; i <= 10; ++i) {
    text += fmt::format(
        "%{} = dot_general %{}, %0 {{a_contract=[1], b_contract=[0], a_batch=[], "
        "b_batch=[]}} : f32[32,32]\n",
        i, i - 1);
  }
  Scheduled s = ScheduleOf(text + "return %10");
  MemoryPlan plan = PlanMemory(s.schedule, std::vector<int64_t>(s.schedule.commands.size()));
  EXPECT_EQ(plan.arena_bytes, 2 * 32 * 32 * 4);
  EXPECT_EQ(plan.output_bytes, 32 * 32 * 4);
  for (size_t i = 0; i + 1 < s.schedule.commands.size() - 1; ++i) {
    EXPECT_NE(plan.offset[BufferId(i + 1)], plan.offset[BufferId(i + 2)]);
  }
}

TEST(MemoryPlan, ScratchIsApartFromWhatItsCommandUses) {
  Scheduled s = ScheduleOf(R"(
    %0 = input : f32[64]
    %1:2 = sort %0 {dim=0, descending=false, stable=false} : f32[64], i64[64]
    %2:2 = sort %1 {dim=0, descending=false, stable=false} : f32[64], i64[64]
    return %2)");
  MemoryPlan plan = PlanMemory(s.schedule, std::vector<int64_t>(s.schedule.commands.size(), 1000));
  int64_t at = plan.scratch_offset[1];
  int planned = 0;
  for (BufferId buffer : s.schedule.commands[1].reads) {
    int64_t offset = plan.offset[buffer];
    if (offset < 0) continue;
    EXPECT_TRUE(at + 1000 <= offset || offset + 256 <= at);
    ++planned;
  }
  EXPECT_GT(planned, 0);
}

/// Commands of a group run at once: nothing that one of them uses is free before all are done.
TEST(MemoryPlan, OfAGroupIsFreedTogether) {
  Scheduled s = ScheduleOf(R"(
    %0 = input : f32[64]
    %1 = input : f32[64]
    %2:2 = sort %0 {dim=0, descending=false, stable=false} : f32[64], i64[64]
    %3:2 = sort %2 {dim=0, descending=false, stable=false} : f32[64], i64[64]
    %4:2 = sort %1 {dim=0, descending=false, stable=false} : f32[64], i64[64]
    %5 = add %3, %4 : f32[64]
    return %5)");
  ASSERT_EQ(s.schedule.commands.size(), 4u);
  auto offset = [&](const MemoryPlan& plan, NodeId node) {
    return plan.offset[s.schedule.first[node]];
  };
  std::vector<int64_t> scratch(4, 64);
  MemoryPlan alone = PlanMemory(s.schedule, scratch);
  EXPECT_EQ(offset(alone, NodeId(2)), offset(alone, NodeId(4)));
  MemoryPlan grouped = PlanMemory(s.schedule, scratch, {0, 2, 2, 3});
  EXPECT_NE(offset(grouped, NodeId(2)), offset(grouped, NodeId(4)));
  EXPECT_NE(grouped.scratch_offset[1], grouped.scratch_offset[2]);
}

/// What lies between two sorts, which no kernel holds, in the memory of the first one's result.
bool IsInPlace(const std::string& nodes, const std::string& outputs, int result, int last) {
  Scheduled s = ScheduleOf(fmt::format(R"(
    %0 = input : f32[64]
    %1:2 = sort %0 {{dim=0, descending=false, stable=false}} : f32[64], i64[64]
    {0}
    %{2}:2 = sort %{1} {{dim=0, descending=false, stable=false}} : f32[64], i64[64]
    return %{2}.0{3})",
                                       nodes, result, last, outputs));
  const std::vector<int64_t> scratch(s.schedule.commands.size());
  auto is_in_place = [&](const MemoryPlan& plan) {
    return plan.offset[s.schedule.first[NodeId(result)]] ==
           plan.offset[s.schedule.first[NodeId(1)]];
  };
  std::vector<int> at_once(scratch.size(), static_cast<int>(scratch.size()) - 1);
  EXPECT_FALSE(is_in_place(PlanMemory(s.schedule, scratch, at_once)));
  EXPECT_FALSE(is_in_place(PlanMemory(s.schedule, BytesOf(s.schedule), scratch, {})))
      << "accesses are known for the sizes of the schedule alone";
  return is_in_place(PlanMemory(s.schedule, scratch));
}

TEST(MemoryPlan, ResultsOfKernelsTakeTheMemoryOfOperandsThatDie) {
  EXPECT_TRUE(IsInPlace("%2 = sin %1 : f32[64]", "", 2, 3));
  EXPECT_FALSE(IsInPlace("%2 = flip %1 {dims=[0]} : f32[64]\n%3 = sin %2 : f32[64]", "", 3, 4))
      << "it reads other elements than it writes";
}

TEST(MemoryPlan, ValuesThatAreReadLaterKeepTheirMemory) {
  EXPECT_FALSE(IsInPlace(R"(%2 = sin %1 : f32[64]
    %3:2 = sort %2 {dim=0, descending=false, stable=false} : f32[64], i64[64]
    %4 = add %3, %1 : f32[64])",
                         ", %4", 2, 5));
}

// A copy of 16 MB stays in the caches, a sum of two of them does not fit.
TEST(Schedule, WritesPastTheCachesWhatTheyCannotHold) {
  auto streams = [](const std::string& text) {
    Schedule schedule = MakeSchedule(ParseGraph(text), /*aligned_outputs=*/true);
    EXPECT_EQ(schedule.commands.size(), 1u);
    const std::vector<Access>& accesses = schedule.commands[0].launch.kernel->accesses;
    return std::any_of(accesses.begin(), accesses.end(), [](const Access& a) { return a.streams; });
  };
  EXPECT_FALSE(streams(R"(
    %0 = input : f32[4096,1024]
    %1 = exp %0 : f32[4096,1024]
    return %1)"));
  EXPECT_TRUE(streams(R"(
    %0 = input : f32[4096,1024]
    %1 = input : f32[4096,1024]
    %2 = add %0, %1 : f32[4096,1024]
    return %2)"));
}

TEST(Schedule, EqualKernelsAreOneObject) {
  Scheduled s = ScheduleOf(R"(
    %0 = input : f32[8,16]
    %1 = input : f32[16,16]
    %2 = dot_general %0, %1 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : f32[8,16]
    %3 = exp %2 : f32[8,16]
    %4 = dot_general %3, %1 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : f32[8,16]
    %5 = exp %4 : f32[8,16]
    %6 = dot_general %5, %1 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : f32[8,16]
    %7 = neg %6 : f32[8,16]
    return %7)");
  ASSERT_EQ(s.schedule.commands.size(), 3u);
  auto kernel = [&](size_t command) { return s.schedule.commands[command].launch.kernel; };
  ASSERT_TRUE(kernel(0));
  EXPECT_EQ(kernel(0), kernel(1));
  EXPECT_NE(kernel(1), kernel(2));
}

}  // namespace
}  // namespace hammock::compiler
