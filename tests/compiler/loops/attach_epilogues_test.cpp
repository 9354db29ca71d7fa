// Which kernels become the epilogues of contractions.

#include "compiler/loops/attach_epilogues.h"

#include <gtest/gtest.h>

#include "compiler/passes/split_reductions.h"
#include "hammock/compiler/memory_plan.h"
#include "hammock/ir/graph.h"

namespace hammock::compiler {
namespace {

/// The commands of a graph in short: "dot_general + kernel", "kernel", "convolution".
std::vector<std::string> CommandsOf(const std::string& text) {
  Graph graph = SplitReductions(ParseGraph(text));
  Verify(graph);
  Schedule schedule = MakeSchedule(graph);
  const BufferMap<int64_t> sizes = BytesOf(schedule);
  std::vector<std::string> commands;
  for (const Command& command : schedule.commands) {
    std::string name = command.is_call() ? graph[command.node].op->name() : "";
    if (command.launch.kernel) {
      CheckBounds(command.launch, sizes);
      name += command.is_call() ? " + kernel" : "kernel";
    }
    commands.push_back(name);
  }
  return commands;
}

using Commands = std::vector<std::string>;
const Commands kOneCommand = {"dot_general + kernel"};

TEST(AttachEpilogues, BiasActivationAndResidualAreOneCommandWithTheMatmul) {
  EXPECT_EQ(CommandsOf(R"(
    %0 = input : f32[64,32]
    %1 = input : f32[32,48]
    %2 = input : f32[48]
    %3 = input : f32[64,48]
    %4 = dot_general %0, %1 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : f32[64,48]
    %5 = broadcast %2 {sizes=[64,48]} : f32[64,48]
    %6 = add %4, %5 : f32[64,48]
    %7 = tanh %6 : f32[64,48]
    %8 = add %7, %3 : f32[64,48]
    return %8)"),
            kOneCommand);
}

TEST(AttachEpilogues, LoopsAreSplitWhereRowsEnd) {
  Graph graph = ParseGraph(R"(
    %0 = input : f32[64,32]
    %1 = input : f32[32,48]
    %2 = dot_general %0, %1 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : f32[64,48]
    %3 = exp %2 : f32[64,48]
    return %3)");
  Schedule schedule = MakeSchedule(graph);
  ASSERT_EQ(schedule.commands.size(), 1u);
  EXPECT_EQ(ToText(schedule, graph),
            "command 0: call dot_general reads [0,1] writes [3]\n"
            "  then, rows [0], launch [] x 64 x 48\n"
            "  a0 = b2 at 0 + [] + row*48 + column*1\n"
            "  a1 = b3 at 0 + [] + row*48 + column*1\n"
            "kernel\n"
            "  a0 = f32 row n column 1\n"
            "  a1 = f32 row n column 1\n"
            "  0 all: %0 = load a0 : f32\n"
            "  0 all: %1 = exp %0 : f32\n"
            "  0 all: store a1, %1 : f32\n"
            "outputs [3]\n");
}

TEST(AttachEpilogues, HeadsAreSplitOnTheWay) {
  Graph graph = ParseGraph(R"(
    %0 = input : f32[80,32]
    %1 = input : f32[32,48]
    %2 = input : f32[48]
    %3 = dot_general %0, %1 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : f32[80,48]
    %4 = broadcast %2 {sizes=[80,48]} : f32[80,48]
    %5 = add %3, %4 : f32[80,48]
    %6 = reshape %5 {sizes=[4,20,3,16]} : f32[4,20,3,16]
    %7 = permute %6 {dims=[0,2,1,3]} : f32[4,3,20,16]
    %8 = neg %7 : f32[4,3,20,16]
    return %8)");
  Schedule schedule = MakeSchedule(graph);
  ASSERT_EQ(schedule.commands.size(), 1u);
  const Command& command = schedule.commands[0];
  EXPECT_EQ(command.row_loops, 1);
  EXPECT_EQ(command.launch.outer, (std::vector<int64_t>{4, 3}));
  EXPECT_EQ(command.launch.rows, 20);
  EXPECT_EQ(command.launch.columns, 16);
}

TEST(AttachEpilogues, SoftmaxOfScoresFollowsItsMatmul) {
  EXPECT_EQ(CommandsOf(R"(
    %0 = input : f32[2,64,32]
    %1 = input : f32[2,48,32]
    %2 = dot_general %0, %1 {a_contract=[2], b_contract=[2], a_batch=[0], b_batch=[0]} : f32[2,64,48]
    %3 = reduce_max %2 {dims=[2], keepdim=true} : f32[2,64,1]
    %4 = broadcast %3 {sizes=[2,64,48]} : f32[2,64,48]
    %5 = sub %2, %4 : f32[2,64,48]
    %6 = exp %5 : f32[2,64,48]
    %7 = reduce_sum %6 {dims=[2], keepdim=true} : f32[2,64,1]
    %8 = broadcast %7 {sizes=[2,64,48]} : f32[2,64,48]
    %9 = div %6, %8 : f32[2,64,48]
    return %9)"),
            kOneCommand);
}

TEST(AttachEpilogues, SumsOverRowsOfAMatmulStayApart) {
  EXPECT_EQ(CommandsOf(R"(
    %0 = input : f32[64,32]
    %1 = input : f32[32,48]
    %2 = dot_general %0, %1 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : f32[64,48]
    %3 = reduce_sum %2 {dims=[0], keepdim=false} : f32[48]
    return %3)"),
            (Commands{"dot_general", "kernel"}));
}

TEST(AttachEpilogues, AMatmulWaitsForTheOtherOperandsOfItsReader) {
  EXPECT_EQ(CommandsOf(R"(
    %0 = input : f32[64,32]
    %1 = input : f32[32,48]
    %2 = input : i64[64,48]
    %3 = dot_general %0, %1 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : f32[64,48]
    %4:2 = sort %2 {dim=1, descending=true, stable=true} : i64[64,48], i64[64,48]
    %5 = cast %4.0 {dtype=f32} : f32[64,48]
    %6 = add %3, %5 : f32[64,48]
    return %6)"),
            (Commands{"sort", "dot_general + kernel"}));
}

TEST(AttachEpilogues, OfTwoMatmulsTheLaterTakesTheKernel) {
  EXPECT_EQ(CommandsOf(R"(
    %0 = input : f32[64,32]
    %1 = input : f32[32,48]
    %2 = dot_general %0, %1 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : f32[64,48]
    %3 = input : f32[64,16]
    %4 = input : f32[16,48]
    %5 = dot_general %3, %4 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : f32[64,48]
    %6 = add %2, %5 : f32[64,48]
    return %6)"),
            (Commands{"dot_general", "dot_general + kernel"}));
}

TEST(AttachEpilogues, AResultThatOthersReadIsStored) {
  Graph graph = ParseGraph(R"(
    %0 = input : f32[64,32]
    %1 = input : f32[32,48]
    %2 = dot_general %0, %1 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : f32[64,48]
    %3 = exp %2 : f32[64,48]
    return %3, %2)");
  Schedule schedule = MakeSchedule(graph);
  ASSERT_EQ(schedule.commands.size(), 1u);
  EXPECT_EQ(schedule.commands[0].writes, (std::vector{BufferId(3), BufferId(2)}));
}

TEST(AttachEpilogues, WhatOnlyTheEpilogueReadsTakesNoMemory) {
  Graph graph = ParseGraph(R"(
    %0 = input : f32[8,3,32,32]
    %1 = input : f32[16,3,3,3]
    %2 = input : f32[16,1,1]
    %3 = convolution %0, %1 {stride=[1,1], padding=[1,1], dilation=[1,1], transposed=false, output_padding=[0,0], groups=1} : f32[8,16,32,32]
    %4 = broadcast %2 {sizes=[8,16,32,32]} : f32[8,16,32,32]
    %5 = add %3, %4 : f32[8,16,32,32]
    return %5)");
  Schedule schedule = MakeSchedule(graph);
  ASSERT_EQ(schedule.commands.size(), 1u);
  EXPECT_EQ(PlanMemory(schedule, {0}).arena_bytes, 0);
  EXPECT_EQ(schedule.commands[0].launch.columns, 32 * 32);
}

TEST(AttachEpilogues, PartsOfAMatmulAreReadAfterAllOfIt) {
  EXPECT_EQ(CommandsOf(R"(
    %0 = input : f32[64,32]
    %1 = input : f32[32,48]
    %2 = dot_general %0, %1 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : f32[64,48]
    %3 = slice %2 {dim=1, start=0, size=24, step=1} : f32[64,24]
    %4 = slice %2 {dim=1, start=24, size=24, step=1} : f32[64,24]
    %5 = mul %3, %4 : f32[64,24]
    return %5)"),
            (Commands{"dot_general", "kernel"}));
  EXPECT_EQ(CommandsOf(R"(
    %0 = input : f32[6,32]
    %1 = input : f32[32,4]
    %2 = dot_general %0, %1 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : f32[6,4]
    %3 = reshape %2 {sizes=[4,6]} : f32[4,6]
    %4 = input : f32[4,1]
    %5 = broadcast %4 {sizes=[4,6]} : f32[4,6]
    %6 = mul %3, %5 : f32[4,6]
    return %6)"),
            (Commands{"dot_general", "kernel"}));
}

}  // namespace
}  // namespace hammock::compiler
