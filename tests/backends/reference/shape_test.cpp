#include "backends/run_graph.h"
#include "hammock/lazy/backend_interface.h"

namespace hammock {
namespace {

const HostTensor kSix = Make(f32, {2, 3}, {1, 2, 3, 4, 5, 6});

TEST(Shape, ReshapeKeepsOrderAndMemory) {
  HostTensor out = RunText(R"(
    %0 = input : f32[2,3]
    %1 = reshape %0 {sizes=[3,1,2]} : f32[3,1,2]
    return %1)",
                           {kSix});
  EXPECT_TENSOR(out, Make(f32, {3, 1, 2}, {1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(out.data(), kSix.data());
}

TEST(Shape, BroadcastStretchesOnesAndAddsDims) {
  EXPECT_TENSOR(RunText(R"(
    %0 = input : f32[2,1]
    %1 = broadcast %0 {sizes=[2,2,2]} : f32[2,2,2]
    return %1)",
                        {Make(f32, {2, 1}, {1, 2})}),
                Make(f32, {2, 2, 2}, {1, 1, 2, 2, 1, 1, 2, 2}));
  EXPECT_TENSOR(RunText(R"(
    %0 = input : i8[]
    %1 = broadcast %0 {sizes=[0,3]} : i8[0,3]
    return %1)",
                        {Make(i8, {}, {1})}),
                Make(i8, {0, 3}, {}));
}

TEST(Shape, PermuteMovesDims) {
  EXPECT_TENSOR(RunText(R"(
    %0 = input : f32[2,3]
    %1 = permute %0 {dims=[1,0]} : f32[3,2]
    return %1)",
                        {kSix}),
                Make(f32, {3, 2}, {1, 4, 2, 5, 3, 6}));
  EXPECT_TENSOR(RunText(R"(
    %0 = input : f64[]
    %1 = permute %0 {dims=[]} : f64[]
    return %1)",
                        {Make(f64, {}, {5})}),
                Make(f64, {}, {5}));
}

TEST(Shape, SliceStepsThroughOneDim) {
  EXPECT_TENSOR(RunText(R"(
    %0 = input : f32[2,3]
    %1 = slice %0 {dim=1, start=0, size=2, step=2} : f32[2,2]
    return %1)",
                        {kSix}),
                Make(f32, {2, 2}, {1, 3, 4, 6}));
  EXPECT_TENSOR(RunText(R"(
    %0 = input : f32[2,3]
    %1 = slice %0 {dim=0, start=2, size=0, step=1} : f32[0,3]
    return %1)",
                        {kSix}),
                Make(f32, {0, 3}, {}));
}

constexpr const char* kDynamic = R"(
    %0 = input : f32[2,3]
    %1 = input : i64[]
    %2 = dynamic_slice %0, %1 {dim=1, size=2, step=1} : f32[2,2]  @ model.cpp:7
    return %2)";

TEST(Shape, DynamicSliceStartsWhereTold) {
  EXPECT_TENSOR(RunText(kDynamic, {kSix, Make(i64, {}, {1})}), Make(f32, {2, 2}, {2, 3, 5, 6}));
}

TEST(Shape, DynamicSliceOutOfRangeRaises) {
  for (double start : {2.0, -1.0}) {
    try {
      RunText(kDynamic, {kSix, Make(i64, {}, {start})});
      ADD_FAILURE() << "no error at start " << start;
    } catch (const lazy::ExecutionError& error) {
      EXPECT_EQ(error.node(), NodeId(2));
      EXPECT_EQ(error.code(), ErrorCode::kIndexOutOfRange);
      EXPECT_EQ(error.where(), "model.cpp:7");
      EXPECT_EQ(error.message(),
                fmt::format("dynamic_slice: start ({}) + length (2) exceeds dimension size (3) of "
                            "dimension 1 (in %2 = dynamic_slice f32[2,3], i64[] : f32[2,2])",
                            start));
    }
  }
}

