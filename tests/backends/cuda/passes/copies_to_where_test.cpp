#include "backends/cuda/passes/copies_to_where.h"

#include <gtest/gtest.h>

#include "compiler/passes/remove_dead.h"

namespace hammock::cuda {
namespace {

TEST(CopiesToWhere, OneIndexIsSelected) {
  Graph graph = ParseGraph(R"(
    %0 = input : f32[1,4]
    %1 = constant {value=0, dtype=f32} : f32[]
    %2 = broadcast %1 {sizes=[3,4]} : f32[3,4]
    %3 = update_slice %2, %0 {dim=0, start=2, step=1} : f32[3,4]
    return %3)");
  EXPECT_EQ(
      ToText(RemoveDead(CopiesToWhere(graph))),
      "%0 = input : f32[1,4]\n%1 = constant {value=0, dtype=f32} : f32[]\n"
      "%2 = broadcast %1 {sizes=[3,4]} : f32[3,4]\n%3 = iota {size=3, dtype=i64} : i64[3]\n"
      "%4 = constant {value=2, dtype=i64} : i64[]\n%5 = broadcast %4 {sizes=[3]} : i64[3]\n"
      "%6 = eq %3, %5 : bool[3]\n%7 = reshape %6 {sizes=[3,1]} : bool[3,1]\n"
      "%8 = broadcast %7 {sizes=[3,4]} : bool[3,4]\n%9 = broadcast %0 {sizes=[3,4]} : f32[3,4]\n"
      "%10 = where %8, %9, %2 : f32[3,4]\nreturn %10\n");
}

TEST(CopiesToWhere, OtherSlicesAreLeftAlone) {
  for (const char* text :
       {"    %0 = input : f32[2,4]\n    %1 = constant {value=0, dtype=f32} : f32[]\n"
        "    %2 = broadcast %1 {sizes=[3,4]} : f32[3,4]\n"
        "    %3 = update_slice %2, %0 {dim=0, start=1, step=1} : f32[3,4]\n"
        "    return %3",
        "    %0 = input : f32[1,4]\n    %1 = input : f32[3,4]\n"
        "    %2 = update_slice %1, %0 {dim=0, start=1, step=1} : f32[3,4]\n"
        "    return %2"}) {
    Graph graph = ParseGraph(text);
    EXPECT_EQ(ToText(CopiesToWhere(graph)), ToText(graph));
  }
}

TEST(CopiesToWhere, HalvesAreSelected) {
  Graph graph = ParseGraph(R"(
    %0 = input : f32[3,4]
    %1 = neg %0 : f32[3,4]
    %2 = concat %1, %0 {dim=1} : f32[3,8]
    return %2)");
  EXPECT_EQ(
      ToText(RemoveDead(CopiesToWhere(graph))),
      "%0 = input : f32[3,4]\n%1 = neg %0 : f32[3,4]\n"
      "%2 = reshape %1 {sizes=[3,1,4]} : f32[3,1,4]\n"
      "%3 = broadcast %2 {sizes=[3,2,4]} : f32[3,2,4]\n"
      "%4 = reshape %0 {sizes=[3,1,4]} : f32[3,1,4]\n"
      "%5 = broadcast %4 {sizes=[3,2,4]} : f32[3,2,4]\n%6 = iota {size=2, dtype=i64} : i64[2]\n"
      "%7 = constant {value=0, dtype=i64} : i64[]\n%8 = broadcast %7 {sizes=[2]} : i64[2]\n"
      "%9 = eq %6, %8 : bool[2]\n%10 = reshape %9 {sizes=[1,2,1]} : bool[1,2,1]\n"
      "%11 = broadcast %10 {sizes=[3,2,4]} : bool[3,2,4]\n%12 = where %11, %3, %5 : f32[3,2,4]\n"
      "%13 = reshape %12 {sizes=[3,8]} : f32[3,8]\nreturn %13\n");
}

TEST(CopiesToWhere, PartsInMemoryAndOtherPartsAreCopied) {
  for (const char* text : {"    %0 = input : f32[3,4]\n    %1 = concat %0, %0 {dim=1} : f32[3,8]\n"
                           "    return %1",
                           "    %0 = input : f32[3,4]\n    %1 = neg %0 : f32[3,4]\n"
                           "    %2 = concat %0, %1, %0 {dim=1} : f32[3,12]\n    return %2"}) {
    Graph graph = ParseGraph(text);
    EXPECT_EQ(ToText(CopiesToWhere(graph)), ToText(graph));
  }
}

}  // namespace
}  // namespace hammock::cuda
