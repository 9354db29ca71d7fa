#include "backends/cuda/passes/scatter_rows.h"

#include <gtest/gtest.h>

#include "compiler/passes/remove_dead.h"

namespace hammock::cuda {
namespace {

void Expect(const char* before, const char* after) {
  EXPECT_EQ(ToText(RemoveDead(ScatterRows(ParseGraph(before)))), ToText(ParseGraph(after)));
}

TEST(ScatterRows, AnIndexOfWholeRowsIsAVector) {
  Expect(R"(
    %0 = input : f32[3,5]
    %1 = input : i64[4,1]
    %2 = input : f32[4,5]
    %3 = broadcast %1 {sizes=[4,5]} : i64[4,5]
    %4 = scatter %0, %3, %2 {dim=0, reduce="amax"} : f32[3,5]
    return %4)",
         R"(
    %0 = input : f32[3,5]
    %1 = input : i64[4,1]
    %2 = input : f32[4,5]
    %3 = reshape %1 {sizes=[4]} : i64[4]
    %4 = _scatter_rows %0, %3, %2 {dim=0, reduce="amax", sizes=[3,5]} : f32[3,5]
    return %4)");
}

TEST(ScatterRows, ZerosAreNotRead) {
  Expect(R"(
    %0 = input : i64[4,5]
    %1 = input : f32[4,5]
    %2 = constant {value=0.0:f32, dtype=f32} : f32[]
    %3 = broadcast %2 {sizes=[3,5]} : f32[3,5]
    %4 = scatter %3, %0, %1 {dim=0, reduce="sum"} : f32[3,5]
    return %4)",
         R"(
    %0 = input : i64[4,5]
    %1 = input : f32[4,5]
    %2 = _scatter_rows none, %0, %1 {dim=0, reduce="sum", sizes=[3,5]} : f32[3,5]
    return %2)");
}

TEST(ScatterRows, LeavesOtherIndices) {
  const char* text = R"(
    %0 = input : f32[3,5]
    %1 = input : i64[5]
    %2 = input : f32[4,5]
    %3 = broadcast %1 {sizes=[4,5]} : i64[4,5]
    %4 = scatter %0, %3, %2 {dim=0, reduce="sum"} : f32[3,5]
    return %4)";
  Expect(text, text);
}

}  // namespace
}  // namespace hammock::cuda
