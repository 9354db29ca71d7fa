#include "hammock/compiler/donation_plan.h"

#include <gtest/gtest.h>

#include <numeric>

namespace hammock::compiler {
namespace {

DonationPlan PlanOf(const Graph& graph) {
  Schedule schedule = MakeSchedule(graph, /*aligned_outputs=*/true, /*epilogues=*/false);
  std::vector<int> alone(schedule.commands.size());
  std::iota(alone.begin(), alone.end(), 0);
  return DonationPlan(graph, schedule, alone);
}

std::vector<int> Matched(const std::string& text, const std::vector<bool>& donated) {
  return PlanOf(ParseGraph(text)).Match(donated);
}

TEST(DonationPlan, AnUpdateTakesTheMemoryOfWhatItUpdates) {
  const std::string text = R"(
    %0 = input : f32[8]
    %1 = input : f32[8]
    %2 = exp %1 : f32[8]
    %3 = exp %0 : f32[8]
    return %2, %3)";
  EXPECT_EQ(Matched(text, {true, true}), (std::vector<int>{1, 0}));
  EXPECT_EQ(Matched(text, {true, false}), (std::vector<int>{-1, 0}));
  EXPECT_EQ(Matched(text, {}), (std::vector<int>{-1, -1}));
}

TEST(DonationPlan, WhatAnInputIsUpdatedToComesBeforeOtherResultsOfTheKernel) {
  const std::string text = R"(
    %0 = input : f32[8]
    %1 = input : bf16[8]
    %2 = cast %1 {dtype=f32} : f32[8]
    %3 = sub %0, %2 : f32[8]
    return %2, %3)";
  EXPECT_EQ(Matched(text, {true, true}), (std::vector<int>{-1, 0}));
}

TEST(DonationPlan, AnInputThatDiedEarlierServesOnlyOne) {
  const std::string text = R"(
    %0 = input : f32[4,4]
    %1 = dot_general %0, %0 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : f32[4,4]
    %2 = dot_general %1, %1 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : f32[4,4]
    %3 = dot_general %2, %1 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : f32[4,4]
    return %2, %3)";
  EXPECT_EQ(Matched(text, {true}), (std::vector<int>{0, -1}));
}

TEST(DonationPlan, NeedsEqualBytesOfEqualElements) {
  EXPECT_EQ(Matched("%0 = input : f32[8]\n%1 = cast %0 {dtype=f64} : f64[8]\nreturn %1", {true}),
            std::vector<int>{-1});
  EXPECT_EQ(Matched("%0 = input : f32[8]\n%1 = cast %0 {dtype=i32} : i32[8]\nreturn %1", {true}),
            std::vector<int>{0});
}

TEST(DonationPlan, NothingIsWrittenOverBeforeTheLastCommandThatCanFail) {
  const std::string head = "%0 = input : f32[8,4]\n%1 = input : i64[8,1]\n";
  const std::string gather = "gather %0, %1 {dim=1} : f32[8,1]\n";
  EXPECT_EQ(Matched(head + "%2 = exp %0 : f32[8,4]\n%3 = " +
                        "gather %2, %1 {dim=1} : f32[8,1]\nreturn %2, %3",
                    {true, true}),
            (std::vector<int>{-1, -1}));
  EXPECT_EQ(
      Matched(head + "%2 = " + gather + "%3 = exp %0 : f32[8,4]\nreturn %2, %3", {true, true}),
      (std::vector<int>{-1, 0}));
}

// All pairs may be matched: each output takes one input, whichever are donated.
TEST(DonationPlan, ManyEqualInputsAreMatchedOnce) {
  constexpr int kCount = 300;
  Graph graph;
  std::vector<GraphValue> inputs, outputs;
  for (int i = 0; i < kCount; ++i) inputs.push_back(graph.AddInput(Shape(DType::kF32, {4})));
  for (GraphValue input : inputs) {
    outputs.push_back({graph.AddNode(op_registry::Get("exp"), {input}), 0});
  }
  graph.SetOutputs(outputs);
  std::vector<bool> donated(kCount);
  for (int i = 0; i < kCount; i += 2) donated[i] = true;
  std::vector<int> matched = PlanOf(graph).Match(donated);
  std::vector<bool> taken(kCount);
  int count = 0;
  for (int input : matched) {
    if (input < 0) continue;
    EXPECT_TRUE(donated[input]);
    EXPECT_FALSE(taken[input]) << input;
    taken[input] = true;
    ++count;
  }
  EXPECT_EQ(count, kCount / 2);
}

}  // namespace
}  // namespace hammock::compiler
