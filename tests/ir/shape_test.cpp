#include "hammock/ir/shape.h"

#include <gtest/gtest.h>

#include "expect_error.h"

namespace hammock {
namespace {

TEST(Dims, EditsInPlace) {
  Dims dims = {2, 3};
  dims.push_back(5);
  dims.insert(0, 7);
  EXPECT_EQ(dims, Dims({7, 2, 3, 5}));
  dims.erase(1);
  EXPECT_EQ(ToString(dims), "[7,3,5]");
  dims.resize(4, 1);
  EXPECT_EQ(dims.vec(), (std::vector<int64_t>{7, 3, 5, 1}));
  EXPECT_EQ(ToString(Dims()), "[]");
}

TEST(Dims, HoldsAtMostEight) {
  Dims full = Dims::Filled(8, 1);
  EXPECT_THROW(full.push_back(1), ValueError);
  EXPECT_EQ(MessageOf<ValueError>([] { Dims(std::vector<int64_t>(9, 1)); }),
            "a shape has at most 8 dims, got 9");
  EXPECT_THROW(Dims::Filled(9, 0), ValueError);
}

TEST(Shape, PrintsAndCounts) {
  Shape shape(f32, {2, 3});
  EXPECT_EQ(shape.to_string(), "f32[2,3]");
  EXPECT_EQ(shape.numel(), 6);
  EXPECT_EQ(shape.bytes(), 24);
  EXPECT_EQ(Shape(i64, {}).to_string(), "i64[]");
  EXPECT_EQ(Shape(i64, {}).numel(), 1);
}

TEST(ContiguousStrides, CountsEmptyDimsAsOne) {
  EXPECT_EQ(ContiguousStrides({2, 3, 4}), Dims({12, 4, 1}));
  EXPECT_EQ(ContiguousStrides({2, 0, 4}), Dims({4, 4, 1}));
  EXPECT_EQ(ContiguousStrides({}), Dims());
}

TEST(CheckSizes, RefusesNegativeAndOverflowing) {
  CheckSizes("zeros", {0, 5});
  CheckSizes("zeros", {kMaxElements});
  EXPECT_EQ(MessageOf<ValueError>([] {
              CheckSizes("zeros", {2, -1});
            }),
            "zeros: sizes must not be negative: [2,-1]");
  EXPECT_EQ(MessageOf<ValueError>([] {
              CheckSizes("zeros", {int64_t{1} << 40, 1 << 30});
            }),
            "zeros: sizes [1099511627776,1073741824] overflow: at most 2^55 elements");
  EXPECT_THROW(CheckSizes("zeros", {0, int64_t{1} << 62, int64_t{1} << 62}), ValueError);
}

TEST(BroadcastSizes, AlignsRight) {
  EXPECT_EQ(BroadcastSizes("add", {2, 1}, {3}), Dims({2, 3}));
  EXPECT_EQ(BroadcastSizes("add", {}, {4, 5}), Dims({4, 5}));
  EXPECT_EQ(BroadcastSizes("add", {1, 0}, {7, 1}), Dims({7, 0}));
}

TEST(BroadcastSizes, NamesTheFirstBadDim) {
  EXPECT_EQ(MessageOf<ValueError>([] {
              BroadcastSizes("add", {2, 3}, {4, 3});
            }),
            "add: sizes do not broadcast: [2,3] and [4,3] differ at dim 0 (2 against 4)");
  EXPECT_EQ(MessageOf<ValueError>([] {
              BroadcastSizes("add", {2, 3}, {0});
            }),
            "add: sizes do not broadcast: [2,3] and [0] differ at dim 1 (3 against 0)");
}

TEST(WrapDim, CountsFromTheEnd) {
  EXPECT_EQ(WrapDim("sum", -1, 3), 2);
  EXPECT_EQ(WrapDim("sum", 0, 3), 0);
  EXPECT_EQ(WrapDim("sum", -1, 0), 0);
  EXPECT_EQ(WrapDim("sum", 0, 0), 0);
  EXPECT_EQ(MessageOf<ValueError>([] { WrapDim("sum", 3, 3); }),
            "sum: dim 3 is out of range: rank 3 needs -3 to 2");
  EXPECT_THROW(WrapDim("sum", 1, 0), ValueError);
}

TEST(WrapDims, FindsDuplicates) {
  EXPECT_EQ(WrapDims("sum", {-1, 0}, 3), Dims({2, 0}));
  EXPECT_EQ(WrapDims("sum", {}, 3), Dims({0, 1, 2}));
  EXPECT_EQ(MessageOf<ValueError>([] {
              WrapDims("sum", {1, -2}, 3);
            }),
            "sum: dim 1 appears twice in [1,-2]");
}

}  // namespace
}  // namespace hammock
