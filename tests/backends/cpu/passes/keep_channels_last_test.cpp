#include "backends/cpu/passes/keep_channels_last.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <vector>

#include "backends/cpu/code/kernel_code.h"
#include "backends/cpu/matmul/matmul.h"
#include "compiler/passes/remove_dead.h"
#include "hammock/hammock.h"

namespace hammock::cpu {
namespace {

std::string Kept(const std::string& text) {
  Graph graph = KeepChannelsLast(ParseGraph(text));
  Verify(graph);
  return ToText(graph);
}

/// Skipped where no library takes such images.
class KeepChannelsLastTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Shape image(DType::kF32, {1, 16, 4, 4}), weight(DType::kF32, {4, 16, 3, 3});
    ConvolutionSpec spec =
        ConvolutionSpec::Of(image, weight, {1, 1}, {1, 1}, {1, 1}, false, {0, 0}, 1);
    if (!Convolution::TakesLayouts(spec)) GTEST_SKIP() << "convolutions are our own here";
  }
};

TEST_F(KeepChannelsLastTest, ChangesWhatLiesBetweenTwoConvolutions) {
  EXPECT_EQ(Kept(R"(
    %0 = input : f32[2,3,9,9]
    %1 = input : f32[16,3,3,3]
    %2 = convolution %0, %1 {stride=[1,1], padding=[0,0], dilation=[1,1], transposed=false, output_padding=[0,0], groups=1} : f32[2,16,7,7]
    %3 = input : f32[16]
    %4 = reshape %3 {sizes=[16,1,1]} : f32[16,1,1]
    %5 = broadcast %4 {sizes=[2,16,7,7]} : f32[2,16,7,7]
    %6 = add %2, %5 : f32[2,16,7,7]
    %7 = input : f32[4,16,3,3]
    %8 = convolution %6, %7 {stride=[1,1], padding=[0,0], dilation=[1,1], transposed=false, output_padding=[0,0], groups=1} : f32[2,4,5,5]
    return %8)"),
            R"(%0 = input : f32[2,3,9,9]
%1 = input : f32[16,3,3,3]
%2 = _convolution_last %0, %1 {stride=[1,1], padding=[0,0], dilation=[1,1], transposed=false, output_padding=[0,0], groups=1, input_last=false, result_last=true} : f32[2,7,7,16]
%3 = input : f32[16]
%4 = reshape %3 {sizes=[16,1,1]} : f32[16,1,1]
%5 = broadcast %4 {sizes=[2,16,7,7]} : f32[2,16,7,7]
%6 = permute %5 {dims=[0,2,3,1]} : f32[2,7,7,16]
%7 = add %2, %6 : f32[2,7,7,16]
%8 = input : f32[4,16,3,3]
%9 = _convolution_last %7, %8 {stride=[1,1], padding=[0,0], dilation=[1,1], transposed=false, output_padding=[0,0], groups=1, input_last=true, result_last=false} : f32[2,4,5,5]
return %9
)");
}

TEST_F(KeepChannelsLastTest, MakesWindowsOfSlices) {
  std::string text = Kept(R"(
    %0 = input : f32[2,3,6,6]
    %1 = input : f32[16,3,1,1]
    %2 = convolution %0, %1 {stride=[1,1], padding=[0,0], dilation=[1,1], transposed=false, output_padding=[0,0], groups=1} : f32[2,16,6,6]
    %3 = reduce_window %2 {kind="max", window=[2,1], stride=[2,2], low=[0,0], high=[0,0], dilation=[1,1]} : f32[2,16,3,3]
    return %3)");
  EXPECT_NE(text.find(R"(
%3 = slice %2 {dim=2, start=0, size=3, step=2} : f32[2,6,3,16]
%4 = slice %3 {dim=1, start=0, size=3, step=2} : f32[2,3,3,16]
%5 = slice %2 {dim=2, start=0, size=3, step=2} : f32[2,6,3,16]
%6 = slice %5 {dim=1, start=1, size=3, step=2} : f32[2,3,3,16]
%7 = maximum %4, %6 : f32[2,3,3,16]
%8 = permute %7 {dims=[0,3,1,2]} : f32[2,16,3,3]
return %8
)"),
            std::string::npos)
      << text;
}

