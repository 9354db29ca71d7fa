#include "backends/run_graph.h"

namespace hammock {
namespace {

TEST(DotGeneral, MultipliesMatrices) {
  EXPECT_TENSOR(
      RunText(R"(
    %0 = input : f32[2,3]
    %1 = input : f32[3,2]
    %2 = dot_general %0, %1 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : f32[2,2]
    return %2)",
              {Make(f32, {2, 3}, {1, 2, 3, 4, 5, 6}), Make(f32, {3, 2}, {7, 8, 9, 10, 11, 12})}),
      Make(f32, {2, 2}, {58, 64, 139, 154}));
}

TEST(DotGeneral, BatchesAndKeepsFreeDimsInOrder) {
  // Batch is dim 1 of a and dim 0 of b; the inner dim comes first in a and last in b.
  EXPECT_TENSOR(RunText(R"(
    %0 = input : i64[2,2,1]
    %1 = input : i64[2,3,2]
    %2 = dot_general %0, %1 {a_contract=[0], b_contract=[2], a_batch=[1], b_batch=[0]} : i64[2,1,3]
    return %2)",
                        {Make(i64, {2, 2, 1}, {1, 2, 3, 4}),
                         Make(i64, {2, 3, 2}, {1, 0, 0, 1, 1, 1, 2, 0, 0, 2, 2, 2})}),
                Make(i64, {2, 1, 3}, {1, 3, 4, 4, 8, 12}));
}

TEST(DotGeneral, WithoutInnerDimsIsAnOuterProduct) {
  EXPECT_TENSOR(RunText(R"(
    %0 = input : f32[2]
    %1 = input : f32[3]
    %2 = dot_general %0, %1 {a_contract=[], b_contract=[], a_batch=[], b_batch=[]} : f32[2,3]
    return %2)",
                        {Make(f32, {1, 2}), Make(f32, {3, 4, 5})}),
                Make(f32, {2, 3}, {3, 4, 5, 6, 8, 10}));
}

constexpr const char* kInner = R"(
    %0 = input : {0}
    %1 = input : {0}
    %2 = dot_general %0, %1 {{a_contract=[0], b_contract=[0], a_batch=[], b_batch=[]}} : {1}
    return %2)";

HostTensor Inner(const HostTensor& a, const HostTensor& b) {
  return RunText(
      fmt::format(fmt::runtime(kInner), a.shape().to_string(), Shape(a.dtype(), {}).to_string()),
      {a, b});
}

TEST(DotGeneral, OfNothingIsZero) {
  EXPECT_TENSOR(Inner(Make(f32, {}), Make(f32, {})), Make(f32, {}, {0}));
}

TEST(DotGeneral, AccumulatesInDoubleAndRoundsOnce) {
  EXPECT_TENSOR(Inner(Make(f32, {0x1p24, 1, 1}), Make(f32, {1, 1, 1})),
                Make(f32, {}, {0x1p24 + 2}));
  EXPECT_TENSOR(Inner(Make(f16, {300, 300, -300}), Make(f16, {300, 1, 300})), Make(f16, {}, {300}));
}

TEST(DotGeneral, IntegersWrapAndNanSpreads) {
  EXPECT_TENSOR(Inner(Make(i8, {100, 100}), Make(i8, {2, 1})), Make(i8, {}, {44}));
  EXPECT_TENSOR(Inner(Make(f32, {kInf, 1}), Make(f32, {0, 1})), Make(f32, {}, {kNan}));
}

TEST(DotGeneral, WideResultsUseSeveralStrips) {
  HostTensor ones = Make(f32, {2, 600}, std::vector<double>(1200, 1));
  HostTensor out = RunText(R"(
    %0 = input : f32[2,600]
    %1 = dot_general %0, %0 {a_contract=[0], b_contract=[0], a_batch=[], b_batch=[]} : f32[600,600]
    return %1)",
                           {ones});
  EXPECT_TENSOR(out, Make(f32, {600, 600}, std::vector<double>(360000, 2)));
}

TEST(Convolution, SlidesAKernel) {
  EXPECT_TENSOR(RunText(R"(
    %0 = input : f32[1,1,5]
    %1 = input : f32[1,1,2]
    %2 = convolution %0, %1 {stride=[2], padding=[1], dilation=[2], transposed=false, output_padding=[0], groups=1} : f32[1,1,3]
    return %2)",
                        {Make(f32, {1, 1, 5}, {1, 2, 3, 4, 5}), Make(f32, {1, 1, 2}, {10, 1})}),
                Make(f32, {1, 1, 3}, {2, 24, 40}));
}

TEST(Convolution, SumsChannelsWithinGroups) {
  EXPECT_TENSOR(RunText(R"(
    %0 = input : f32[1,4,2,2]
    %1 = input : f32[2,2,1,2]
    %2 = convolution %0, %1 {stride=[1,1], padding=[0,0], dilation=[1,1], transposed=false, output_padding=[0,0], groups=2} : f32[1,2,2,1]
    return %2)",
                        {Make(f32, {1, 4, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 1, 1, 1, 1, 2, 2, 2, 2}),
                         Make(f32, {2, 2, 1, 2}, {1, 0, 0, 1, 1, 1, 10, 10})}),
                Make(f32, {1, 2, 2, 1}, {7, 11, 42, 42}));
}

TEST(Convolution, TransposedSpreadsTheInput) {
  EXPECT_TENSOR(RunText(R"(
    %0 = input : f32[1,1,3]
    %1 = input : f32[1,2,2]
    %2 = convolution %0, %1 {stride=[2], padding=[0], dilation=[1], transposed=true, output_padding=[1], groups=1} : f32[1,2,7]
    return %2)",
                        {Make(f32, {1, 1, 3}, {1, 2, 3}), Make(f32, {1, 2, 2}, {1, 10, -1, 0})}),
                Make(f32, {1, 2, 7}, {1, 10, 2, 20, 3, 30, 0, -1, 0, -2, 0, -3, 0, 0}));
}

TEST(Convolution, TransposedOverlapsAdd) {
  EXPECT_TENSOR(
      RunText(R"(
    %0 = input : f32[1,2,2]
    %1 = input : f32[2,1,3]
    %2 = convolution %0, %1 {stride=[1], padding=[1], dilation=[1], transposed=true, output_padding=[0], groups=2} : f32[1,2,2]
    return %2)",
              {Make(f32, {1, 2, 2}, {1, 2, 3, 4}), Make(f32, {2, 1, 3}, {1, 1, 1, 2, 0, 1})}),
      Make(f32, {1, 2, 2}, {3, 3, 8, 3}));
}

TEST(Convolution, OfAnEmptyBatchIsEmpty) {
  EXPECT_TENSOR(RunText(R"(
    %0 = input : f32[0,1,3]
    %1 = input : f32[2,1,3]
    %2 = convolution %0, %1 {stride=[1], padding=[0], dilation=[1], transposed=false, output_padding=[0], groups=1} : f32[0,2,1]
    return %2)",
                        {Make(f32, {0, 1, 3}, {}), Make(f32, {2, 1, 3}, {1, 2, 3, 4, 5, 6})}),
                Make(f32, {0, 2, 1}, {}));
}

}  // namespace
}  // namespace hammock
