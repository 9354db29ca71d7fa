#include "compiler/passes/fold.h"

#include <gtest/gtest.h>

#include "backends/reference/interpreter.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/remove_dead.h"

namespace hammock {
namespace {

std::vector<HostTensor> Evaluated(const Graph& graph, std::span<const HostTensor> inputs) {
  return reference::Interpret(graph, inputs);
}

std::string Folded(const char* text) {
  Graph graph = Fold(ParseGraph(text), Evaluated);
  Verify(graph);
  EXPECT_EQ(ToText(Fold(graph, Evaluated)), ToText(graph)) << "not idempotent";
  return ToText(RemoveDead(graph));
}

TEST(Fold, EvaluatesArithmeticOfConstants) {
  EXPECT_EQ(Folded(R"(
    %0 = constant {value=2, dtype=i64} : i64[]
    %1 = cast %0 {dtype=f32} : f32[]
    %2 = constant {value=3.0, dtype=f32} : f32[]
    %3 = div %1, %2 : f32[]  @ model.cpp:3
    %4 = lt %1, %2 : bool[]
    return %3, %4)"),
            "%0 = constant {value=0.6666667:f32, dtype=f32} : f32[]\n"
            "%1 = constant {value=true, dtype=bool} : bool[]\n"
            "return %0, %1\n");
}

TEST(Fold, KeepsABroadcastSmallAndLocations) {
  Graph graph = Fold(ParseGraph(R"(
    %0 = constant {value=2.0, dtype=f32} : f32[]
    %1 = broadcast %0 {sizes=[2,2]} : f32[2,2]
    %2 = mul %1, %1 : f32[2,2]  @ model.cpp:7
    return %2)"),
                     Evaluated);
  EXPECT_EQ(ToText(RemoveDead(graph), {.locations = true}),
            "%0 = constant {value=4.0:f32, dtype=f32} : f32[]  @ model.cpp:7\n"
            "%1 = broadcast %0 {sizes=[2,2]} : f32[2,2]  @ model.cpp:7\n"
            "return %1\n");
  const char* large =
      "%0 = constant {value=2.0, dtype=f32} : f32[]\n"
      "%1 = broadcast %0 {sizes=[65]} : f32[65]\n"
      "%2 = mul %1, %1 : f32[65]\n"
      "return %2\n";
  EXPECT_EQ(Folded(large), large);
}

TEST(Fold, KnowsSmallVectorsOnTheWayToANumber) {
  EXPECT_EQ(Folded(R"(
    %0 = iota {size=5, dtype=i64} : i64[5]
    %1 = reduce_sum %0 {dims=[0], keepdim=false} : i64[]
    return %1)"),
            "%0 = constant {value=10, dtype=i64} : i64[]\n"
            "return %0\n");
}

void ExpectUnchanged(const char* text) { EXPECT_EQ(Folded(text), text); }

TEST(Fold, LeavesWhatRaisesToTheRun) {
  ExpectUnchanged(
      "%0 = constant {value=1, dtype=i64} : i64[]\n"
      "%1 = constant {value=0, dtype=i64} : i64[]\n"
      "%2 = floor_divide %0, %1 : i64[]\n"
      "return %2\n");
}

TEST(Fold, LeavesWhatBackendsMayRoundDifferently) {
  ExpectUnchanged(
      "%0 = constant {value=1.0, dtype=f32} : f32[]\n"
      "%1 = exp %0 : f32[]\n"
      "return %1\n");
  ExpectUnchanged(
      "%0 = constant {value=0.1, dtype=f32} : f32[]\n"
      "%1 = broadcast %0 {sizes=[3]} : f32[3]\n"
      "%2 = reduce_sum %1 {dims=[0], keepdim=false} : f32[]\n"
      "return %2\n");
  ExpectUnchanged(
      "%0 = constant {value=1e+30, dtype=f32} : f32[]\n"
      "%1 = cast %0 {dtype=i32} : i32[]\n"
      "return %1\n");
  ExpectUnchanged(
      "%0 = constant {value=0.0, dtype=f32} : f32[]\n"
      "%1 = div %0, %0 : f32[]\n"
      "return %1\n");
}

TEST(Fold, LeavesBarriersOrderedNodesAndUnknownOperands) {
  ExpectUnchanged(
      "%0 = input : f32[]\n"
      "%1 = constant {value=1.0, dtype=f32} : f32[]\n"
      "%2 = barrier %1, %0 : f32[]\n"
      "%3 = barrier %1 : f32[]\n"
      "%4 = custom_call %1 {target=\"t\", payload=\"\", types=[\"f32[]\"]} : f32[]\n"
      "%5 = add %0, %1 : f32[]\n"
      "return %2, %3, %4, %5\n");
}

TEST(Fold, GoesIntoBodies) {
  const Pass fold = {"fold", [](Graph graph) { return Fold(std::move(graph), Evaluated); }};
  Graph graph = RunPass(fold, ParseGraph(R"(
    %0 = input : i64[]
    %1 = loop %0 {body=graph {
      %0 = input : i64[]
      %1 = input : i64[]
      %2 = constant {value=2, dtype=i64} : i64[]
      %3 = mul %2, %2 : i64[]
      %4 = add %1, %3 : i64[]
      return %4
    }, count=3, num_carried=1, num_stacked_in=0} : i64[]
    return %1)"));
  EXPECT_STREQ(graph[NodeId(1)].attrs[0].graph()[NodeId(3)].op->name(), "constant");
}

}  // namespace
}  // namespace hammock
