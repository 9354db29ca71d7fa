#include "backends/cpu/interpret/lane_functions.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace hammock::cpu {
namespace {

TEST(LaneFunctions, AreThereForFloats) {
  EXPECT_EQ(LaneUnaryFor(ScalarFn::kExp, DType::kF64)(0), 1);
  EXPECT_NEAR(LaneUnaryFor(ScalarFn::kLgamma, DType::kF32)(4), std::log(6), 1e-14);
  EXPECT_EQ(LaneBinaryFor(ScalarFn::kFmod, DType::kF32)(7, -4), 3);
  EXPECT_EQ(LaneBinaryFor(ScalarFn::kRemainder, DType::kF32)(7, -4), -1);
  EXPECT_EQ(LaneBinaryFor(ScalarFn::kFloorDivide, DType::kF32)(7, -4), -2);
  EXPECT_EQ(LaneUnaryFor(ScalarFn::kExp, DType::kI32), nullptr);
  EXPECT_EQ(LaneUnaryFor(ScalarFn::kAdd, DType::kF32), nullptr);
  EXPECT_EQ(LaneBinaryFor(ScalarFn::kExp, DType::kF32), nullptr);
}

TEST(LaneFunctions, NextAfterIsThatOfTheDType) {
  EXPECT_EQ(LaneBinaryFor(ScalarFn::kNextafter, DType::kF64)(1, 2), 1 + 0x1p-52);
  EXPECT_EQ(LaneBinaryFor(ScalarFn::kNextafter, DType::kF32)(1, 2), 1 + 0x1p-23);
  EXPECT_EQ(LaneBinaryFor(ScalarFn::kNextafter, DType::kF16)(1, 2), 1 + 0x1p-10);
  EXPECT_EQ(LaneBinaryFor(ScalarFn::kNextafter, DType::kBF16)(1, 2), 1 + 0x1p-7);
}

TEST(LaneFunctions, GcdIsThereForIntegers) {
  LaneIntBinary gcd = LaneIntBinaryFor(ScalarFn::kGcd, DType::kI64);
  EXPECT_EQ(gcd(-12, 18), 6);
  EXPECT_EQ(gcd(0, -5), 5);
  int64_t smallest = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(gcd(smallest, -1), 1);
  EXPECT_EQ(gcd(smallest, 0), smallest);
  LaneIntBinary unsigned_gcd = LaneIntBinaryFor(ScalarFn::kGcd, DType::kU64);
  EXPECT_EQ(unsigned_gcd(smallest, 48), 16);
  EXPECT_EQ(LaneIntBinaryFor(ScalarFn::kGcd, DType::kF32), nullptr);
}

}  // namespace
}  // namespace hammock::cpu