TEST(Shape, UpdateSliceWritesACopy) {
  EXPECT_TENSOR(RunText(R"(
    %0 = input : f32[2,3]
    %1 = input : f32[2,2]
    %2 = update_slice %0, %1 {dim=1, start=0, step=2} : f32[2,3]
    return %2)",
                        {kSix, Make(f32, {2, 2}, {-1, -2, -3, -4})}),
                Make(f32, {2, 3}, {-1, 2, -2, -3, 5, -4}));
  EXPECT_TENSOR(kSix, Make(f32, {2, 3}, {1, 2, 3, 4, 5, 6}));
}

TEST(Shape, DynamicUpdateSliceWritesWhereTold) {
  constexpr const char* kText = R"(
    %0 = input : f32[2,3]
    %1 = input : f32[1,3]
    %2 = input : i32[]
    %3 = dynamic_update_slice %0, %1, %2 {dim=0, step=1} : f32[2,3]
    return %3)";
  HostTensor row = Make(f32, {1, 3}, {7, 8, 9});
  EXPECT_TENSOR(RunText(kText, {kSix, row, Make(i32, {}, {1})}),
                Make(f32, {2, 3}, {1, 2, 3, 7, 8, 9}));
  EXPECT_THROW(RunText(kText, {kSix, row, Make(i32, {}, {2})}), lazy::ExecutionError);
}

TEST(Shape, PadAddsAndCrops) {
  EXPECT_TENSOR(RunText(R"(
    %0 = input : f32[2,3]
    %1 = input : f64[]
    %2 = pad_constant %0, %1 {low=[1,-1], high=[0,2]} : f32[3,4]
    return %2)",
                        {kSix, Make(f64, {}, {9})}),
                Make(f32, {3, 4}, {9, 9, 9, 9, 2, 3, 9, 9, 5, 6, 9, 9}));
  EXPECT_TENSOR(RunText(R"(
    %0 = input : f32[2,3]
    %1 = input : f32[]
    %2 = pad_constant %0, %1 {low=[0,-4], high=[0,2]} : f32[2,1]
    return %2)",
                        {kSix, Make(f32, {}, {9})}),
                Make(f32, {2, 1}, {9, 9}));
}

TEST(Shape, ConcatJoinsParts) {
  EXPECT_TENSOR(RunText(R"(
    %0 = input : f32[2,3]
    %1 = input : f32[2,0]
    %2 = input : f32[2,1]
    %3 = concat %0, %1, %2 {dim=1} : f32[2,4]
    return %3)",
                        {kSix, Make(f32, {2, 0}, {}), Make(f32, {2, 1}, {7, 8})}),
                Make(f32, {2, 4}, {1, 2, 3, 7, 4, 5, 6, 8}));
}

TEST(Shape, FlipReversesDims) {
  EXPECT_TENSOR(RunText(R"(
    %0 = input : f32[2,3]
    %1 = flip %0 {dims=[0,1]} : f32[2,3]
    return %1)",
                        {kSix}),
                Make(f32, {2, 3}, {6, 5, 4, 3, 2, 1}));
  EXPECT_TENSOR(RunText(R"(
    %0 = input : f32[0]
    %1 = flip %0 {dims=[0]} : f32[0]
    return %1)",
                        {Make(f32, {})}),
                Make(f32, {}));
}

TEST(Shape, AsStridedReadsAndWritesByStrides) {
  EXPECT_TENSOR(RunText(R"(
    %0 = input : f32[2,3]
    %1 = as_strided %0 {sizes=[3,2], strides=[1,1], offset=1} : f32[3,2]
    return %1)",
                        {kSix}),
                Make(f32, {3, 2}, {2, 3, 3, 4, 4, 5}));
  EXPECT_TENSOR(RunText(R"(
    %0 = input : f32[2,3]
    %1 = input : f32[2]
    %2 = as_strided_scatter %0, %1 {strides=[4], offset=1} : f32[2,3]
    return %2)",
                        {kSix, Make(f32, {8, 9})}),
                Make(f32, {2, 3}, {1, 8, 3, 4, 5, 9}));
}

}  // namespace
}  // namespace hammock
