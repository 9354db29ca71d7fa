#include "compiler/passes/repeated_element.h"

#include <gtest/gtest.h>

namespace hammock {
namespace {

/// What is known of the value that the graph returns.
std::optional<double> ConstantOf(const char* text) {
  Graph graph = ParseGraph(text);
  std::optional<Scalar> number = ConstantOf(graph, graph.outputs()[0]);
  return number ? std::optional(number->ToDouble()) : std::nullopt;
}

bool IsZero(const char* text) {
  Graph graph = ParseGraph(text);
  return IsZero(graph, graph.outputs()[0]);
}

TEST(RepeatedElement, IsFoundThroughABroadcastAndAReshapeOfOneElement) {
  Graph graph = ParseGraph(R"(
    %0 = input : f32[1]
    %1 = reshape %0 {sizes=[]} : f32[]
    %2 = broadcast %1 {sizes=[2,3]} : f32[2,3]
    %3 = broadcast %0 {sizes=[4]} : f32[4]
    %4 = reshape %2 {sizes=[6]} : f32[6]
    return %2, %3, %4)");
  const GraphValue input = {graph.inputs()[0], 0};
  EXPECT_EQ(RepeatedElement(graph, graph.outputs()[0]), input);
  EXPECT_EQ(RepeatedElement(graph, graph.outputs()[1]), input);
  EXPECT_FALSE(RepeatedElement(graph, graph.outputs()[2]));
}

TEST(ConstantOf, GivesTheNumberThatReshapesAndBroadcastsRepeat) {
  EXPECT_EQ(ConstantOf(R"(
    %0 = constant {value=3.0, dtype=f32} : f32[]
    %1 = broadcast %0 {sizes=[2,1]} : f32[2,1]
    %2 = reshape %1 {sizes=[2]} : f32[2]
    %3 = broadcast %2 {sizes=[4,2]} : f32[4,2]
    return %3)"),
            3.0);
  EXPECT_EQ(ConstantOf(R"(
    %0 = input : f32[]
    %1 = broadcast %0 {sizes=[2]} : f32[2]
    return %1)"),
            std::nullopt);
}

TEST(IsZero, TellsZeroFromNegativeZero) {
  EXPECT_TRUE(IsZero(R"(
    %0 = constant {value=0.0, dtype=f32} : f32[]
    %1 = broadcast %0 {sizes=[2]} : f32[2]
    return %1)"));
  EXPECT_TRUE(IsZero("%0 = constant {value=0, dtype=i64} : i64[]\nreturn %0"));
  EXPECT_FALSE(IsZero("%0 = constant {value=-0.0, dtype=f32} : f32[]\nreturn %0"));
  EXPECT_FALSE(IsZero("%0 = constant {value=1.0, dtype=f32} : f32[]\nreturn %0"));
  EXPECT_FALSE(IsZero("%0 = input : f32[]\nreturn %0"));
}

}  // namespace
}  // namespace hammock
