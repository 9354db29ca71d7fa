#include "compiler/passes/expand_storage.h"

#include <gtest/gtest.h>

#include "compiler/passes/remove_dead.h"

namespace hammock {
namespace {

void Expect(const char* before, const char* after) {
  EXPECT_EQ(ToText(RemoveDead(ExpandStorage(ParseGraph(before)))), ToText(ParseGraph(after)));
}

TEST(ExpandStorage, PackedIntegersAreMovedAsIntegers) {
  Expect(R"(
    %0 = input : i4[2,4]
    %1 = permute %0 {dims=[1,0]} : i4[4,2]
    %2 = cast %1 {dtype=i32} : i32[4,2]
    return %2)",
         R"(
    %0 = input : i4[2,4]
    %1 = constant {value=8:i8, dtype=i8} : i8[]
    %2 = constant {value=8:u8, dtype=u8} : u8[]
    %3 = constant {value=15:u8, dtype=u8} : u8[]
    %4 = constant {value=4:u8, dtype=u8} : u8[]
    %5 = iota {size=2, dtype=i64} : i64[2]
    %6 = cast %5 {dtype=u8} : u8[2]
    %7 = broadcast %4 {sizes=[2]} : u8[2]
    %8 = mul %6, %7 : u8[2]
    %9 = bitcast %0 {dtype=u8} : u8[2,2]
    %10 = reshape %9 {sizes=[2,2,1]} : u8[2,2,1]
    %11 = broadcast %10 {sizes=[2,2,2]} : u8[2,2,2]
    %12 = broadcast %8 {sizes=[2,2,2]} : u8[2,2,2]
    %13 = bitwise_right_shift %11, %12 : u8[2,2,2]
    %14 = broadcast %3 {sizes=[2,2,2]} : u8[2,2,2]
    %15 = bitwise_and %13, %14 : u8[2,2,2]
    %16 = broadcast %2 {sizes=[2,2,2]} : u8[2,2,2]
    %17 = bitwise_xor %15, %16 : u8[2,2,2]
    %18 = bitcast %17 {dtype=i8} : i8[2,2,2]
    %19 = broadcast %1 {sizes=[2,2,2]} : i8[2,2,2]
    %20 = sub %18, %19 : i8[2,2,2]
    %21 = reshape %20 {sizes=[2,4]} : i8[2,4]
    %22 = permute %21 {dims=[1,0]} : i8[4,2]
    %23 = cast %22 {dtype=i32} : i32[4,2]
    return %23)");
}

TEST(ExpandStorage, LeavesOtherGraphs) {
  const char* text = R"(
    %0 = input : f32[2]
    %1 = cast %0 {dtype=bf16} : bf16[2]
    return %1)";
  Expect(text, text);
}

TEST(ExpandStorage, KeepsControlFlowInMemory) {
  const char* text = R"(
    %0 = input : f8e4m3[2]
    %1 = loop %0 {body=graph {
      %0 = input : i64[]
      %1 = input : f8e4m3[2]
      return %1
    }, count=2, num_carried=1, num_stacked_in=0} : f8e4m3[2]
    return %1)";
  Expect(text, text);
}

}  // namespace
}  // namespace hammock
