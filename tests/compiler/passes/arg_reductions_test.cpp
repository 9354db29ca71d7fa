#include "compiler/passes/arg_reductions.h"

#include <gtest/gtest.h>

namespace hammock {
namespace {

void Expect(const char* before, const char* after) {
  EXPECT_EQ(ToText(ArgReductions(ParseGraph(before))), ToText(ParseGraph(after)));
}

TEST(ArgReductions, AreTheFirstIndexOfTheExtremum) {
  Expect(R"(
    %0 = input : i32[2,5]
    %1 = arg_min %0 {dim=1, keepdim=true} : i64[2,1]
    return %1)",
         R"(
    %0 = input : i32[2,5]
    %1 = reduce_min %0 {dims=[1], keepdim=true} : i32[2,1]
    %2 = broadcast %1 {sizes=[2,5]} : i32[2,5]
    %3 = eq %0, %2 : bool[2,5]
    %4 = iota {size=5, dtype=i32} : i32[5]
    %5 = reshape %4 {sizes=[1,5]} : i32[1,5]
    %6 = broadcast %5 {sizes=[2,5]} : i32[2,5]
    %7 = constant {value=5, dtype=i32} : i32[]
    %8 = broadcast %7 {sizes=[2,5]} : i32[2,5]
    %9 = where %3, %6, %8 : i32[2,5]
    %10 = reduce_min %9 {dims=[1], keepdim=false} : i32[2]
    %11 = cast %10 {dtype=i64} : i64[2]
    %12 = reshape %11 {sizes=[2,1]} : i64[2,1]
    return %12)");
}

TEST(ArgReductions, FindNaNs) {
  Expect(R"(
    %0 = input : f32[5]
    %1 = arg_max %0 {dim=0, keepdim=false} : i64[]
    return %1)",
         R"(
    %0 = input : f32[5]
    %1 = reduce_max %0 {dims=[0], keepdim=true} : f32[1]
    %2 = broadcast %1 {sizes=[5]} : f32[5]
    %3 = eq %0, %2 : bool[5]
    %4 = ne %0, %0 : bool[5]
    %5 = logical_or %3, %4 : bool[5]
    %6 = iota {size=5, dtype=i32} : i32[5]
    %7 = constant {value=5, dtype=i32} : i32[]
    %8 = broadcast %7 {sizes=[5]} : i32[5]
    %9 = where %5, %6, %8 : i32[5]
    %10 = reduce_min %9 {dims=[0], keepdim=false} : i32[]
    %11 = cast %10 {dtype=i64} : i64[]
    return %11)");
}

TEST(ArgReductions, WithoutResultsAreZeros) {
  Expect(R"(
    %0 = input : f32[0,5]
    %1 = arg_max %0 {dim=1, keepdim=false} : i64[0]
    return %1)",
         R"(
    %0 = input : f32[0,5]
    %1 = constant {value=0, dtype=i64} : i64[]
    %2 = broadcast %1 {sizes=[0]} : i64[0]
    return %2)");
}

}  // namespace
}  // namespace hammock