TEST_F(KeepChannelsLastTest, LeavesWhatWouldOnlyBeReordered) {
  for (const char* text : {// The result is needed as it is.
                           R"(%0 = input : f32[2,16,6,6]
%1 = input : f32[16,16,3,3]
%2 = convolution %0, %1 {stride=[1,1], padding=[0,0], dilation=[1,1], transposed=false, output_padding=[0,0], groups=1} : f32[2,16,4,4]
%3 = neg %2 : f32[2,16,4,4]
return %3
)",
                           // Few channels make short rows.
                           R"(%0 = input : f32[2,4,6,6]
%1 = input : f32[4,4,1,1]
%2 = convolution %0, %1 {stride=[1,1], padding=[0,0], dilation=[1,1], transposed=false, output_padding=[0,0], groups=1} : f32[2,4,6,6]
%3 = neg %2 : f32[2,4,6,6]
%4 = convolution %3, %1 {stride=[1,1], padding=[0,0], dilation=[1,1], transposed=false, output_padding=[0,0], groups=1} : f32[2,4,6,6]
return %4
)",
                           // The library does not know this dtype.
                           R"(%0 = input : f64[2,16,6,6]
%1 = input : f64[16,16,1,1]
%2 = convolution %0, %1 {stride=[1,1], padding=[0,0], dilation=[1,1], transposed=false, output_padding=[0,0], groups=1} : f64[2,16,6,6]
%3 = convolution %2, %1 {stride=[1,1], padding=[0,0], dilation=[1,1], transposed=false, output_padding=[0,0], groups=1} : f64[2,16,6,6]
return %3
)"}) {
    EXPECT_EQ(Kept(text), text);
  }
}

