#include "compiler/passes/narrow_matmuls.h"

#include <gtest/gtest.h>

#include "compiler/passes/remove_dead.h"

namespace hammock {
namespace {

bool All(const Graph&, const GraphNode&) { return true; }
bool None(const Graph&, const GraphNode&) { return false; }

TEST(NarrowMatMuls, ReadSixteenBitFloats) {
  const Graph graph = ParseGraph(R"(
    %0 = input : bf16[8,16]
    %1 = input : bf16[4,16]
    %2 = cast %0 {dtype=f32} : f32[8,16]
    %3 = cast %1 {dtype=f32} : f32[4,16]
    %4 = dot_general %2, %3 {a_contract=[1], b_contract=[1], a_batch=[], b_batch=[]} : f32[8,4]
    %5 = cast %4 {dtype=bf16} : bf16[8,4]
    return %5)");
  EXPECT_EQ(ToText(RemoveDead(NarrowMatMuls(graph))), ToText(ParseGraph(R"(
    %0 = input : bf16[8,16]
    %1 = input : bf16[4,16]
    %2 = _dot_general_fused %0, %1, none {a_contract=[1], b_contract=[1], a_batch=[], b_batch=[], dtype=f32, relu=false} : f32[8,4]
    %3 = cast %2 {dtype=bf16} : bf16[8,4]
    return %3)")));
  EXPECT_EQ(ToText(RemoveDead(NarrowMatMuls(graph, None))), ToText(graph));
}

TEST(NarrowMatMuls, ReadBytesWhereTheBackendTakesThem) {
  const Graph graph = ParseGraph(R"(
    %0 = input : u8[3,8]
    %1 = input : i8[4,8]
    %2 = cast %0 {dtype=i32} : i32[3,8]
    %3 = cast %1 {dtype=i32} : i32[4,8]
    %4 = permute %3 {dims=[1,0]} : i32[8,4]
    %5 = dot_general %2, %4 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : i32[3,4]
    return %5)");
  EXPECT_EQ(ToText(RemoveDead(NarrowMatMuls(graph, All))), ToText(ParseGraph(R"(
    %0 = input : u8[3,8]
    %1 = input : i8[4,8]
    %2 = permute %1 {dims=[1,0]} : i8[8,4]
    %3 = _dot_general_fused %0, %2, none {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[], dtype=i32, relu=false} : i32[3,4]
    return %3)")));
  EXPECT_EQ(ToText(RemoveDead(NarrowMatMuls(graph, None))), ToText(graph));
}

TEST(NarrowConvolutions, ReadBytesWhereTheBackendTakesThem) {
  const Graph graph = ParseGraph(R"(
    %0 = input : u8[1,16,4,4]
    %1 = input : i8[16,16,3,3]
    %2 = cast %0 {dtype=i32} : i32[1,16,4,4]
    %3 = cast %1 {dtype=i32} : i32[16,16,3,3]
    %4 = convolution %2, %3 {stride=[1,1], padding=[1,1], dilation=[1,1], transposed=false, output_padding=[0,0], groups=1} : i32[1,16,4,4]
    return %4)");
  EXPECT_EQ(ToText(RemoveDead(NarrowConvolutions(graph, All))), ToText(ParseGraph(R"(
    %0 = input : u8[1,16,4,4]
    %1 = input : i8[16,16,3,3]
    %2 = _convolution_last %0, %1 {stride=[1,1], padding=[1,1], dilation=[1,1], transposed=false, output_padding=[0,0], groups=1, input_last=false, result_last=false} : i32[1,16,4,4]
    return %2)")));
  EXPECT_EQ(ToText(RemoveDead(NarrowConvolutions(graph, None))), ToText(graph));
}

}  // namespace
}  // namespace hammock
