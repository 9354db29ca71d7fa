// Programs: which steps there are, which of them are concurrent, and what shares memory.
#include "backends/cpu/program.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>

#include "backends/cpu/command_groups.h"
#include "hammock/config.h"
#include "hammock/host_tensor.h"

namespace hammock::cpu {
namespace {

std::vector<int> GroupsOf(const std::string& text, int64_t work) {
  compiler::Schedule schedule = compiler::MakeSchedule(ParseGraph(text));
  return GroupCommands(schedule, std::vector<int64_t>(schedule.commands.size(), work));
}

/// Three kernels, and one that needs the first.
constexpr const char* kUpdates = R"(
    %0 = input : f32[1000]
    %1 = input : f32[7,31]
    %2 = input : f32[2000]
    %3 = neg %0 : f32[1000]
    %4 = exp %1 : f32[7,31]
    %5 = sin %2 : f32[2000]
    %6 = slice %3 {dim=0, start=10, size=10, step=1} : f32[10]
    %7 = cos %6 : f32[10]
    return %3, %4, %5, %7)";

TEST(CommandGroups, AreNeighboursThatDoNotNeedEachOther) {
  EXPECT_EQ(GroupsOf(kUpdates, 1000), (std::vector<int>{2, 2, 2, 3}));
}

TEST(CommandGroups, LargeCommandsAndCallsStayAlone) {
  EXPECT_EQ(GroupsOf(kUpdates, int64_t{1} << 30), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(GroupsOf(kUpdates, -1), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(GroupsOf(R"(
    %0 = input : f32[1000]
    %1 = input : f32[1001]
    %2:2 = sort %0 {dim=0, descending=false, stable=false} : f32[1000], i64[1000]
    %3 = exp %1 : f32[1001]
    return %2, %3)",
                     1000),
            (std::vector<int>{0, 1}));
}

/// Runs a program on memory of its own.
std::vector<std::vector<char>> RunProgram(const Program& program,
                                          std::vector<std::vector<char>>& inputs) {
  std::vector<std::vector<char>> outputs;
  std::vector<char*> in, out;
  for (auto& input : inputs) in.push_back(input.data());
  for (GraphValue output : program.graph().outputs()) {
    outputs.emplace_back(static_cast<size_t>(program.graph().TypeOf(output).bytes()));
  }
  for (auto& output : outputs) out.push_back(output.data());
  std::vector<char> arena(static_cast<size_t>(program.plan().arena_bytes) + 64);
  char* aligned = arena.data() + (64 - reinterpret_cast<uintptr_t>(arena.data()) % 64) % 64;
  program.Run(in, out, aligned);
  return outputs;
}

/// Rows that keep what they computed in scratch memory, many kernels of them.
std::string ManySoftmaxes(int count) {
  std::string text, results;
  for (int i = 0; i < count; ++i) {
    text += fmt::format("%{} = input : f32[{},{}]\n", i, 40 + i, 700 + 13 * i);
  }
  int next = count;
  for (int i = 0; i < count; ++i) {
    std::string whole = fmt::format("f32[{},{}]", 40 + i, 700 + 13 * i);
    std::string row = fmt::format("f32[{},1]", 40 + i);
    std::string sizes = fmt::format("{{sizes=[{},{}]}}", 40 + i, 700 + 13 * i);
    text += fmt::format("%{} = exp %{} : {}\n", next, i, whole);
    text +=
        fmt::format("%{} = reduce_sum %{} {{dims=[1], keepdim=true}} : {}\n", next + 1, next, row);
    text += fmt::format("%{} = broadcast %{} {} : {}\n", next + 2, next + 1, sizes, whole);
    text += fmt::format("%{} = div %{}, %{} : {}\n", next + 3, next, next + 2, whole);
    results += fmt::format("{}%{}", i ? ", " : "", next + 3);
    next += 4;
  }
  return text + "return " + results;
}

TEST(CommandGroups, GiveTheSameBitsAsOneCommandAfterAnother) {
  constexpr int kCount = 9;
  Graph graph = ParseGraph(ManySoftmaxes(kCount));
  std::vector<std::vector<char>> inputs, results[2];
  for (NodeId id : graph.inputs()) {
    std::vector<float> values(static_cast<size_t>(graph[id].type().numel()));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 97) * 0.01f;
    const char* bytes = reinterpret_cast<const char*>(values.data());
    inputs.emplace_back(bytes, bytes + values.size() * sizeof(float));
  }
  for (int threads : {1, 3}) {
    config::Override some("cpu.threads", std::to_string(threads));
    Program program(graph);
    ASSERT_EQ(program.kernels(), kCount);
    for (int i = 0; i < 20; ++i) {
      auto result = RunProgram(program, inputs);
      auto& first = results[threads > 1];
      if (first.empty()) first = result;
      ASSERT_EQ(first, result);
    }
  }
  EXPECT_EQ(results[0], results[1]);
}

TEST(CommandGroups, NoOutputTakesMemoryThatAConcurrentCommandReads) {
  Program program(ParseGraph(R"(
    %0 = input : f32[1000]
    %1 = input : f32[1000]
    %2 = reshape %1 {sizes=[10,100]} : f32[10,100]
    %3 = permute %2 {dims=[1,0]} : f32[100,10]
    %4 = exp %3 : f32[100,10]
    %5 = sin %0 : f32[1000]
    return %4, %5)"));
  // Alone, the second kernel could write where the first has read.
  EXPECT_EQ(program.donations().Match({true, true}), (std::vector<int>{-1, 0}));
}

// The loss of a training step reads labels, which may be out of range; its updates of weights do
// not wait for that with memory of their own.
TEST(Program, WhatCanFailRunsBeforeResultsTakeTheMemoryOfInputs) {
  Program program(ParseGraph(R"(
    %0 = input : f32[1000]
    %1 = input : f32[8,4]
    %2 = input : i64[8,1]
    %3 = exp %1 : f32[8,4]
    %4 = exp %0 : f32[1000]
    %5 = gather %3, %2 {dim=1} : f32[8,1]
    return %4, %5)"));
  EXPECT_EQ(program.donations().Match({true, true, true}), (std::vector<int>{0, -1}));
}

TEST(Program, BytesThatOnlyAreHandedOnAreNotCopied) {
  compiler::Schedule schedule = compiler::MakeSchedule(ParseGraph(R"(
    %0 = input : f32[4,6]
    %1 = input : bool[]
    %2 = bitcast %0 {dtype=i32} : i32[4,6]
    %3 = exp %0 : f32[4,6]
    %4 = barrier %3, %2 : f32[4,6]
    %5 = require %4, %1 {message="no"} : f32[4,6]
    %6 = reshape %5 {sizes=[24]} : f32[24]
    %7 = bitcast %6 {dtype=i32} : i32[24]
    return %2, %5, %7)"));
  ASSERT_EQ(schedule.commands.size(), 2u);
  EXPECT_TRUE(schedule.commands[0].launch.kernel);
  EXPECT_TRUE(schedule.commands[1].writes.empty());  // it looks at the condition
  EXPECT_EQ(schedule.outputs,
            (std::vector{compiler::BufferId(0), compiler::BufferId(3), compiler::BufferId(3)}));
}

TEST(Program, WhatSharesABufferIsRead) {
  Program program(ParseGraph(R"(
    %0 = input : f32[3]
    %1 = input : bool[]
    %2 = neg %0 : f32[3]
    %3 = require %2, %1 {message="no"} : f32[3]
    %4 = bitcast %3 {dtype=i32} : i32[3]
    %5 = barrier %4, %0 : i32[3]
    %6 = constant {value=1, dtype=i32} : i32[]
    %7 = broadcast %6 {sizes=[3]} : i32[3]
    %8 = add %5, %7 : i32[3]
    return %8)"));
  std::vector<float> values = {1, -2, 3};
  const char* bytes = reinterpret_cast<const char*>(values.data());
  std::vector<std::vector<char>> inputs = {{bytes, bytes + 12}, {1}};
  auto result = RunProgram(program, inputs);
  const int32_t* got = reinterpret_cast<const int32_t*>(result[0].data());
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(got[i], std::bit_cast<int32_t>(-values[i]) + 1);
  }
  inputs[1][0] = 0;
  EXPECT_THROW(RunProgram(program, inputs), Error);
}

TEST(Program, BytesCountThoseOfProgramsInside) {
  auto bytes = [](int ops) {
    std::string body = "%0 = input : i64[]\n%1 = input : f32[8]\n";
    for (int i = 0; i < ops; ++i) body += fmt::format("%{} = exp %{} : f32[8]\n", i + 2, i + 1);
    return Program(ParseGraph(fmt::format("%0 = input : f32[8]\n%1 = loop %0 {{body=graph {{\n{}"
                                          "return %{}\n}}, count=3, num_carried=1, "
                                          "num_stacked_in=0}} : f32[8]\nreturn %1",
                                          body, ops + 1)))
        .bytes();
  };
  EXPECT_GE(bytes(100) - bytes(10), 90 * static_cast<int64_t>(sizeof(GraphNode)));
}

}  // namespace
}  // namespace hammock::cpu
