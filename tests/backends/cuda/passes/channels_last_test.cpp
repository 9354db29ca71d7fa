// Images with their channels last: the graphs that the pass makes, and the bits of steps that keep
// that layout beside those of steps of one op, which do not.

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/driver/gpu_machine.h"
#include "backends/cuda/emulated.h"
#include "backends/cuda/passes/cuda_passes.h"
#include "hammock/hammock.h"

namespace hammock::cuda {
namespace {

std::string Kept(const std::string& text) {
  Graph graph = ParseGraph(text);
  for (const Pass& pass : CudaPasses()) {
    if (std::string(pass.name) == "keep_channels_last") graph = RunPass(pass, std::move(graph));
  }
  Verify(graph);
  return ToText(graph);
}

TEST(CudaChannelsLast, ConvolutionsGradientsAndSumsOfPixelsKeepThem) {
  EXPECT_EQ(Kept(R"(
    %0 = input : bf16[2,16,9,9]
    %1 = input : bf16[16,16,3,3]
    %2 = convolution %0, %1 {stride=[1,1], padding=[1,1], dilation=[1,1], transposed=false, output_padding=[0,0], groups=1} : bf16[2,16,9,9]
    %3 = neg %2 : bf16[2,16,9,9]
    %4 = convolution %3, %1 {stride=[1,1], padding=[1,1], dilation=[1,1], transposed=true, output_padding=[0,0], groups=1} : bf16[2,16,9,9]
    %5 = cast %4 {dtype=f32} : f32[2,16,9,9]
    %6 = reshape %5 {sizes=[2,16,81]} : f32[2,16,81]
    %7 = reduce_sum %6 {dims=[2], keepdim=false} : f32[2,16]
    %8 = _convolution_weight_backward %4, %0 {sizes=[16,16,3,3], stride=[1,1], padding=[1,1], dilation=[1,1], groups=1} : bf16[16,16,3,3]
    return %7, %8)"),
            R"(%0 = input : bf16[2,16,9,9]
%1 = input : bf16[16,16,3,3]
%2 = _convolution_last %0, %1 {stride=[1,1], padding=[1,1], dilation=[1,1], transposed=false, output_padding=[0,0], groups=1, input_last=false, result_last=true} : bf16[2,9,9,16]
%3 = neg %2 : bf16[2,9,9,16]
%4 = _convolution_last %3, %1 {stride=[1,1], padding=[1,1], dilation=[1,1], transposed=true, output_padding=[0,0], groups=1, input_last=true, result_last=true} : bf16[2,9,9,16]
%5 = cast %4 {dtype=f32} : f32[2,9,9,16]
%6 = reshape %5 {sizes=[2,81,16]} : f32[2,81,16]
%7 = reduce_sum %6 {dims=[1], keepdim=false} : f32[2,16]
%8 = _convolution_weight_backward_last %4, %0 {sizes=[16,16,3,3], stride=[1,1], padding=[1,1], dilation=[1,1], groups=1, grad_last=true, input_last=false} : bf16[16,16,3,3]
return %7, %8
)");
}

TEST(CudaChannelsLast, LeavesWhatTheLibraryComputesOtherwise) {
  for (const char* text : {// f32 without rounding.
                           R"(%0 = input : f32[2,16,9,9]
%1 = input : f32[16,16,3,3]
%2 = convolution %0, %1 {stride=[1,1], padding=[1,1], dilation=[1,1], transposed=false, output_padding=[0,0], groups=1} : f32[2,16,9,9]
%3 = convolution %2, %1 {stride=[1,1], padding=[1,1], dilation=[1,1], transposed=false, output_padding=[0,0], groups=1} : f32[2,16,9,9]
return %3
)",
                           // Groups.
                           R"(%0 = input : bf16[2,32,9,9]
%1 = input : bf16[32,16,3,3]
%2 = convolution %0, %1 {stride=[1,1], padding=[1,1], dilation=[1,1], transposed=false, output_padding=[0,0], groups=2} : bf16[2,32,9,9]
%3 = convolution %2, %1 {stride=[1,1], padding=[1,1], dilation=[1,1], transposed=false, output_padding=[0,0], groups=2} : bf16[2,32,9,9]
return %3
)"}) {
    EXPECT_EQ(Kept(text), text);
  }
}

/// A block of a residual network in training: its loss, its running statistics and all gradients.
std::vector<Tensor> TrainBlock(const Device& device, const std::function<void(Tensor&)>& each) {
  auto values = [&](const Dims& sizes, double scale) {
    const int64_t count = Shape(f32, sizes).numel();
    Tensor x = (arange(count).to(f32) * 0.37).sin() * scale;
    return x.reshape(sizes).to(device).to(bf16);
  };
  Tensor x = values({4, 16, 9, 7}, 1), first = values({32, 16, 3, 3}, 0.2),
         second = values({16, 32, 1, 1}, 0.2), gain = values({32}, 0.5).to(f32),
         shift = values({32}, 0.1).to(f32);
  Tensor mean = zeros({32}, f32, device), variance = ones({32}, f32, device);
  std::vector<Tensor> leaves = {x, first, second, gain, shift};
  for (Tensor& leaf : leaves) each(leaf.requires_grad_());
  Tensor h = conv2d(x, first, {}, {1}, {1});
  each(h);
  h = relu(batch_norm(h.to(f32), mean, variance, gain, shift, /*training=*/true).to(bf16));
  each(h);
  h = conv2d(h, second);
  each(h);
  Tensor loss = ((h + x) * (h + x)).to(f32).mean();
  loss.backward();
  std::vector<Tensor> results = {loss.detach(), mean, variance};
  for (const Tensor& leaf : leaves) results.push_back(leaf.grad());
  return results;
}

TEST(CudaChannelsLast, TrainingHasTheBitsOfOtherSteps) {
  const bool gpu = WhyNoGpu().empty();
  if (!gpu && !WhyNotEmulated().empty()) GTEST_SKIP() << WhyNotEmulated();
  auto machine = gpu ? MakeGpuMachine(0) : EmulatedForTests();
  lazy::RegisterBackend(MakeBackend({machine}, "images", 108).release());
  const Device device("images");
  // Values that are read are results of their own steps, with the channels first.
  std::vector<Tensor> apart = TrainBlock(device, [](Tensor& value) { value.host(); });
  std::vector<Tensor> whole = TrainBlock(device, [](Tensor&) {});
  ASSERT_EQ(apart.size(), whole.size());
  for (size_t i = 0; i < apart.size(); ++i) {
    EXPECT_TRUE(whole[i].host().SameBits(apart[i].host())) << "result " << i;
  }
}

}  // namespace
}  // namespace hammock::cuda
