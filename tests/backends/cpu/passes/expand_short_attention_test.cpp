#include "backends/cpu/passes/expand_short_attention.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace hammock::cpu {
namespace {

TEST(ExpandShortAttention, FewKeysBecomeMatmuls) {
  EXPECT_EQ(ToText(ExpandShortAttention(ParseGraph(R"(
    %0 = input : f32[1,2,3,4]
    %1 = input : f32[1,2,5,4]
    %2:2 = _attention %0, %1, %1, none {is_causal=false, scale=0.5} : f32[1,2,3,4], f32[1,2,3]
    return %2)"))),
            R"(%0 = input : f32[1,2,3,4]
%1 = input : f32[1,2,5,4]
%2 = constant {value=0.5:f32, dtype=f32} : f32[]
%3 = broadcast %2 {sizes=[1,2,3,4]} : f32[1,2,3,4]
%4 = mul %0, %3 : f32[1,2,3,4]
%5 = dot_general %4, %1 {a_contract=[3], b_contract=[3], a_batch=[0,1], b_batch=[0,1]} : f32[1,2,3,5]
%6 = reduce_max %5 {dims=[3], keepdim=true} : f32[1,2,3,1]
%7 = broadcast %6 {sizes=[1,2,3,5]} : f32[1,2,3,5]
%8 = sub %5, %7 : f32[1,2,3,5]
%9 = exp %8 : f32[1,2,3,5]
%10 = reduce_sum %9 {dims=[3], keepdim=true} : f32[1,2,3,1]
%11 = reciprocal %10 : f32[1,2,3,1]
%12 = broadcast %11 {sizes=[1,2,3,5]} : f32[1,2,3,5]
%13 = mul %9, %12 : f32[1,2,3,5]
%14 = dot_general %13, %1 {a_contract=[3], b_contract=[2], a_batch=[0,1], b_batch=[0,1]} : f32[1,2,3,4]
return %14
)");
}

TEST(ExpandShortAttention, ManyKeysStayWhole) {
  for (int64_t keys : {512, 513}) {
    for (bool is_causal : {false, true}) {
      const Graph graph = ParseGraph(fmt::format(R"(
        %0 = input : f32[1,2,{0},4]
        %1:2 = _attention %0, %0, %0, none {{is_causal={1}, scale=0.5}} : f32[1,2,{0},4], f32[1,2,{0}]
        return %1)",
                                                 keys, is_causal));
      EXPECT_EQ(ExpandShortAttention(graph) == graph, keys > 512 || is_causal) << keys;
    }
  }
}

}  // namespace
}  // namespace hammock::cpu
