#include "compiler/passes/fold_scales.h"

#include <gtest/gtest.h>

#include <cmath>

#include "backends/reference/interpreter.h"
#include "compiler/passes/remove_dead.h"
#include "compiler/pipeline.h"
#include "hammock/config.h"

namespace hammock {
namespace {

constexpr const char* kNormed = R"(
    %0 = input : f32[2,3,8,8]
    %1 = input : f32[4,3,3,3]
    %2 = input : f32[4,1,1]
    %3 = input : f32[4,1,1]
    %4 = input : f32[4,1,1]
    %5 = convolution %0, %1 {stride=[1,1], padding=[1,1], dilation=[1,1], transposed=false, output_padding=[0,0], groups=1} : f32[2,4,8,8]
    %6 = broadcast %2 {sizes=[2,4,8,8]} : f32[2,4,8,8]
    %7 = sub %5, %6 : f32[2,4,8,8]
    %8 = broadcast %3 {sizes=[2,4,8,8]} : f32[2,4,8,8]
    %9 = mul %7, %8 : f32[2,4,8,8]
    %10 = broadcast %4 {sizes=[2,4,8,8]} : f32[2,4,8,8]
    %11 = add %9, %10 : f32[2,4,8,8]
    return %11)";

TEST(FoldScales, ScalesTheWeightOfAConvolution) {
  EXPECT_EQ(ToText(RemoveDead(FoldScales(ParseGraph(kNormed)))),
            "%0 = input : f32[2,3,8,8]\n"
            "%1 = input : f32[4,3,3,3]\n"
            "%2 = input : f32[4,1,1]\n"
            "%3 = input : f32[4,1,1]\n"
            "%4 = input : f32[4,1,1]\n"
            "%5 = reshape %2 {sizes=[4]} : f32[4]\n"
            "%6 = neg %5 : f32[4]\n"
            "%7 = reshape %3 {sizes=[4]} : f32[4]\n"
            "%8 = mul %6, %7 : f32[4]\n"
            "%9 = reshape %4 {sizes=[4]} : f32[4]\n"
            "%10 = add %8, %9 : f32[4]\n"
            "%11 = reshape %7 {sizes=[4,1,1,1]} : f32[4,1,1,1]\n"
            "%12 = broadcast %11 {sizes=[4,3,3,3]} : f32[4,3,3,3]\n"
            "%13 = mul %1, %12 : f32[4,3,3,3]\n"
            "%14 = convolution %0, %13 {stride=[1,1], padding=[1,1], dilation=[1,1], "
            "transposed=false, output_padding=[0,0], groups=1} : f32[2,4,8,8]\n"
            "%15 = reshape %10 {sizes=[1,4,1,1]} : f32[1,4,1,1]\n"
            "%16 = broadcast %15 {sizes=[2,4,8,8]} : f32[2,4,8,8]\n"
            "%17 = add %14, %16 : f32[2,4,8,8]\n"
            "return %17\n");
}

std::vector<HostTensor> InputsOf(const Graph& graph) {
  std::vector<HostTensor> inputs;
  for (NodeId id : graph.inputs()) {
    HostTensor tensor(graph[id].type());
    int i = 0;
    for (float& x : tensor.mutable_values<float>()) {
      x = std::sin(static_cast<float>(++i * 7 + id.number())) + 1.5f;
    }
    inputs.push_back(tensor);
  }
  return inputs;
}

void ExpectSameNumbers(const std::string& text, bool folds) {
  Graph before = ParseGraph(text);
  Graph after = FoldScales(before);
  Verify(after);
  EXPECT_EQ(after != before, folds) << ToText(after);
  std::vector<HostTensor> inputs = InputsOf(before);
  HostTensor expected = reference::Interpret(before, inputs)[0];
  HostTensor actual = reference::Interpret(after, inputs)[0];
  for (int64_t i = 0; i < expected.numel(); ++i) {
    double x = expected.at(i).ToDouble();
    ASSERT_NEAR(actual.at(i).ToDouble(), x, 1e-5 * std::abs(x) + 1e-4) << i << "\n"
                                                                       << ToText(after);
  }
}

TEST(FoldScales, KeepsNumbersUpToRounding) {
  ExpectSameNumbers(kNormed, true);
  // Both orders of operands, and numbers that are the same for all channels.
  ExpectSameNumbers(R"(
    %0 = input : f32[16,5]
    %1 = input : f32[3,5]
    %2 = input : f32[3]
    %3 = input : f32[]
    %4 = dot_general %0, %1 {a_contract=[1], b_contract=[1], a_batch=[], b_batch=[]} : f32[16,3]
    %5 = broadcast %2 {sizes=[16,3]} : f32[16,3]
    %6 = sub %5, %4 : f32[16,3]
    %7 = broadcast %3 {sizes=[16,3]} : f32[16,3]
    %8 = div %6, %7 : f32[16,3]
    %9 = mul %5, %8 : f32[16,3]
    %10 = sub %9, %7 : f32[16,3]
    return %10)",
                    true);
}

TEST(FoldScales, LeavesWhatWouldNotPayOrNotBeRight) {
  // A shift alone, a weight that is larger than the result, a result that is used twice, a scale
  // for each row, a division by the result.
  const char* matmul =
      "%0 = input : f32[16,5]\n%1 = input : f32[5,3]\n%2 = input : f32[3]\n"
      "%3 = input : f32[16,1]\n"
      "%4 = dot_general %0, %1 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : "
      "f32[16,3]\n"
      "%5 = broadcast %2 {sizes=[16,3]} : f32[16,3]\n";
  std::string start = matmul;
  ExpectSameNumbers(start + "%6 = add %4, %5 : f32[16,3]\nreturn %6", false);
  ExpectSameNumbers(start + "%6 = mul %4, %5 : f32[16,3]\nreturn %6, %4", false);
  ExpectSameNumbers(start + "%6 = div %5, %4 : f32[16,3]\nreturn %6", false);
  ExpectSameNumbers(start +
                        "%6 = broadcast %3 {sizes=[16,3]} : f32[16,3]\n"
                        "%7 = mul %4, %6 : f32[16,3]\nreturn %7",
                    false);
  ExpectSameNumbers(R"(
    %0 = input : f32[2,5]
    %1 = input : f32[5,3]
    %2 = input : f32[3]
    %3 = dot_general %0, %1 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : f32[2,3]
    %4 = broadcast %2 {sizes=[2,3]} : f32[2,3]
    %5 = mul %3, %4 : f32[2,3]
    return %5)",
                    false);
}

TEST(FoldScales, IsForFastMathAlone) {
  Graph graph = ParseGraph(kNormed);
  EXPECT_EQ(Optimise(graph, nullptr), graph);
  config::Override fast("fast_math", "true");
  EXPECT_NE(Optimise(graph, nullptr), graph);
}

}  // namespace
}  // namespace hammock
