#include "runtime/diagnose/graph_diff.h"

#include <gtest/gtest.h>

namespace hammock {
namespace {

GraphDifference Diff(std::string_view now, std::string_view cached) {
  return FirstDifference(ParseGraph(now), ParseGraph(cached));
}

constexpr char kBase[] = R"(
  %0 = input : f32[2,3]  @ a.cpp:1
  %1 = input : f32[2,3]  @ a.cpp:2
  %2 = mul %0, %1 : f32[2,3]  @ a.cpp:3
  %3 = reduce_sum %2 {dims=[1], keepdim=false} : f32[2]  @ a.cpp:4
  return %3)";

TEST(GraphDiff, FindsNoneInEqualGraphs) {
  EXPECT_EQ(Diff(kBase, kBase).kind, "");
  EXPECT_EQ(Diff(kBase, kBase).detail, "");
}

TEST(GraphDiff, NamesTheOpAndBothLines) {
  GraphDifference difference = Diff(R"(
    %0 = input : f32[2,3]
    %1 = input : f32[2,3]
    %2 = add %0, %1 : f32[2,3]  @ b.cpp:30
    %3 = reduce_sum %2 {dims=[1], keepdim=false} : f32[2]
    return %3)",
                                    kBase);
  EXPECT_EQ(difference.kind, "op");
  EXPECT_EQ(difference.detail, "%2 = add (at b.cpp:30), in the cached graph %2 = mul (at a.cpp:3)");
}

TEST(GraphDiff, NamesTheAttributeRatherThanTheTypeItCauses) {
  GraphDifference difference = Diff(R"(
    %0 = input : f32[2,3]
    %1 = input : f32[2,3]
    %2 = mul %0, %1 : f32[2,3]
    %3 = reduce_sum %2 {dims=[0], keepdim=false} : f32[3]  @ b.cpp:4
    return %3)",
                                    kBase);
  EXPECT_EQ(difference.kind, "attribute");
  EXPECT_EQ(difference.detail,
            "attribute `dims` of %3 = reduce_sum (at b.cpp:4) is [0], in the cached graph [1] (at "
            "a.cpp:4)");
}

TEST(GraphDiff, NamesTheSizeThatChanged) {
  GraphDifference difference = Diff(R"(
    %0 = input : f32[2,5]  @ b.cpp:1
    %1 = input : f32[2,5]
    %2 = mul %0, %1 : f32[2,5]
    %3 = reduce_sum %2 {dims=[1], keepdim=false} : f32[2]
    return %3)",
                                    kBase);
  EXPECT_EQ(difference.kind, "shape");
  EXPECT_EQ(difference.detail,
            "%0 = input (at b.cpp:1) has size 5 in dim 1, not 3: f32[2,5], in the cached graph "
            "f32[2,3] (at a.cpp:1)");
}

TEST(GraphDiff, NamesTheDType) {
  GraphDifference difference = Diff(R"(
    %0 = input : f64[2,3]  @ b.cpp:1
    %1 = input : f32[2,3]
    %2 = mul %0, %1 : f64[2,3]
    %3 = reduce_sum %2 {dims=[1], keepdim=false} : f64[2]
    return %3)",
                                    kBase);
  EXPECT_EQ(difference.kind, "dtype");
  EXPECT_EQ(difference.detail,
            "%0 = input (at b.cpp:1) is f64, not f32: f64[2,3], in the cached graph f32[2,3] (at "
            "a.cpp:1)");
}

TEST(GraphDiff, NamesBothOperands) {
  GraphDifference difference = Diff(R"(
    %0 = input : f32[2,3]
    %1 = input : f32[2,3]
    %2 = mul %1, %1 : f32[2,3]  @ b.cpp:3
    %3 = reduce_sum %2 {dims=[1], keepdim=false} : f32[2]
    return %3)",
                                    kBase);
  EXPECT_EQ(difference.kind, "operand");
  EXPECT_EQ(difference.detail,
            "operand 0 of %2 = mul (at b.cpp:3) is %1 = input (line unknown); in the cached graph "
            "(at a.cpp:3) it is %0 = input (at a.cpp:1)");
}

TEST(GraphDiff, SaysThatALiveHandleKeepsAnOutput) {
  std::string kept = std::string(kBase);
  kept.replace(kept.find("return %3"), 9, "return %2, %3");
  EXPECT_EQ(Diff(kept, kBase).kind, "live output");
  EXPECT_EQ(Diff(kept, kBase).detail,
            "%2 = mul (at a.cpp:3) is an output, in the cached graph (at a.cpp:3) it is none: a "
            "live handle or a pending op keeps it now");
  EXPECT_EQ(Diff(kBase, kept).kind, "live output");
  EXPECT_EQ(Diff(kBase, kept).detail,
            "%2 = mul (at a.cpp:3) is no output, in the cached graph (at a.cpp:3) it is one: a "
            "live handle or a pending op kept it then");
}

