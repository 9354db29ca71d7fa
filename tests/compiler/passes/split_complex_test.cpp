#include "compiler/passes/split_complex.h"

#include <gtest/gtest.h>

#include "compiler/pipeline.h"
#include "hammock/compiler/schedule.h"

namespace hammock {
namespace {

Graph Lowered(const std::string& text) {
  return Optimise(RunPasses(LoweringPasses(nullptr), ParseGraph(text)), nullptr);
}

TEST(SplitComplex, PartsOfAValueInMemoryAreEverySecondElement) {
  Graph graph = ParseGraph(R"(
    %0 = input : c64[4]
    %1 = real %0 : f32[4]
    return %1)");
  EXPECT_EQ(ToText(SplitComplex(graph)),
            "%0 = input : c64[4]\n"
            "%1 = reshape %0 {sizes=[4,1]} : c64[4,1]\n"
            "%2 = bitcast %1 {dtype=f32} : f32[4,2]\n"
            "%3 = slice %2 {dim=1, start=0, size=1, step=2} : f32[4,1]\n"
            "%4 = reshape %3 {sizes=[4]} : f32[4]\n"
            "return %4\n");
}

TEST(SplitComplex, PartsOfAComputedValueAreWhatItWasMadeOf) {
  Graph graph = ParseGraph(R"(
    %0 = input : f32[4]
    %1 = input : f32[4]
    %2 = complex %0, %1 : c64[4]
    %3 = mul %2, %2 : c64[4]
    %4 = imag %3 : f32[4]
    return %4)");
  EXPECT_EQ(ToText(SplitComplex(graph)),
            "%0 = input : f32[4]\n"
            "%1 = input : f32[4]\n"
            "%2 = mul %1, %0 : f32[4]\n"
            "%3 = mul %0, %1 : f32[4]\n"
            "%4 = add %3, %2 : f32[4]\n"
            "return %4\n");
}

TEST(SplitComplex, RealGraphsStay) {
  std::string text =
      "%0 = input : f32[4]\n"
      "%1 = exp %0 : f32[4]\n"
      "return %1\n";
  EXPECT_EQ(ToText(SplitComplex(ParseGraph(text))), text);
}

TEST(SplitComplex, ExponentialOfAnImaginaryNumberTimesAnotherIsOneKernel) {
  Graph graph = Lowered(R"(
    %0 = input : f32[1000]
    %1 = input : c64[]
    %2 = input : c64[1000]
    %3 = mul %0, %1 : c64[1000]
    %4 = exp %3 : c64[1000]
    %5 = mul %4, %2 : c64[1000]
    return %5)");
  compiler::Schedule schedule = compiler::MakeSchedule(graph);
  ASSERT_EQ(schedule.commands.size(), 1u) << ToText(schedule, graph);
  const compiler::Launch& launch = schedule.commands[0].launch;
  ASSERT_TRUE(launch.kernel);
  CheckBounds(launch, compiler::BytesOf(schedule));
  // The parts of the result lie side by side.
  std::vector<int64_t> offsets;
  for (const compiler::Instr& instr : launch.kernel->instrs) {
    if (instr.kind != compiler::Instr::Kind::kStore) continue;
    EXPECT_EQ(launch.maps[instr.access].column, 2);
    offsets.push_back(launch.maps[instr.access].offset);
  }
  EXPECT_EQ(offsets, (std::vector<int64_t>{0, 1}));
}

TEST(SplitComplex, NoComplexOperandIsLeftWhereAnOpHasParts) {
  Graph graph = Lowered(R"(
    %0 = input : c64[4,3]
    %1 = permute %0 {dims=[1,0]} : c64[3,4]
    %2 = reduce_prod %1 {dims=[1], keepdim=false} : c64[3]
    %3 = scan %2 {kind="prod", dim=0, reverse=true} : c64[3]
    return %3)");
  for (NodeId id : graph.ids()) {
    const GraphNode& node = graph[id];
    if (node.op->complex) {
      EXPECT_FALSE(HasComplex(graph, node) && node.op->name() != std::string("reshape"))
          << ToText(graph);
    }
  }
}

}  // namespace
}  // namespace hammock