TEST_F(KeepChannelsLastTest, ConvolutionsOfBytesReadThem) {
  ConvolutionSpec spec = ConvolutionSpec::Of(Shape(u8, {1, 16, 4, 4}), Shape(i8, {16, 16, 3, 3}),
                                             {1, 1}, {1, 1}, {1, 1}, false, {0, 0}, 1);
  spec.out = spec.out.With(i32);
  if (!Convolution::TakesLayouts(spec)) GTEST_SKIP() << "this processor has no sums of bytes";
  EXPECT_EQ(ToText(RemoveDead(NarrowByteConvolutions(KeepChannelsLast(ParseGraph(R"(
    %0 = input : u8[1,16,9,9]
    %1 = input : i8[16,16,3,3]
    %2 = cast %0 {dtype=i32} : i32[1,16,9,9]
    %3 = cast %1 {dtype=i32} : i32[16,16,3,3]
    %4 = convolution %2, %3 {stride=[1,1], padding=[0,0], dilation=[1,1], transposed=false, output_padding=[0,0], groups=1} : i32[1,16,7,7]
    %5 = cast %4 {dtype=u8} : u8[1,16,7,7]
    %6 = cast %5 {dtype=i32} : i32[1,16,7,7]
    %7 = convolution %6, %3 {stride=[1,1], padding=[0,0], dilation=[1,1], transposed=false, output_padding=[0,0], groups=1} : i32[1,16,5,5]
    return %7)"))))),
            R"(%0 = input : u8[1,16,9,9]
%1 = input : i8[16,16,3,3]
%2 = _convolution_last %0, %1 {stride=[1,1], padding=[0,0], dilation=[1,1], transposed=false, output_padding=[0,0], groups=1, input_last=false, result_last=true} : i32[1,7,7,16]
%3 = cast %2 {dtype=u8} : u8[1,7,7,16]
%4 = _convolution_last %3, %1 {stride=[1,1], padding=[0,0], dilation=[1,1], transposed=false, output_padding=[0,0], groups=1, input_last=true, result_last=false} : i32[1,16,5,5]
return %4
)");
}

// ---- what a user sees

const Device kCpu("cpu");

Tensor Values(const Dims& sizes, unsigned seed, DType dtype = f32) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> number(-1, 1);
  std::vector<float> values(static_cast<size_t>(Shape(f32, sizes).numel()));
  for (float& value : values) value = number(random);
  Tensor result = tensor(values, sizes).to(kCpu).to(dtype);
  result.host();
  return result;
}

using Layer = std::function<Tensor(const Tensor&)>;

/// Layers in one step have the bits of layers in a step each, in both tiers and on any number of
/// threads, and are close to the reference.
void ExpectSameBits(const Tensor& input, const std::vector<Layer>& layers) {
  Tensor apart = input;
  for (const Layer& layer : layers) {
    apart = layer(apart);
    apart.host();
  }
  for (const char* threads : {"1", "3"}) {
    config::Override some("cpu.threads", threads);
    LazyGraphExecutor::Get()->ClearComputationCache();
    for (bool compiled : {false, true}) {
      if (compiled) WaitForCode();
      Tensor whole = input;
      for (const Layer& layer : layers) whole = layer(whole);
      EXPECT_TRUE(whole.host().SameBits(apart.host())) << threads << " threads";
    }
  }
}

Layer Conv(const Dims& weight, unsigned seed, const Dims& stride = {1}, const Dims& padding = {0},
           const Dims& dilation = {1}, int64_t groups = 1) {
  Tensor w = Values(weight, seed), b = Values({weight[0]}, seed + 1);
  int spatial = weight.size() - 2;
  return [=](const Tensor& x) {
    return spatial == 1   ? conv1d(x, w, b, stride, padding, dilation, groups)
           : spatial == 2 ? conv2d(x, w, b, stride, padding, dilation, groups)
                          : conv3d(x, w, b, stride, padding, dilation, groups);
  };
}

TEST(KeepChannelsLast, ChainsHaveTheBitsOfSeparateSteps) {
  auto rectify = [](const Tensor& x) { return relu(x); };
  auto pool = [](const Tensor& x) { return max_pool2d(x, {2}); };
  ExpectSameBits(Values({3, 1, 20, 22}, 1),
                 {Conv({32, 1, 5, 5}, 2), rectify, pool, Conv({24, 32, 3, 3}, 4), rectify, pool});
  // Kernels of one position, strides, dilation, groups, padding.
  ExpectSameBits(Values({2, 20, 17, 21}, 1),
                 {Conv({48, 20, 1, 1}, 2), rectify, Conv({48, 16, 3, 3}, 3, {2}, {1}, {1}, 3),
                  rectify, Conv({16, 48, 1, 1}, 4, {2}), Conv({16, 1, 2, 2}, 5, {1}, {1}, {2}, 16),
                  [](const Tensor& x) {
                    return avg_pool2d(x, {3, 2}, {1, 2});
                  },
                  Conv({17, 16, 2, 2}, 6),
                  [](const Tensor& x) {
                    return sum(x, {2, 3});
                  }});
  // Windows that overlap, that are padded, of signed zeros and NaN.
  auto odd = [](const Tensor& x) { return where(x > 0.2, x * 0.0, where(x < -1.5, x / 0.0, -x)); };
  ExpectSameBits(
      Values({1, 16, 12, 12}, 1),
      {Conv({16, 16, 3, 3}, 2, {1}, {1}), odd,
       [](const Tensor& x) { return max_pool2d(x, {3}, {2}); }, odd, Conv({18, 16, 1, 1}, 3), odd,
       [](const Tensor& x) { return max_pool2d(x, {3}, {2}, {1}); }});
}

TEST(KeepChannelsLast, OtherRanksHaveTheBitsOfSeparateSteps) {
  ExpectSameBits(Values({2, 16, 40}, 1),
                 {Conv({32, 16, 3}, 2), [](const Tensor& x) { return tanh(x); },
                  [](const Tensor& x) { return max_pool1d(x, {3}, {2}); }, Conv({16, 32, 1}, 3)});
  ExpectSameBits(Values({2, 4, 6, 7, 5}, 1),
                 {Conv({16, 4, 2, 3, 2}, 2), [](const Tensor& x) { return relu(x); },
                  [](const Tensor& x) { return max_pool3d(x, {2}); }, Conv({16, 16, 1, 1, 1}, 3)});
}

TEST(KeepChannelsLast, ResidualStreamsHaveTheBitsOfSeparateSteps) {
  auto block = [](unsigned seed) {
    Layer first = Conv({16, 16, 3, 3}, seed, {1}, {1}), second = Conv({16, 16, 1, 1}, seed + 2);
    Tensor mean = Values({16}, seed), variance = abs(Values({16}, seed + 1)) + 0.5;
    return [=](const Tensor& x) {
      return relu(batch_norm(second(relu(first(x))), mean, variance) + x);
    };
  };
  ExpectSameBits(Values({2, 16, 10, 10}, 1),
                 {Conv({16, 16, 1, 1}, 7), block(2), block(5), block(8), [](const Tensor& x) {
                    return mean(x, {2, 3});
                  }});
  ExpectSameBits(Values({2, 16, 10, 10}, 1), {block(2)});
}

TEST(KeepChannelsLast, NarrowDTypesAndTransposesHaveTheBitsOfSeparateSteps) {
  Tensor w = Values({16, 32, 3, 3}, 2, bf16), back = Values({32, 16, 3, 3}, 3, bf16);
  ExpectSameBits(
      Values({2, 32, 8, 8}, 1, bf16),
      {[=](const Tensor& x) { return conv2d(x, w); }, [](const Tensor& x) { return relu(x); },
       [=](const Tensor& x) { return conv_transpose2d(x, w); },
       [](const Tensor& x) { return x * 0.5; }, [=](const Tensor& x) { return conv2d(x, w); }});
}

}  // namespace
}  // namespace hammock::cpu
