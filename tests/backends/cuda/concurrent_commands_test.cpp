// Small kernels that share a launch.
#include "backends/cuda/concurrent_commands.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>

#include "backends/cuda/device/device_text.h"
#include "backends/cuda/driver/nvrtc.h"
#include "backends/cuda/emit/joint_kernel.h"
#include "backends/cuda/emulated.h"
#include "backends/reference/interpreter.h"

namespace hammock::cuda {
namespace {

/// One step of Adam for parameters of those sizes; gradients are sums of products of two inputs.
std::string AdamText(const std::vector<int64_t>& sizes) {
  std::string text, results;
  int next = 0;
  auto node = [&](const std::string& what, int64_t size) {
    text += fmt::format("%{} = {} : f32[{}]\n", next, what, size);
    return next++;
  };
  for (int64_t size : sizes) {
    int w = node("input", size), g = node("input", size);
    int m = node("input", size), v = node("input", size);
    auto scalar = [&](double value) {
      text += fmt::format("%{} = constant {{value={:.6f}:f32, dtype=f32}} : f32[]\n", next, value);
      ++next;
      return node(fmt::format("broadcast %{} {{sizes=[{}]}}", next - 1, size), size);
    };
    auto op = [&](const char* name, int a, int b) {
      return node(fmt::format("{} %{}, %{}", name, a, b), size);
    };
    int m2 = op("add", op("mul", m, scalar(0.9)), op("mul", g, scalar(0.1)));
    int v2 = op("add", op("mul", v, scalar(0.999)), op("mul", op("mul", g, g), scalar(0.001)));
    int root = node(fmt::format("sqrt %{}", op("mul", v2, v2)), size);
    int step = op("div", m2, op("add", root, scalar(1e-6)));
    int w2 = op("sub", w, op("mul", step, scalar(0.01)));
    results += fmt::format("{}%{}, %{}, %{}", results.empty() ? "" : ", ", w2, m2, v2);
  }
  return text + "return " + results;
}

std::vector<HostTensor> SomeInputs(const Graph& graph) {
  std::vector<HostTensor> inputs;
  int seed = 0;
  for (NodeId id : graph.inputs()) {
    HostTensor input(graph[id].type());
    float* values = static_cast<float*>(input.mutable_data());
    for (int64_t i = 0; i < graph[id].type().numel(); ++i) {
      values[i] = static_cast<float>((i * 37 + ++seed * 11) % 101) / 32 - 1;
    }
    inputs.push_back(std::move(input));
  }
  return inputs;
}

class CudaConcurrentCommands : public testing::Test {
 protected:
  void SetUp() override {
    if (!WhyNotEmulated().empty()) GTEST_SKIP() << WhyNotEmulated();
  }
  /// That the program gives the interpreter's bits; how many kernels it has.
  static size_t ExpectSameBits(const std::string& text) {
    Graph graph = ParseGraph(text);
    Program program(graph, EmulatedForTests());
    std::vector<HostTensor> inputs = SomeInputs(graph);
    std::vector<HostTensor> actual = RunProgram(*EmulatedForTests(), program, graph, inputs);
    std::vector<HostTensor> expected = reference::Interpret(graph, inputs);
    for (size_t i = 0; i < actual.size(); ++i) {
      EXPECT_EQ(std::memcmp(actual[i].data(), expected[i].data(),
                            static_cast<size_t>(expected[i].bytes())),
                0)
          << "output " << i << " of\n"
          << program.ToText("cuda");
    }
    if (WhyNoNvrtc().empty()) {
      for (const KernelSource& source : program.Sources()) {
        EXPECT_NO_THROW(CompileByNvrtc(Prelude() + source.text, 90));
      }
    }
    return program.Sources().size();
  }
};

TEST_F(CudaConcurrentCommands, UpdatesOfAHundredParametersAreAFewLaunches) {
  std::vector<int64_t> sizes;
  for (int i = 0; i < 100; ++i) sizes.push_back(1 + i * i * 7 % 3000);
  EXPECT_LE(ExpectSameBits(AdamText(sizes)), 4u);
}

TEST_F(CudaConcurrentCommands, KernelsOfAllWaysShareALaunch) {
  // A map of one line, one of several, sums along rows and across them, with and without scratch.
  EXPECT_EQ(ExpectSameBits(R"(
    %0 = input : f32[37]
    %1 = input : f32[5,24]
    %2 = input : f32[3,9]
    %3 = input : f32[7,64]
    %4 = add %0, %0 : f32[37]
    %5 = slice %1 {dim=1, start=0, size=11, step=2} : f32[5,11]
    %6 = add %5, %5 : f32[5,11]
    %7 = reduce_max %2 {dims=[1], keepdim=false} : f32[3]
    %8 = reduce_max %3 {dims=[0], keepdim=false} : f32[64]
    %9 = input : f32[1]
    %10 = add %9, %9 : f32[1]
    return %4, %6, %7, %8, %10)"),
            1u);
}

TEST_F(CudaConcurrentCommands, NeededCommandsComeFirst) {
  EXPECT_EQ(ExpectSameBits(R"(
    %0 = input : f32[64,64]
    %1 = input : f32[64,64]
    %2 = add %0, %0 : f32[64,64]
    %3 = add %1, %0 : f32[64,64]
    %4 = permute %2 {dims=[1,0]} : f32[64,64]
    %5 = barrier %4 : f32[64,64]
    %6 = mul %5, %3 : f32[64,64]
    %7 = permute %6 {dims=[1,0]} : f32[64,64]
    %8 = mul %1, %1 : f32[64,64]
    return %7, %3, %8)"),
            4u);
}

compiler::Schedule ScheduleOf(const Graph& graph) {
  return compiler::MakeSchedule(graph, /*aligned_outputs=*/false, /*epilogues=*/false);
}

TEST(ConcurrentCommands, KernelsWaitForOthersUntilTheyAreNeeded) {
  Graph graph = ParseGraph(R"(
    %0 = input : f32[8,8]
    %1 = add %0, %0 : f32[8,8]
    %2 = dot_general %0, %1 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : f32[8,8]
    %3 = add %0, %2 : f32[8,8]
    %4 = dot_general %2, %2 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : f32[8,8]
    %5 = mul %4, %4 : f32[8,8]
    return %3, %5)");
  compiler::Schedule schedule = ScheduleOf(graph);
  ASSERT_EQ(schedule.commands.size(), 5u) << compiler::ToText(schedule, graph);
  std::vector<bool> waits = {true, false, true, false, true};
  EXPECT_EQ(GroupCommands(schedule, waits), (std::vector<std::vector<int>>{{0}, {1}, {3}, {2, 4}}));
  EXPECT_EQ(GroupCommands(schedule, std::vector<bool>(5)),
            (std::vector<std::vector<int>>{{0}, {1}, {2}, {3}, {4}}));
}

TEST(ConcurrentCommands, BuffersThatMayBeOverwrittenAreReadBefore) {
  // The last kernel writes its result where its input was, so the first may not come later.
  Graph graph = ParseGraph(R"(
    %0 = input : f32[8,8]
    %1 = input : f32[4]
    %2 = reduce_max %0 {dims=[1], keepdim=false} : f32[8]
    %3 = dot_general %0, %0 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : f32[8,8]
    %4 = add %0, %3 : f32[8,8]
    %5 = add %1, %1 : f32[4]
    return %2, %4, %5)");
  compiler::Schedule schedule = ScheduleOf(graph);
  ASSERT_EQ(schedule.commands.size(), 4u) << compiler::ToText(schedule, graph);
  EXPECT_EQ(GroupCommands(schedule, {true, false, true, true}),
            (std::vector<std::vector<int>>{{1}, {0}, {2, 3}}));
}

TEST(JointKernel, LaunchesOfOneKernelHaveOneBody) {
  Graph graph = ParseGraph(AdamText({10, 512, 70'000}));
  compiler::Schedule schedule = ScheduleOf(graph);
  std::vector<const compiler::Launch*> launches;
  for (const compiler::Command& command : schedule.commands) {
    ASSERT_TRUE(JointKernel::Takes(command.launch));
    launches.push_back(&command.launch);
  }
  ASSERT_EQ(launches.size(), 3u);
  JointKernel joint(launches);
  const std::string& text = joint.source().text;
  size_t bodies = 0;
  for (size_t at = text.find("__forceinline__"); at != std::string::npos;
       at = text.find("__forceinline__", at + 1)) {
    ++bodies;
  }
  EXPECT_EQ(bodies, 1u) << text;
  EXPECT_EQ(text.find("gridDim.y"), std::string::npos) << text;
  // One block each for the first two, a thread has four elements.
  Grid grid = joint.grid();
  EXPECT_EQ(grid.x, 1u + 1u + 69u);
  std::vector<uint64_t> words =
      joint.Arguments(compiler::BufferMap<uint64_t>(schedule.buffers.size()), {0, 0, 0});
  EXPECT_EQ(words[1], 1 | uint64_t{1} << 32);
  EXPECT_EQ(words[2], 2 | uint64_t{69} << 32);
}

/// They count their blocks, and the parts of one body would do so together.
TEST(JointKernel, LaunchesOfSeveralBlocksForALineStayAlone) {
  Graph graph = ParseGraph(R"(
    %0 = input : f32[1024,64]
    %1 = reduce_max %0 {dims=[0], keepdim=false} : f32[64]
    return %1)");
  compiler::Schedule schedule = ScheduleOf(graph);
  EXPECT_TRUE(ConfigureLaunch(schedule.commands[0].launch).split);
  EXPECT_FALSE(JointKernel::Takes(schedule.commands[0].launch));
}

TEST(JointKernel, LargeLaunchesStayAlone) {
  Graph graph = ParseGraph(R"(
    %0 = input : f32[4194304]
    %1 = add %0, %0 : f32[4194304]
    return %1)");
  EXPECT_FALSE(JointKernel::Takes(ScheduleOf(graph).commands[0].launch));
}

}  // namespace
}  // namespace hammock::cuda
