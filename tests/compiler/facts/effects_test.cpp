#include "compiler/facts/effects.h"

#include <gtest/gtest.h>

#include <string>

namespace hammock {
namespace {

TEST(EffectOf, ALoopHasTheStrongestOfItsBody) {
  const Graph graph = ParseGraph(R"(
    %0 = input : f32[2]
    %1 = neg %0 : f32[2]
    %2 = loop %1 {body=graph {
      %0 = input : i64[]
      %1 = input : f32[2]
      %2 = neg %1 : f32[2]
      %3 = all_reduce %2 {reduction="sum", group="world", size=2} : f32[2]
      return %3
    }, count=2, num_carried=1, num_stacked_in=0} : f32[2]
    return %2)");
  EXPECT_EQ(EffectOf(graph[NodeId(1)]), Effect::kPure);
  EXPECT_EQ(EffectOf(graph[NodeId(2)]), Effect::kOrdered);
}

TEST(CanFailLate, ASliceAtAnInputFailsBeforeTheRun) {
  const Graph graph = ParseGraph(R"(
    %0 = input : f32[8]
    %1 = input : i64[]
    %2 = dynamic_slice %0, %1 {dim=0, size=2, step=1} : f32[2]
    %3 = add %1, %1 : i64[]
    %4 = dynamic_slice %0, %3 {dim=0, size=2, step=1} : f32[2]
    %5 = exp %4 : f32[2]
    return %2, %5)");
  EXPECT_EQ(StartInput(graph, graph[NodeId(2)]), NodeId(1));
  EXPECT_FALSE(CanFailLate(graph, graph[NodeId(2)]));
  EXPECT_TRUE(CanFailLate(graph, graph[NodeId(4)]));
  EXPECT_FALSE(CanFailLate(graph, graph[NodeId(5)]));
}

TEST(NeededNodes, AreThoseOfResultsInputsAndOrderedEffects) {
  const Graph graph = ParseGraph(R"(
    %0 = input : f32[2]
    %1 = input : f32[2]
    %2 = neg %0 : f32[2]
    %3 = exp %0 : f32[2]
    %4 = sin %0 : f32[2]
    %5 = all_reduce %4 {reduction="sum", group="world", size=2} : f32[2]
    return %2)");
  std::string needed;
  for (bool is : NeededNodes(graph)) needed += is ? '1' : '0';
  EXPECT_EQ(needed, "111011");
}

}  // namespace
}  // namespace hammock
