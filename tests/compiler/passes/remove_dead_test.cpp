#include "compiler/passes/remove_dead.h"

#include <gtest/gtest.h>

#include "compiler/passes/pass.h"

namespace hammock {
namespace {

TEST(RemoveDead, KeepsResultsInputsAndOrderedEffects) {
  Graph graph = ParseGraph(R"(
    %0 = input : f32[2]
    %1 = input : f32[2]
    %2 = exp %0 : f32[2]
    %3 = sin %0 : f32[2]
    %4 = custom_call %3 {target="log", payload="", types=["f32[2]"]} : f32[2]
    %5 = neg %2 : f32[2]
    return %2)");
  EXPECT_EQ(ToText(RemoveDead(graph)),
            "%0 = input : f32[2]\n"
            "%1 = input : f32[2]\n"
            "%2 = exp %0 : f32[2]\n"
            "%3 = sin %0 : f32[2]\n"
            "%4 = custom_call %3 {target=\"log\", payload=\"\", types=[\"f32[2]\"]} : f32[2]\n"
            "return %2\n");
}

TEST(RemoveDead, RemovesRandomBitsThatNothingReads) {
  Graph graph = ParseGraph(R"(
    %0 = input : u64[2]
    %1 = rng_bits %0 {sizes=[3]} : u32[3]
    %2 = rng_bits %0 {sizes=[4]} : u32[4]
    return %2)");
  EXPECT_EQ(ToText(RemoveDead(graph)),
            "%0 = input : u64[2]\n"
            "%1 = rng_bits %0 {sizes=[4]} : u32[4]\n"
            "return %1\n");
}

TEST(RemoveDead, GoesIntoBodiesAndKeepsALoopWithAnOrderedEffect) {
  Graph graph = ParseGraph(R"(
    %0 = input : f32[2]
    %1 = loop %0 {body=graph {
      %0 = input : i64[]
      %1 = input : f32[2]
      %2 = exp %1 : f32[2]
      %3 = custom_call %1 {target="log", payload="", types=["f32[2]"]} : f32[2]
      return %1
    }, count=3, num_carried=1, num_stacked_in=0} : f32[2]
    %2 = loop %0 {body=graph {
      %0 = input : i64[]
      %1 = input : f32[2]
      %2 = exp %1 : f32[2]
      return %2
    }, count=3, num_carried=1, num_stacked_in=0} : f32[2]
    return %0)");
  Graph after = RunPass({"remove_dead", RemoveDead}, graph);
  ASSERT_EQ(after.size(), 2);
  const Graph& body = after[NodeId(1)].attrs[0].graph();
  EXPECT_EQ(body.size(), 3);
  EXPECT_STREQ(body[NodeId(2)].op->name(), "custom_call");
}

}  // namespace
}  // namespace hammock
