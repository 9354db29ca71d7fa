#include "backends/cuda/passes/round_matmuls.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "backends/cuda/emulated.h"
#include "compiler/passes/narrow_matmuls.h"
#include "compiler/passes/remove_dead.h"

namespace hammock::cuda {
namespace {

TEST(RoundMatMuls, RoundOnceAndAddTheBias) {
  Graph graph = ParseGraph(R"(
    %0 = input : bf16[8,16]
    %1 = input : bf16[4,16]
    %2 = input : bf16[4]
    %3 = cast %0 {dtype=f32} : f32[8,16]
    %4 = cast %1 {dtype=f32} : f32[4,16]
    %5 = cast %2 {dtype=f32} : f32[4]
    %6 = dot_general %3, %4 {a_contract=[1], b_contract=[1], a_batch=[], b_batch=[]} : f32[8,4]
    %7 = broadcast %5 {sizes=[8,4]} : f32[8,4]
    %8 = add %6, %7 : f32[8,4]
    %9 = cast %8 {dtype=bf16} : bf16[8,4]
    return %9)");
  EXPECT_EQ(
      ToText(RemoveDead(RoundMatMuls(RemoveDead(NarrowMatMuls(graph))))),
      "%0 = input : bf16[8,16]\n%1 = input : bf16[4,16]\n%2 = input : bf16[4]\n"
      "%3 = _dot_general_fused %0, %1, %2 {a_contract=[1], b_contract=[1], a_batch=[], b_batch=[], "
      "dtype=bf16, relu=false} : bf16[8,4]\nreturn %3\n");
}

TEST(RoundMatMuls, KeepSumsThatOthersReadInFull) {
  Graph graph = ParseGraph(R"(
    %0 = input : bf16[8,16]
    %1 = input : bf16[16,4]
    %2 = cast %0 {dtype=f32} : f32[8,16]
    %3 = cast %1 {dtype=f32} : f32[16,4]
    %4 = dot_general %2, %3 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : f32[8,4]
    %5 = cast %4 {dtype=bf16} : bf16[8,4]
    return %5, %4)");
  EXPECT_EQ(ToText(RoundMatMuls(RemoveDead(NarrowMatMuls(graph)))),
            "%0 = input : bf16[8,16]\n%1 = input : bf16[16,4]\n"
            "%2 = _dot_general_fused %0, %1, none {a_contract=[1], b_contract=[0], a_batch=[], "
            "b_batch=[], dtype=f32, relu=false} : f32[8,4]\n"
            "%3 = cast %2 {dtype=bf16} : bf16[8,4]\nreturn %3, %2\n");
}

/// relu(a b + bias), perhaps with the sum as a second result, which keeps the matmul apart.
std::string ReluText(int64_t m, int64_t n, int64_t k, int along, bool apart) {
  std::string b = along == 1 ? fmt::format("{},{}", n, k) : fmt::format("{},{}", k, n);
  return fmt::format(R"(
    %0 = input : f32[{0},{2}]
    %1 = input : f32[{3}]
    %2 = input : f32[{1}]
    %3 = dot_general %0, %1 {{a_contract=[1], b_contract=[{4}], a_batch=[], b_batch=[]}} : f32[{0},{1}]
    %4 = broadcast %2 {{sizes=[{0},{1}]}} : f32[{0},{1}]
    %5 = add %3, %4 : f32[{0},{1}]
    %6 = constant {{value=0.0:f32, dtype=f32}} : f32[]
    %7 = broadcast %6 {{sizes=[{0},{1}]}} : f32[{0},{1}]
    %8 = maximum %5, %7 : f32[{0},{1}]
    return %8{5})",
                     m, n, k, b, along, apart ? ", %3" : "");
}

TEST(FuseBiasAndRelu, BothBecomePartOfTheMatmul) {
  EXPECT_EQ(ToText(RemoveDead(FuseBiasAndRelu(ParseGraph(ReluText(8, 4, 16, 1, false))))),
            "%0 = input : f32[8,16]\n%1 = input : f32[4,16]\n%2 = input : f32[4]\n"
            "%3 = _dot_general_fused %0, %1, %2 {a_contract=[1], b_contract=[1], a_batch=[], "
            "b_batch=[], dtype=f32, relu=true} : f32[8,4]\nreturn %3\n");
  const Graph apart = ParseGraph(ReluText(8, 4, 16, 1, true));
  EXPECT_EQ(ToText(FuseBiasAndRelu(apart)), ToText(apart));
}

TEST(FuseBiasAndRelu, ChangesNoBit) {
  if (!WhyNotEmulated().empty()) GTEST_SKIP() << WhyNotEmulated();
  struct Case {
    int64_t m, n, k;
    int along;
  };
  // One thread, one warp for each element, and the library.
  for (Case c : {Case{8, 4, 16, 1}, Case{33, 10, 300, 1}, Case{80, 64, 70, 0}}) {
    std::vector<std::vector<HostTensor>> results;
    for (bool apart : {false, true}) {
      Graph graph = ParseGraph(ReluText(c.m, c.n, c.k, c.along, apart));
      std::vector<HostTensor> inputs;
      for (NodeId id : graph.inputs()) {
        HostTensor input(graph[id].type());
        float* values = static_cast<float*>(input.mutable_data());
        for (int64_t i = 0; i < graph[id].type().numel(); ++i) {
          values[i] = static_cast<float>((i * 37 + id.number() * 11) % 101) / 101 - 0.5f;
        }
        values[2] = id == NodeId(2) ? NAN : values[2];
        inputs.push_back(std::move(input));
      }
      Program program(graph, EmulatedForTests());
      results.push_back(RunProgram(*EmulatedForTests(), program, graph, inputs));
    }
    EXPECT_EQ(
        std::memcmp(results[0][0].data(), results[1][0].data(), static_cast<size_t>(c.m * c.n * 4)),
        0)
        << c.m;
    float* made = static_cast<float*>(results[0][0].mutable_data());
    EXPECT_TRUE(std::isnan(made[2]));
    EXPECT_GE(made[0], 0);
    // The sums are those of the matmul.
    const float* sums = static_cast<const float*>(results[1][1].data());
    int64_t positive = 0;
    for (int64_t i = 0; i < c.m * c.n; ++i) positive += sums[i] > 1e-3f;
    EXPECT_GT(positive, 0);
  }
}

}  // namespace
}  // namespace hammock::cuda
