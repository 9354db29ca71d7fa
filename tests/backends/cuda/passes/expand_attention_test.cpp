#include "backends/cuda/passes/expand_attention.h"

#include <gtest/gtest.h>

namespace hammock::cuda {
namespace {

TEST(ExpandAttention, WidthsWithoutAKernelBecomeMatmuls) {
  EXPECT_EQ(ToText(ExpandAttention(ParseGraph(R"(
    %0 = input : bf16[2,3,5,7]
    %1 = input : bf16[2,3,6,7]
    %2:2 = _attention %0, %1, %1, none {is_causal=true, scale=0.5} : bf16[2,3,5,7], f32[2,3,5]
    return %2, %2.1)"))),
            R"(%0 = input : bf16[2,3,5,7]
%1 = input : bf16[2,3,6,7]
%2 = reshape %0 {sizes=[6,5,7]} : bf16[6,5,7]
%3 = reshape %1 {sizes=[6,6,7]} : bf16[6,6,7]
%4 = reshape %1 {sizes=[6,6,7]} : bf16[6,6,7]
%5 = _dot_general_fused %2, %3, none {a_contract=[2], b_contract=[2], a_batch=[0], b_batch=[0], dtype=f32, relu=false} : f32[6,5,6]
%6 = constant {value=0.5, dtype=f32} : f32[]
%7 = broadcast %6 {sizes=[6,5,6]} : f32[6,5,6]
%8 = mul %5, %7 : f32[6,5,6]
%9 = iota {size=5, dtype=i64} : i64[5]
%10 = iota {size=6, dtype=i64} : i64[6]
%11 = broadcast %10 {sizes=[5,6]} : i64[5,6]
%12 = reshape %9 {sizes=[5,1]} : i64[5,1]
%13 = broadcast %12 {sizes=[5,6]} : i64[5,6]
%14 = le %11, %13 : bool[5,6]
%15 = broadcast %14 {sizes=[6,5,6]} : bool[6,5,6]
%16 = constant {value=-inf, dtype=f32} : f32[]
%17 = broadcast %16 {sizes=[6,5,6]} : f32[6,5,6]
%18 = where %15, %8, %17 : f32[6,5,6]
%19 = reduce_max %18 {dims=[2], keepdim=false} : f32[6,5]
%20 = reshape %19 {sizes=[6,5,1]} : f32[6,5,1]
%21 = broadcast %20 {sizes=[6,5,6]} : f32[6,5,6]
%22 = sub %18, %21 : f32[6,5,6]
%23 = exp %22 : f32[6,5,6]
%24 = reduce_sum %23 {dims=[2], keepdim=false} : f32[6,5]
%25 = reshape %24 {sizes=[6,5,1]} : f32[6,5,1]
%26 = broadcast %25 {sizes=[6,5,6]} : f32[6,5,6]
%27 = div %23, %26 : f32[6,5,6]
%28 = cast %27 {dtype=bf16} : bf16[6,5,6]
%29 = _dot_general_fused %28, %4, none {a_contract=[2], b_contract=[1], a_batch=[0], b_batch=[0], dtype=f32, relu=false} : f32[6,5,7]
%30 = cast %29 {dtype=bf16} : bf16[6,5,7]
%31 = log %24 : f32[6,5]
%32 = add %19, %31 : f32[6,5]
%33 = reshape %30 {sizes=[2,3,5,7]} : bf16[2,3,5,7]
%34 = reshape %32 {sizes=[2,3,5]} : f32[2,3,5]
return %33, %34
)");
}

TEST(ExpandAttention, SoDoTheirGradients) {
  EXPECT_EQ(ToText(ExpandAttention(ParseGraph(R"(
    %0 = input : bf16[2,5,7]
    %1 = input : bf16[2,6,7]
    %2 = input : f32[2,5]
    %3:3 = _attention_backward %0, %0, %1, %1, none, %2, %2 {is_causal=false, scale=0.5} : bf16[2,5,7], bf16[2,6,7], bf16[2,6,7]
    return %3, %3.1, %3.2)"))),
            R"(%0 = input : bf16[2,5,7]
%1 = input : bf16[2,6,7]
%2 = input : f32[2,5]
%3 = _dot_general_fused %0, %1, none {a_contract=[2], b_contract=[2], a_batch=[0], b_batch=[0], dtype=f32, relu=false} : f32[2,5,6]
%4 = constant {value=0.5, dtype=f32} : f32[]
%5 = broadcast %4 {sizes=[2,5,6]} : f32[2,5,6]
%6 = mul %3, %5 : f32[2,5,6]
%7 = _dot_general_fused %0, %1, none {a_contract=[2], b_contract=[2], a_batch=[0], b_batch=[0], dtype=f32, relu=false} : f32[2,5,6]
%8 = reshape %2 {sizes=[2,5,1]} : f32[2,5,1]
%9 = broadcast %8 {sizes=[2,5,6]} : f32[2,5,6]
%10 = sub %6, %9 : f32[2,5,6]
%11 = exp %10 : f32[2,5,6]
%12 = reshape %2 {sizes=[2,5,1]} : f32[2,5,1]
%13 = broadcast %12 {sizes=[2,5,6]} : f32[2,5,6]
%14 = sub %7, %13 : f32[2,5,6]
%15 = mul %11, %14 : f32[2,5,6]
%16 = constant {value=0.5, dtype=f32} : f32[]
%17 = broadcast %16 {sizes=[2,5,6]} : f32[2,5,6]
%18 = mul %15, %17 : f32[2,5,6]
%19 = cast %18 {dtype=bf16} : bf16[2,5,6]
%20 = _dot_general_fused %19, %1, none {a_contract=[2], b_contract=[1], a_batch=[0], b_batch=[0], dtype=f32, relu=false} : f32[2,5,7]
%21 = _dot_general_fused %19, %0, none {a_contract=[1], b_contract=[1], a_batch=[0], b_batch=[0], dtype=f32, relu=false} : f32[2,6,7]
%22 = cast %11 {dtype=bf16} : bf16[2,5,6]
%23 = _dot_general_fused %22, %0, none {a_contract=[1], b_contract=[1], a_batch=[0], b_batch=[0], dtype=f32, relu=false} : f32[2,6,7]
%24 = cast %20 {dtype=bf16} : bf16[2,5,7]
%25 = cast %21 {dtype=bf16} : bf16[2,6,7]
%26 = cast %23 {dtype=bf16} : bf16[2,6,7]
return %24, %25, %26
)");
}

TEST(ExpandAttention, LeavesKernelsSingleQueriesAndWiderTypes) {
  const Graph graph = ParseGraph(R"(
    %0 = input : bf16[2,3,5,16]
    %1:2 = _attention %0, %0, %0, none {is_causal=true, scale=0.5} : bf16[2,3,5,16], f32[2,3,5]
    %2 = input : bf16[2,3,1,7]
    %3:2 = _attention %2, %2, %2, none {is_causal=true, scale=0.5} : bf16[2,3,1,7], f32[2,3,1]
    %4 = input : f32[2,3,5,7]
    %5:2 = _attention %4, %4, %4, none {is_causal=true, scale=0.5} : f32[2,3,5,7], f32[2,3,5]
    return %1, %3, %5)");
  EXPECT_EQ(ToText(ExpandAttention(graph)), ToText(graph));
}

}  // namespace
}  // namespace hammock::cuda
