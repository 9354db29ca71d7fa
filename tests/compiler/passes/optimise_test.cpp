// All passes together.

#include <gtest/gtest.h>

#include "backends/reference/interpreter.h"
#include "compiler/pipeline.h"
#include "hammock/config.h"

namespace hammock {
namespace {

std::vector<HostTensor> Evaluated(const Graph& graph, std::span<const HostTensor> inputs) {
  return reference::Interpret(graph, inputs);
}

lazy::Capability RunsPrimitives(const Graph& graph, NodeId id) {
  using Verdict = lazy::Capability::Verdict;
  return {graph[id].op->IsComposite() ? Verdict::kExpand : Verdict::kRun, ""};
}

TEST(Optimise, RepeatsPassesUntilNothingChanges) {
  // Folding makes the choice known, which makes the operands of the sum equal, ...
  Graph graph = ParseGraph(R"(
    %0 = input : f32[2,3]
    %1 = constant {value=1, dtype=i64} : i64[]
    %2 = constant {value=2, dtype=i64} : i64[]
    %3 = lt %1, %2 : bool[]
    %4 = broadcast %3 {sizes=[6]} : bool[6]
    %5 = exp %0 : f32[2,3]  @ model.cpp:5
    %6 = exp %0 : f32[2,3]
    %7 = reshape %5 {sizes=[6]} : f32[6]
    %8 = reshape %6 {sizes=[6]} : f32[6]
    %9 = neg %8 : f32[6]
    %10 = where %4, %7, %9 : f32[6]
    %11 = ne %8, %8 : bool[6]
    %12 = where %11, %10, %8 : f32[6]
    %13 = reshape %12 {sizes=[2,3]} : f32[2,3]
    return %13)");
  Graph after = Optimise(graph, Evaluated);
  EXPECT_EQ(ToText(after, {.locations = true}),
            "%0 = input : f32[2,3]\n"
            "%1 = exp %0 : f32[2,3]  @ model.cpp:5\n"
            "return %1\n");
  EXPECT_EQ(Optimise(after, Evaluated), after);
}

TEST(Optimise, LeavesGraphsWithDimParametersAlone) {
  Graph graph = ParseGraph(
      "graph(n=4)\n"
      "%0 = input : f32[n]\n"
      "%1 = reshape %0 {sizes=[n]} : f32[n]\n"
      "return %1");
  EXPECT_EQ(Optimise(graph, Evaluated), graph);
}

TEST(Optimise, KeepsTheOrderOfEffects) {
  Graph graph = ParseGraph(R"(
    %0 = input : f32[2]
    %1 = custom_call %0 {target="b", payload="", types=["f32[2]"]} : f32[2]
    %2 = custom_call %0 {target="a", payload="", types=["f32[2]"]} : f32[2]
    %3 = custom_call %0 {target="b", payload="", types=["f32[2]"]} : f32[2]
    return %3)");
  EXPECT_EQ(Optimise(graph, Evaluated), graph);
}

TEST(Optimise, RunsBeforeTheGraphIsPartitioned) {
  Graph graph = ParseGraph(
      "%0 = input : f32[2]\n%1 = relu %0 : f32[2]\n%2 = neg %1 : f32[2]\n%3 = neg %2 : f32[2]\n"
      "return %3");
  auto names = [](const LoweredStep& step) {
    std::string all;
    for (const GraphNode& node : step.segments[0].graph.nodes()) {
      all += node.op->name() + std::string(" ");
    }
    return all;
  };
  EXPECT_EQ(names(LowerGraph(graph, RunsPrimitives)), "input constant broadcast maximum neg neg ");
  EXPECT_EQ(names(LowerGraph(graph, RunsPrimitives,
                             [](const Graph& g) { return Optimise(g, Evaluated); })),
            "input constant broadcast maximum ");
}

TEST(LowerGraph, GivesEachResultANode) {
  Graph graph = ParseGraph(R"(
    %0 = input : f32[2]
    %1 = neg %0 : f32[2]
    %2 = neg %1 : f32[2]
    %3 = neg %0 : f32[2]
    return %1, %2, %3, %0)");
  auto lowered = [](const Graph& g) {
    auto optimise = [](Graph other) { return Optimise(std::move(other), Evaluated); };
    return LowerGraph(g, RunsPrimitives, optimise).graph;
  };
  Graph after = lowered(graph);
  EXPECT_EQ(ToText(after),
            "%0 = input : f32[2]\n"
            "%1 = neg %0 : f32[2]\n"
            "%2 = reshape %0 {sizes=[2]} : f32[2]\n"
            "%3 = reshape %1 {sizes=[2]} : f32[2]\n"
            "%4 = reshape %0 {sizes=[2]} : f32[2]\n"
            "return %1, %2, %3, %4\n");
  EXPECT_EQ(lowered(after), after);
}

}  // namespace
}  // namespace hammock
