#include "compiler/partition.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

namespace hammock {
namespace {

std::string TextOf(const std::vector<GraphValue>& values) {
  std::string text;
  for (GraphValue value : values) text += fmt::format(" %{}.{}", value.node.number(), value.index);
  return text;
}

/// The segments where nodes of these ops have target 1.
std::string Partitioned(const char* text, const std::set<std::string>& refused) {
  const Graph graph = ParseGraph(text);
  NodeMap<int> targets;
  for (const GraphNode& node : graph.nodes()) targets.push_back(refused.contains(node.op->name()));
  std::string out;
  for (const Segment& segment : Partition(graph, targets)) {
    Verify(segment.graph);
    out += fmt::format("target {}, of{}\n{}as{}\n", segment.target, TextOf(segment.inputs),
                       ToText(segment.graph), TextOf(segment.outputs));
  }
  return out;
}

TEST(Partition, SegmentsAreAsLargeAsTheirOrderAllows) {
  EXPECT_EQ(Partitioned(R"(
    %0 = input : f32[2]
    %1 = input : f32[2]
    %2 = neg %0 : f32[2]
    %3 = sin %2 : f32[2]
    %4 = exp %1 : f32[2]
    %5 = add %3, %4 : f32[2]
    %6 = mul %5, %2 : f32[2]
    return %6, %2)",
                        {"sin"}),
            R"(target 0, of %0.0 %1.0
%0 = input : f32[2]
%1 = neg %0 : f32[2]
%2 = input : f32[2]
%3 = exp %2 : f32[2]
return %1, %3
as %2.0 %4.0
target 1, of %2.0
%0 = input : f32[2]
%1 = sin %0 : f32[2]
return %1
as %3.0
target 0, of %3.0 %4.0 %2.0
%0 = input : f32[2]
%1 = input : f32[2]
%2 = add %0, %1 : f32[2]
%3 = input : f32[2]
%4 = mul %2, %3 : f32[2]
return %4
as %6.0
)");
}

TEST(Partition, ConstantsAreRepeatedAndResultsOfOneNodeLeaveApart) {
  EXPECT_EQ(Partitioned(R"(
    %0 = input : f32[2,3]
    %1 = constant {value=2.0:f32, dtype=f32} : f32[]
    %2 = broadcast %1 {sizes=[2,3]} : f32[2,3]
    %3 = mul %0, %2 : f32[2,3]
    %4:2 = sort %3 {dim=1, descending=false, stable=true} : f32[2,3], i64[2,3]
    %5 = broadcast %1 {sizes=[2,3]} : f32[2,3]
    %6 = add %4.0, %5 : f32[2,3]
    return %6, %4.1, %0)",
                        {"sort"}),
            R"(target 0, of %0.0
%0 = constant {value=2.0:f32, dtype=f32} : f32[]
%1 = broadcast %0 {sizes=[2,3]} : f32[2,3]
%2 = input : f32[2,3]
%3 = mul %2, %1 : f32[2,3]
%4 = broadcast %0 {sizes=[2,3]} : f32[2,3]
return %3, %4
as %3.0 %5.0
target 1, of %3.0
%0 = input : f32[2,3]
%1:2 = sort %0 {dim=1, descending=false, stable=true} : f32[2,3], i64[2,3]
return %1.0, %1.1
as %4.0 %4.1
target 0, of %4.0 %5.0
%0 = input : f32[2,3]
%1 = input : f32[2,3]
%2 = add %0, %1 : f32[2,3]
return %2
as %6.0
)");
}

TEST(Partition, InputsHaveTheLinesOfTheirValues) {
  const Graph graph = ParseGraph(R"(
    %0 = input : f32[2]  @ model.cpp:1
    %1 = neg %0 : f32[2]  @ model.cpp:2
    %2 = sin %1 : f32[2]  @ model.cpp:3
    return %2)");
  NodeMap<int> targets(graph.size(), 0);
  targets[NodeId(2)] = 1;
  EXPECT_EQ(ToText(Partition(graph, targets)[1].graph, {.locations = true}),
            "%0 = input : f32[2]  @ model.cpp:2\n%1 = sin %0 : f32[2]  @ model.cpp:3\nreturn %1\n");
}

}  // namespace
}  // namespace hammock
