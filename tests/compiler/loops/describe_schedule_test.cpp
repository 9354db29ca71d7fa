#include "hammock/compiler/describe_schedule.h"

#include <gtest/gtest.h>

namespace hammock::compiler {
namespace {

int64_t FlopsOf(const std::string& text) {
  Graph graph = ParseGraph(text);
  int64_t flops = 0;
  for (const lazy::KernelInfo& kernel : DescribeCommands(graph, MakeSchedule(graph))) {
    flops += kernel.flops;
  }
  return flops;
}

// Two for each of 16 * 3 * 3 taps of each of 2 * 32 * 5 * 5 elements, wherever channels lie.
TEST(DescribeCommands, CountsConvolutionsInAnyLayout) {
  constexpr int64_t kFlops = 2 * (16 * 3 * 3) * (2 * 32 * 5 * 5);
  EXPECT_EQ(FlopsOf(R"(
    %0 = input : f32[2,16,7,7]
    %1 = input : f32[32,16,3,3]
    %2 = convolution %0, %1 {stride=[1,1], padding=[0,0], dilation=[1,1], transposed=false, output_padding=[0,0], groups=1} : f32[2,32,5,5]
    return %2)"),
            kFlops);
  EXPECT_EQ(FlopsOf(R"(
    %0 = input : f32[2,7,7,16]
    %1 = input : f32[32,16,3,3]
    %2 = _convolution_last %0, %1 {stride=[1,1], padding=[0,0], dilation=[1,1], transposed=false, output_padding=[0,0], groups=1, input_last=true, result_last=true} : f32[2,5,5,32]
    return %2)"),
            kFlops);
}

TEST(DescribeCommands, CountsGradientsOfConvolutionsAsTheConvolution) {
  constexpr int64_t kFlops = 2 * (16 * 3 * 3) * (2 * 32 * 5 * 5);
  EXPECT_EQ(FlopsOf(R"(
    %0 = input : f32[2,32,5,5]
    %1 = input : f32[32,16,3,3]
    %2 = convolution %0, %1 {stride=[1,1], padding=[0,0], dilation=[1,1], transposed=true, output_padding=[0,0], groups=1} : f32[2,16,7,7]
    return %2)"),
            kFlops);
  EXPECT_EQ(FlopsOf(R"(
    %0 = input : f32[2,32,5,5]
    %1 = input : f32[2,16,7,7]
    %2 = _convolution_weight_backward %0, %1 {sizes=[32,16,3,3], stride=[1,1], padding=[0,0], dilation=[1,1], groups=1} : f32[32,16,3,3]
    return %2)"),
            kFlops);
}

}  // namespace
}  // namespace hammock::compiler
