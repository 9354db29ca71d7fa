// Matmuls with what follows them, as a user sees them: the bits are those of separate steps.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "backends/cpu/code/kernel_code.h"
#include "backends/cpu/matmul/matmul.h"
#include "backends/cpu/program.h"
#include "hammock/autograd.h"
#include "hammock/hammock.h"

namespace hammock::cpu {
namespace {

const Device kCpu("cpu");

Tensor Values(const Dims& sizes, unsigned seed, DType dtype = f32) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> number(-1, 1);
  std::vector<float> values(static_cast<size_t>(Shape(f32, sizes).numel()));
  for (float& value : values) value = number(random);
  return tensor(values, sizes).to(kCpu).to(dtype);
}

using Layer = std::function<Tensor(const Tensor& result)>;

/// Runs `after` on the result of `compute` in the same step and in a step of its own, in both
/// tiers.
void ExpectSameBits(const std::function<Tensor()>& compute, const Layer& after,
                    const std::string& about) {
  Tensor apart = compute();
  apart.host();
  HostTensor expected = after(apart).host();
  for (const char* threads : {"1", "2", "3"}) {
    config::Override some("cpu.threads", threads);
    LazyGraphExecutor::Get()->ClearComputationCache();
    for (bool compiled : {false, true}) {
      if (compiled) WaitForCode();
      Tensor whole = compute();
      Tensor result = after(whole);
      EXPECT_TRUE(result.host().SameBits(expected)) << about << ", " << threads << " threads";
    }
    // The result itself is wanted as well.
    Tensor whole = compute();
    Tensor both[] = {after(whole), whole};
    LazyGraphExecutor::Get()->SyncTensorsGraph(both);
    EXPECT_TRUE(both[0].host().SameBits(expected)) << about << ", stored";
    EXPECT_TRUE(both[1].host().SameBits(apart.host())) << about << ", stored";
  }
}

TEST(FusedMatMul, MatMulsOfAllSizesHaveTheBitsOfSeparateSteps) {
  struct Sizes {
    int64_t batch, m, k, n;
  };
  for (auto [batch, m, k, n] : {Sizes{1, 1, 300, 700},
                                {1, 5, 6, 7},
                                {1, 64, 100, 520},
                                {3, 130, 40, 64},
                                {1, 1030, 70, 200},
                                {16, 40, 16, 48}}) {
    for (DType dtype : {f32, bf16, f16, f64}) {
      Tensor a = Values({batch, m, k}, 1, dtype), b = Values({batch, k, n}, 2, dtype);
      Tensor bias = Values({n}, 3, dtype), residual = Values({batch, m, n}, 4, dtype);
      for (const Tensor& x : {a, b, bias, residual}) x.host();
      auto compute = [&] { return matmul(a, b); };
      std::string about = fmt::format("{}x{}x{}x{} {}", batch, m, k, n, NameOf(dtype));
      ExpectSameBits(
          compute, [&](const Tensor& y) { return gelu(y + bias) + residual; }, about + " gelu");
      ExpectSameBits(
          compute, [&](const Tensor& y) { return softmax(y + bias, -1); }, about + " softmax");
      ExpectSameBits(
          compute, [&](const Tensor& y) { return layer_norm(y + residual, {y.size(-1)}); },
          about + " layer norm");
    }
  }
}

/// linear adds its bias before it rounds: its matmul has f32 results.
TEST(FusedMatMul, NarrowOperandsAreReadAsTheyAre) {
  for (DType dtype : {bf16, f16}) {
    for (int64_t rows : {1, 70, 300}) {
      Tensor x = Values({rows, 96}, 1, dtype), w = Values({130, 96}, 2, dtype),
             bias = Values({130}, 3, dtype);
      for (const Tensor& t : {x, w, bias}) t.host();
      Tensor y = gelu(linear(x, w, bias));
      const Device reference("reference");
      Tensor expected = gelu(linear(x.to(reference), w.to(reference), bias.to(reference)));
      EXPECT_TRUE(allclose(y.to(reference), expected, 2e-2, 1e-2)) << NameOf(dtype) << rows;
      auto compute = [&] { return linear(x, w, bias); };
      ExpectSameBits(
          compute, [](const Tensor& t) { return gelu(t) * 2.0; }, "linear");
    }
  }
}

TEST(FusedMatMul, NarrowOperandsAreTakenWhereTheLibraryTakesThem) {
  Graph graph = ParseGraph(R"(
      %0 = input : bf16[200,96]
      %1 = input : bf16[130,96]
      %2 = cast %0 {dtype=f32} : f32[200,96]
      %3 = cast %1 {dtype=f32} : f32[130,96]
      %4 = dot_general %2, %3 {a_contract=[1], b_contract=[1], a_batch=[], b_batch=[]} : f32[200,130]
      return %4)");
  auto narrow = [&] {
    return ToText(RewriteForCpu(graph)).find("_dot_general_fused %0, %1") != std::string::npos;
  };
  MatMulSpec spec = MatMulSpec::Plain(bf16, 200, 96, 130);
  spec.out_dtype = f32;
  EXPECT_EQ(narrow(), std::string(MatMul(spec).kernel()) == "onednn");
  config::Override off("cpu.onednn", "false");
  EXPECT_FALSE(narrow());
}

/// Between convolutions images have their channels last, and a bias, another image and bounds are
/// applied in registers.
TEST(FusedMatMul, ConvolutionsWithABiasOfChannelsHaveTheBitsOfSeparateSteps) {
  for (int64_t channels : {16, 24, 64}) {
    Tensor x = Values({2, channels, 14, 9}, 1), dense = Values({channels, channels, 3, 3}, 2),
           depthwise = Values({channels, 1, 3, 3}, 3), bias = Values({channels, 1, 1}, 4),
           residual = Values({2, channels, 14, 9}, 5);
    for (const Tensor& t : {x, dense, depthwise, bias, residual}) t.host();
    auto convolve = [](const Tensor& image, const Tensor& weight, int64_t groups) {
      return conv2d(image, weight, {}, {1, 1}, {1, 1}, {1, 1}, groups);
    };
    auto compute = [&] { return convolve(x, dense, 1); };
    auto after = [&](const Layer& activation) {
      return [&, activation](const Tensor& y) {
        Tensor inner = activation(convolve(activation(y + bias), depthwise, channels) + bias);
        return activation(convolve(inner, dense, 1) + bias + residual);
      };
    };
    const std::string about = fmt::format("{} channels", channels);
    ExpectSameBits(compute, after([](const Tensor& t) { return t; }), about);
    ExpectSameBits(compute, after([](const Tensor& t) { return relu(t); }), about + " relu");
    ExpectSameBits(compute, after([](const Tensor& t) { return clamp(t, -0.5, 0.5); }),
                   about + " clamp");
  }
}

TEST(FusedMatMul, ConvolutionsHaveTheBitsOfSeparateSteps) {
  Tensor x = Values({3, 8, 40, 30}, 1), wide = Values({24, 8, 3, 3}, 2),
         point = Values({24, 8, 1, 1}, 3);
  Tensor mean = Values({24}, 4), var = Values({24}, 5) + 2.0, bias = Values({24}, 6);
  Tensor residual = Values({3, 24, 40, 30}, 7);
  for (const Tensor& t : {x, wide, point, mean, var, bias, residual}) t.host();
  for (const Tensor& weight : {wide, point}) {
    int64_t padding = weight.size(-1) / 2;
    auto compute = [&] { return conv2d(x, weight, std::nullopt, {1}, {padding}); };
    ExpectSameBits(
        compute,
        [&](const Tensor& y) { return relu(batch_norm(y, mean, var, bias, bias) + residual); },
        "batch norm");
    ExpectSameBits(
        compute,
        [&](const Tensor& y) {
          return y * y.sum({-2, -1}, true);
        },
        "sums");
  }
}

TEST(FusedMatMul, HeadsAreSplitWhileTheyAreWritten) {
  Tensor x = Values({4 * 33, 40}, 1), w = Values({40, 3 * 2 * 16}, 2), bias = Values({96}, 3);
  for (const Tensor& t : {x, w, bias}) t.host();
  ExpectSameBits([&] { return matmul(x, w); },
                 [&](const Tensor& y) {
                   return (y + bias).view({4, 33, 3, 2, 16}).permute({2, 0, 3, 1, 4}).contiguous();
                 },
                 "heads");
}

TEST(FusedMatMul, AnUpdateWritesIntoTheWeightUnlessTheMatmulReadsIt) {
  for (bool reads_it : {false, true}) {
    Graph graph = ParseGraph(
        "%0 = input : f32[48,64]\n%1 = input : f32[48,64]\n%2 = input : f32[64,64]\n"
        "%3 = dot_general " +
        std::string(reads_it ? "%2, %2" : "%0, %1") +
        " {a_contract=[0], b_contract=[0], a_batch=[], b_batch=[]} : f32[64,64]\n"
        "%4 = sub %2, %3 : f32[64,64]\nreturn %4");
    Program program(graph);
    EXPECT_EQ(program.donations().Match({true, true, true})[0], reads_it ? -1 : 2);
    EXPECT_EQ(program.kernels(), 1);
  }
}

TEST(FusedMatMul, SlicesAreWrittenInPlaceWhereTheWholeDies) {
  Graph graph = ParseGraph(R"(
    %0 = input : f32[1000,64]
    %1 = input : f32[1,64]
    %2 = input : i64[]
    %3 = neg %0 : f32[1000,64]
    %4 = dynamic_update_slice %3, %1, %2 {dim=0, step=1} : f32[1000,64]
    %5 = dynamic_update_slice %4, %1, %2 {dim=0, step=1} : f32[1000,64]
    %6 = reduce_sum %5 {dims=[0], keepdim=false} : f32[64]
    return %6)");
  EXPECT_LT(Program(graph).plan().arena_bytes, 2 * 1000 * 64 * 4);
  // An input that is donated, as a cache of keys is.
  graph = ParseGraph(R"(
    %0 = input : f32[1000,64]
    %1 = input : f32[1,64]
    %2 = input : i64[]
    %3 = dynamic_update_slice %0, %1, %2 {dim=0, step=1} : f32[1000,64]
    return %3)");
  EXPECT_EQ(Program(graph).donations().Match({true, true, true}), std::vector<int>{0});
}

}  // namespace
}  // namespace hammock::cpu