TEST(GraphDiff, TellsWhetherTwoOperandsAreTheSameTensor) {
  constexpr char kShared[] = R"(
    %0 = input : f32[2]  @ a.cpp:1
    %1 = add %0, %0 : f32[2]  @ a.cpp:2
    return %1)";
  constexpr char kSeparate[] = R"(
    %0 = input : f32[2]  @ b.cpp:1
    %1 = input : f32[2]  @ b.cpp:2
    %2 = add %0, %1 : f32[2]  @ b.cpp:3
    return %2)";
  EXPECT_EQ(Diff(kSeparate, kShared).kind, "alias");
  EXPECT_EQ(Diff(kSeparate, kShared).detail,
            "operand 1 of add (at b.cpp:3) is a tensor of its own; in the cached graph (at "
            "a.cpp:2) it is the same tensor as %0 = input (at a.cpp:1)");
  EXPECT_EQ(Diff(kShared, kSeparate).kind, "alias");
}

TEST(GraphDiff, FindsInsertedNodes) {
  GraphDifference difference = Diff(R"(
    %0 = input : f32[2,3]
    %1 = input : f32[2,3]
    %2 = exp %1 : f32[2,3]  @ b.cpp:9
    %3 = mul %0, %2 : f32[2,3]
    %4 = reduce_sum %3 {dims=[1], keepdim=false} : f32[2]
    return %4)",
                                    kBase);
  EXPECT_EQ(difference.kind, "extra nodes");
  EXPECT_EQ(difference.detail,
            "the graph has 1 more node(s), first %2 = exp (at b.cpp:9); the cached graph has %2 = "
            "mul (at a.cpp:3) there");
}

TEST(GraphDiff, FindsNodesThatAreMissingAtTheEnd) {
  GraphDifference difference = Diff(R"(
    %0 = input : f32[2,3]
    %1 = input : f32[2,3]
    %2 = mul %0, %1 : f32[2,3]  @ b.cpp:3
    return %2)",
                                    kBase);
  EXPECT_EQ(difference.kind, "extra nodes");
  EXPECT_EQ(difference.detail,
            "the cached graph has 1 more node(s), first %3 = reduce_sum (at a.cpp:4); this one has "
            "nothing after %2 = mul (at b.cpp:3) there");
}

TEST(GraphDiff, LooksIntoGraphAttributes) {
  auto body = [](const OpDef& op) {
    Graph graph;
    GraphValue x = graph.AddInput(Shape(DType::kF32, {2}));
    graph.AddOutput({graph.AddNode(op, {x}), 0});
    return std::make_shared<const Graph>(graph);
  };
  auto call = [&](const char* op) {
    Graph graph;
    GraphValue x = graph.AddInput(Shape(DType::kF32, {2}));
    graph.AddOutput(
        {graph.AddNode(op_registry::Get("call"), {x}, {body(op_registry::Get(op))}), 0});
    return graph;
  };
  GraphDifference difference = FirstDifference(call("exp"), call("neg"));
  EXPECT_EQ(difference.kind, "attribute");
  EXPECT_NE(difference.detail.find("attribute `body` of %1 = call"), std::string::npos);
  EXPECT_NE(difference.detail.find("%1 = exp (line unknown), in the cached graph %1 = neg"),
            std::string::npos)
      << difference.detail;
}

TEST(GraphDiff, PrefersTheGraphThatSharesMoreToOneOfTheSameLength) {
  Graph now = ParseGraph(kBase);
  Graph other_size = ParseGraph(R"(
    %0 = input : f32[4,3]
    %1 = input : f32[4,3]
    %2 = mul %0, %1 : f32[4,3]
    %3 = reduce_sum %2 {dims=[1], keepdim=false} : f32[4]
    return %3)");
  Graph other_ops = ParseGraph(R"(
    %0 = input : f32[2,3]
    %1 = exp %0 : f32[2,3]
    %2 = neg %1 : f32[2,3]
    %3 = sqrt %2 : f32[2,3]
    return %3)");
  Graph longer = ParseGraph(R"(
    %0 = input : f32[2,3]
    %1 = exp %0 : f32[2,3]
    %2 = input : f32[2,3]
    %3 = mul %1, %2 : f32[2,3]
    %4 = reduce_sum %3 {dims=[1], keepdim=false} : f32[2]
    return %4)");
  EXPECT_GT(Similarity(now, now), Similarity(now, longer));
  EXPECT_GT(Similarity(now, other_size), Similarity(now, other_ops));
  EXPECT_GT(Similarity(now, longer), Similarity(now, other_ops));
}

TEST(GraphDiff, KnowsALaterStepOfALoop) {
  Graph first = ParseGraph(R"(
    %0 = input : f32[2,3]
    %1 = exp %0 : f32[2,3]
    %2 = neg %1 : f32[2,3]
    %3 = mul %1, %2 : f32[2,3]
    %4 = reduce_sum %3 {dims=[1], keepdim=false} : f32[2]
    return %4)");
  Graph later = ParseGraph(kBase);
  EXPECT_TRUE(IsLaterStep(later, first));
  EXPECT_FALSE(IsLaterStep(first, later));
  EXPECT_FALSE(IsLaterStep(first, first));
}

}  // namespace
}  // namespace hammock
