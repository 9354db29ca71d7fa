#include "compiler/schedule.h"
#include <fmt/format.h>
#include <gtest/gtest.h>
#include "compiler/split_reductions.h"
#include "hammock/hammock.h"
namespace hammock::compiler {
TEST(Schedule, Dump) {
  for (const char* text : {R"(
%0 = input : f32[4096,1024]
%1 = reduce_max %0 {dims=[1], keepdim=true} : f32[4096,1]
%2 = broadcast %1 {sizes=[4096,1024]} : f32[4096,1024]
%3 = sub %0, %2 : f32[4096,1024]
%4 = exp %3 : f32[4096,1024]
%5 = reduce_sum %4 {dims=[1], keepdim=true} : f32[4096,1]
%6 = broadcast %5 {sizes=[4096,1024]} : f32[4096,1024]
%7 = div %4, %6 : f32[4096,1024]
return %7)",
                           R"(
%0 = input : f32[64,8,16]
%1 = input : f32[16]
%2 = broadcast %1 {sizes=[64,8,16]} : f32[64,8,16]
%3 = mul %0, %2 : f32[64,8,16]
%4 = reshape %3 {sizes=[512,16]} : f32[512,16]
%5 = exp %4 : f32[512,16]
%6 = reduce_sum %5 {dims=[0], keepdim=false} : f32[16]
%7 = permute %0 {dims=[2,0,1]} : f32[16,64,8]
%8 = reduce_sum %7 {dims=[0,2], keepdim=false} : f32[64]
return %6, %5, %8)"}) {
    Graph graph = SplitReductions(ParseGraph(text));
    Verify(graph);
    fmt::print("{}{}\n", ToText(graph), ToText(MakeSchedule(graph), graph));
  }
}
}  // namespace hammock::compiler
