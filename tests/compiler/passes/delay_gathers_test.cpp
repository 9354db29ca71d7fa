#include "compiler/passes/delay_gathers.h"

#include <gtest/gtest.h>

namespace hammock {
namespace {

TEST(DelayGathers, PutsGathersOneAheadOfTheirUse) {
  Graph before = ParseGraph(R"(
    %0 = input : f32[2]
    %1 = input : f32[2]
    %2 = input : f32[2]
    %3 = input : f32[4]
    %4 = all_gather %0 {group="g", size=2} : f32[4]
    %5 = all_gather %1 {group="g", size=2} : f32[4]
    %6 = all_gather %2 {group="g", size=2} : f32[4]
    %7 = mul %3, %4 : f32[4]
    %8 = mul %7, %5 : f32[4]
    %9 = mul %8, %6 : f32[4]
    return %9)");
  EXPECT_EQ(ToText(DelayGathers(before)), ToText(ParseGraph(R"(
    %0 = input : f32[2]
    %1 = input : f32[2]
    %2 = input : f32[2]
    %3 = input : f32[4]
    %4 = all_gather %0 {group="g", size=2} : f32[4]
    %5 = all_gather %1 {group="g", size=2} : f32[4]
    %6 = mul %3, %4 : f32[4]
    %7 = mul %6, %5 : f32[4]
    %8 = all_gather %2 {group="g", size=2} : f32[4]
    %9 = mul %7, %8 : f32[4]
    return %9)")));
}

TEST(DelayGathers, KeepsTheOrderOfCollectives) {
  const char* text = R"(
    %0 = input : f32[2]
    %1 = input : f32[2]
    %2 = all_gather %0 {group="g", size=2} : f32[4]
    %3 = all_reduce %1 {reduction="sum", group="g", size=2} : f32[2]
    %4 = mul %2, %2 : f32[4]
    return %3, %4)";
  EXPECT_EQ(ToText(DelayGathers(ParseGraph(text))), ToText(ParseGraph(text)));
}

TEST(DelayGathers, MovesNothingPastABodyWithCollectives) {
  const char* text = R"(
    %0 = input : f32[2]
    %1 = input : f32[2]
    %2 = all_gather %0 {group="g", size=2} : f32[4]
    %3 = loop %1 {body=graph {
      %0 = input : i64[]
      %1 = input : f32[2]
      %2 = all_reduce %1 {reduction="sum", group="g", size=2} : f32[2]
      return %2
    }, count=2, num_carried=1, num_stacked_in=0} : f32[2]
    %4 = mul %2, %2 : f32[4]
    return %3, %4)";
  EXPECT_EQ(ToText(DelayGathers(ParseGraph(text))), ToText(ParseGraph(text)));
}

TEST(DelayGathers, KeepsGathersThatNothingUses) {
  const char* text = R"(
    %0 = input : f32[2]
    %1 = all_gather %0 {group="g", size=2} : f32[4]
    return %0)";
  EXPECT_EQ(ToText(DelayGathers(ParseGraph(text))), ToText(ParseGraph(text)));
}

}  // namespace
}  // namespace hammock
